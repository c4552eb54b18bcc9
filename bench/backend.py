"""How long a job's window takes through real servers: push, read, localise, by size and layout.

    python -m bench.backend                    3,400 x 20 and 10,000 x 50 in labels, 100,000 x 20 in vec
    python -m bench.backend --only paper       3,400 x 20, labels, Prometheus, push to published finding (5 min at most)
    python -m bench.backend --only labels      10,000 x 50, labels, VictoriaMetrics (10 min at most)
    python -m bench.backend --only vec         100,000 x 20, vec, VictoriaMetrics (10 min at most)
    python -m bench.backend --only million     1,000,000 x 50, vec, VictoriaMetrics (40 min at most, 8 GB)
    python -m bench.backend --workers 500 --functions 20 --layout vec --server prometheus

Values lie within 3 % of each function's centre, with a seed; one worker in a thousand has a python function that takes
a fifth of its window. Prometheus and VictoriaMetrics run on loopback on this machine, with the reader beside them. What
a cluster spreads over its nodes, making the requests, is timed apart. In vec the reference is one row of medians for
the role, as a large job keeps it. A row is right where the slow ranks, and no others, are the culprits; a case that
takes longer than its limit (--limit SECONDS) ends, and so do its servers.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.synthetic.pushed import JOB, Case, in_labels, in_vectors, slow_ranks, template
from eroica_otel.export import remotewire
from eroica_otel.job import Localizer
from eroica_otel.joboptions import JobOptions
from eroica_otel.localize.verdict import judge, judge_columns
from eroica_otel.model import Report
from eroica_otel.query.backend import BackendReader
from eroica_otel.query.client import Backend
from eroica_otel.query.look import Spell
from eroica_otel.query.reading import Shown, Wanted
from eroica_otel.table import Table
from eroica_otel.tabled import table_of
from eroica_otel.webserver import Address

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from remote_write import decompressed
from servers import Server, prometheus, victoria_metrics

HEADERS = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
OPTIONS = {
    "prometheus": ["--query.max-samples=500000000", "--query.timeout=10m"],
    "victoriametrics": ["-search.maxUniqueTimeseries=5000000", "-search.maxQueryDuration=10m"],
}


CASES = {
    "paper": Case(3_400, 20, "labels", "prometheus", whole_loop=True, limit_seconds=300),
    "labels": Case(10_000, 50, "labels", "victoriametrics"),
    "vec": Case(100_000, 20, "vec", "victoriametrics"),
    "million": Case(1_000_000, 50, "vec", "victoriametrics", limit_seconds=2400),
}
USUAL = ("paper", "labels", "vec")


@dataclass
class Clock:
    """Seconds by what they were spent on."""

    encode: float = 0.0
    push: float = 0.0
    read: float = 0.0
    localise: float = 0.0
    published: float = 0.0
    reader_cpu: float = 0.0


def push(url: str, bodies: Iterator[bytes], clock: Clock) -> None:
    """Send requests one after the other."""
    while True:
        begin = time.perf_counter()
        body = next(bodies, None)
        clock.encode += time.perf_counter() - begin
        if body is None:
            return
        begin = time.perf_counter()
        asked = urllib.request.Request(f"{url}/api/v1/write", body, HEADERS, method="POST")
        with urllib.request.urlopen(asked, timeout=120) as answer:
            answer.read()
        clock.push += time.perf_counter() - begin


def through_localizer(case: Case, url: str, window_id: int, clock: Clock) -> Report:
    """Push while a localizer looks; return its verdict on all workers."""
    verdicts: list[Report] = []
    with tempfile.TemporaryDirectory() as state:
        backend = Backend(url, interval_seconds=1.0, timeout_seconds=120)
        options = JobOptions(None, Address("127.0.0.1", 0, "--metrics"), state, backend=backend)
        localizer = Localizer(options, judge, verdict=verdicts.append)
        try:
            localizer.start()
            begin = time.perf_counter()
            then = _now_millis()
            plain = [decompressed(body) for body in in_labels(case, window_id, then)]
            clock.encode = time.perf_counter() - begin
            begin = time.perf_counter()
            push(url, _anew(plain, then, _now_millis()), clock)
            cpu = time.process_time()
            # Where pushing takes longer than the localizer waits, a first verdict names the missing; the last has all.
            while not verdicts or verdicts[-1].workers_seen < case.workers:
                localizer.round()
                time.sleep(0.1)
            clock.published = time.perf_counter() - begin
            clock.reader_cpu = time.process_time() - cpu
        finally:
            localizer.close()
    return verdicts[-1]


def _anew(bodies: Sequence[bytes], then: int, now: int) -> Iterator[bytes]:
    """Yield requests that were made before, with the time at which they are sent: a localizer looks back a minute."""
    for body in bodies:
        yield remotewire.compressed(body.replace(remotewire._varint(then), remotewire._varint(now)))


def read_and_judge(case: Case, url: str, window_id: int, written: float, clock: Clock) -> Report:
    """Read a window into columns and judge them."""
    begin, cpu = time.perf_counter(), time.process_time()
    reader = BackendReader(Backend(url, timeout_seconds=600))
    if case.layout == "vec":
        # The series by which a window is found are sent all the time, so that no window has to bring them.
        table = reader.table(Spell(Shown("bench", JOB, window_id, "degraded", case.workers), written - 1, written + 10))
    else:
        ((_, table),) = reader.tables(Wanted(JOB, window_id=window_id))
    clock.read = time.perf_counter() - begin
    assert len(table.workers) == case.workers, "not all workers came back"
    begin = time.perf_counter()
    report = judge_columns(table, reference(case, window_id) if case.layout == "vec" else None, expected=case.workers)
    clock.localise = time.perf_counter() - begin
    clock.reader_cpu = time.process_time() - cpu
    return report


def reference(case: Case, window_id: int) -> Table:
    """Return the medians of the one role in the window before."""
    whole = template(0, case.functions, window_id - 60, case.workers)
    return table_of([replace(whole, reason="reference", identity=replace(whole.identity, rank=-1))])


def run(case: Case, folder: Path) -> None:
    """Measure one row and print it."""
    start = prometheus if case.server == "prometheus" else victoria_metrics
    clock = Clock()
    with start(folder, options=OPTIONS[case.server]) as server:
        window_id = int(time.time()) - 30
        if case.whole_loop:
            report = through_localizer(case, server.url, window_id, clock)
        else:
            millis = _now_millis()
            make = in_vectors if case.layout == "vec" else in_labels
            push(server.url, make(case, window_id, millis), clock)
            time.sleep(5)  # VictoriaMetrics shows what was written after a second or two
            report = read_and_judge(case, server.url, window_id, millis / 1000, clock)
        found = {rank for one in report.findings for rank in one.ranks}
        right = found == slow_ranks(case.workers)
        print(_row(case, clock, server, right), flush=True)


def _row(case: Case, clock: Clock, server: Server, right: bool) -> str:
    seconds, memory = usage(server.process.pid)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    published = f"{clock.published:.1f}" if clock.published else ""
    cells = [
        f"{case.workers:,} x {case.functions}", case.layout, case.server, f"{os.getloadavg()[0]:.0f}",
        f"{clock.encode:.1f}", f"{clock.push:.1f}",
        f"{clock.read:.1f}" if clock.read else "", f"{clock.localise:.1f}" if clock.localise else "", published,
        f"{clock.reader_cpu:.1f}", f"{seconds:.1f}", f"{memory:.2f}", f"{own:.2f}", "yes" if right else "NO",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def usage(pid: int) -> tuple[float, float]:
    """Return CPU seconds and GB of memory of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int(fields[21])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**30


def _now_millis() -> int:
    return int(time.time() * 1000)


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, action="append", default=[])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--functions", type=int, default=20)
    parser.add_argument("--layout", choices=("labels", "vec"), default="labels")
    parser.add_argument("--server", choices=tuple(OPTIONS), default="victoriametrics")
    parser.add_argument("--limit", type=int, default=0, metavar="SECONDS")
    given = parser.parse_args()
    if given.workers:
        cases = [Case(given.workers, given.functions, given.layout, given.server)]
    else:
        cases = [CASES[name] for name in given.only or USUAL]
    print("| workers x functions | layout | server | load | encode s | push s | read s | localise s | "
          "push to published s | reader CPU s | server CPU s | server GB | reader GB | right |")  # fmt: skip
    print(f"|{'---|' * 14}")
    for case in cases:
        with tempfile.TemporaryDirectory() as folder, at_most(given.limit or case.limit_seconds):
            run(case, Path(folder))
    return 0


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """End what takes longer, by an exception, so that its servers end too."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"not through after {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


if __name__ == "__main__":
    sys.exit(main())
