"""How long a job's window takes through real servers: push, read, localise, by size and layout.

    python bench/backend.py                          3,400 x 20 and 10,000 x 50 in labels, 100,000 x 20 in vec
    python bench/backend.py --only million           1,000,000 x 50 in vec (20 min, 8 GB)
    python bench/backend.py --workers 500 --functions 20 --layout vec --server prometheus

Values lie within 3 % of each function's centre, with a seed; one worker in a thousand has a python function that takes
a fifth of its window. Prometheus and VictoriaMetrics run on loopback on this machine, with the reader beside them. What
a cluster spreads over its nodes, making the requests, is timed apart. A row is right where the slow ranks, and no
others, are the culprits.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eroica_otel import names
from eroica_otel.export import remotewire
from eroica_otel.export.points import window_points
from eroica_otel.export.remotewritevec import VecLayout
from eroica_otel.job import Localizer
from eroica_otel.joboptions import JobOptions
from eroica_otel.localize.verdict import judge, judge_columns
from eroica_otel.model import Identity, Pattern, Point, Report, WorkerWindow
from eroica_otel.query.backend import BackendReader
from eroica_otel.query.client import Backend
from eroica_otel.query.look import Spell
from eroica_otel.query.reading import Shown, Wanted
from eroica_otel.query.wide import table_of
from eroica_otel.vectors import Vector
from eroica_otel.webserver import Address

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from remote_write import decompressed
from servers import Server, prometheus, victoria_metrics

JOB = "bench"
HEADERS = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
SERIES_A_REQUEST = 20_000
VECTORS_A_REQUEST = 2_000
OPTIONS = {
    "prometheus": ["--query.max-samples=500000000", "--query.timeout=10m"],
    "victoriametrics": ["-search.maxUniqueTimeseries=5000000", "-search.maxQueryDuration=10m"],
}
_SAMPLE = 18
"""Bytes of a sample in a request: tag, length, tag and float64, tag and a time of six bytes."""


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    workers: int
    functions: int
    layout: str
    server: str
    whole_loop: bool = False


CASES = {
    "paper": Case(3_400, 20, "labels", "prometheus", whole_loop=True),
    "labels": Case(10_000, 50, "labels", "victoriametrics"),
    "vec": Case(100_000, 20, "vec", "victoriametrics"),
    "million": Case(1_000_000, 50, "vec", "victoriametrics"),
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


def slow_ranks(workers: int) -> set[int]:
    return set(range(7, workers, 1000))


def function_ids(functions: int) -> list[str]:
    return [f"{at:012x}" for at in range(functions)]


def template(rank: int, functions: int, window_id: int, workers: int) -> WorkerWindow:
    """Return the window of a worker that lies on every function's centre.

    A slow rank spends a fifth of it in a python function more, and waits that much less for the others.
    """
    kinds = ("compute", "communication", "python")
    share = 0.9 / functions
    betas = [share] * functions
    if rank in slow_ranks(workers):
        waiting = [at for at in range(functions) if kinds[at % 3] == "communication"]
        for at in waiting:
            betas[at] -= 0.2 / len(waiting)
        betas[2] += 0.2
    patterns = tuple(
        Pattern(name, f"kernel<{at}, float>(Tensor const&)", kinds[at % 3], "collective" if at % 3 == 1 else "other",
                "cpu" if at % 3 else "sm_clock", betas[at], 0.5, 0.1)
        for at, name in enumerate(function_ids(functions))
    )  # fmt: skip
    sums = {kind: sum(betas[at] for at in range(functions) if kinds[at % 3] == kind) for kind in kinds}
    return WorkerWindow(
        Identity(JOB, rank, f"node-{rank // 8}", "bench", "all", workers, rank % 8, "run"), window_id, "degraded", 20.0,
        100, patterns, kinds={**sums, "idle": max(0.0, 1 - sum(sums.values()))}, end_timestamp_seconds=window_id + 20.0,
        cpu_seconds=10.0, signature="bench",
    )  # fmt: skip


def noisy(window: WorkerWindow, chance: np.random.Generator) -> WorkerWindow:
    """Return the window with 3 % of noise on every number of its patterns."""
    factors = 1 + 0.03 * chance.uniform(-1, 1, (len(window.patterns), 3))
    patterns = tuple(
        replace(one, beta=one.beta * each[0], mu=0.5 * each[1], sigma=0.1 * each[2])
        for one, each in zip(window.patterns, factors.tolist(), strict=True)
    )
    return replace(window, patterns=patterns)


def points(window: WorkerWindow) -> list[Point]:
    """Return what a worker shows: its window, and what says that it lives."""
    who = window.identity
    info = dict.fromkeys(("gpu_uuid", "pci_bus_id", "nic", "k8s_pod"), "")
    info |= {"local_rank": str(who.local_rank), "run_id": who.run_id, "restart": "0", "signature": window.signature}
    return [
        *window_points(window),
        Point(names.WORLD_SIZE.name, who.labels(), float(who.world_size)),
        Point(names.WORKER_INFO.name, who.labels() | info, 1.0),
        Point(names.ITERATIONS.name, who.labels(), 600.0),
    ]


def in_labels(case: Case, window_id: int, millis: int) -> Iterator[bytes]:
    """Yield the requests of all workers in the layout of labels."""
    chance = np.random.default_rng(1)
    series: list[tuple[remotewire.Labels, int]] = []
    for rank in range(case.workers):
        for point in points(noisy(template(rank, case.functions, window_id, case.workers), chance)):
            series.append((remotewire.labels(point.name, point.labels.items()), remotewire.value_bits(point.value)))
        if len(series) >= SERIES_A_REQUEST or rank == case.workers - 1:
            yield remotewire.request(series, millis)
            series = []


def in_vectors(case: Case, window_id: int, millis: int) -> Iterator[bytes]:
    """Yield the requests of all workers in layout vec: dictionaries first, then two vectors a worker."""
    layout = VecLayout(())
    chance = np.random.default_rng(1)
    kinds = [layout.split(points(template(rank, case.functions, window_id, case.workers))) for rank in (0, 7)]
    for _, found, own in kinds:
        yield remotewire.request((), millis, layout.dictionary(found, own, 0.0))
    bad = slow_ranks(case.workers)
    for first in range(0, case.workers, VECTORS_A_REQUEST):
        body = [
            _vector(vector, rank, chance, millis, case.workers)
            for rank in range(first, min(first + VECTORS_A_REQUEST, case.workers))
            for vector in kinds[rank in bad][1]
        ]
        yield remotewire.compressed(b"".join(body))


def _vector(vector: Vector, rank: int, chance: np.random.Generator, millis: int, workers: int) -> bytes:
    """Return one series of a request; numbers of patterns have 3 % of noise and nine digits."""
    values = np.array(vector.values)
    noise = np.array([slot.name in {metric.name for metric in names.PATTERN_SERIES} for slot in vector.slots])
    values[noise] = np.round(values[noise] * (1 + 0.03 * chance.uniform(-1, 1, int(noise.sum()))), 10)
    who = template_labels(rank, workers) | {"part": vector.part, "dict": vector.dict}
    text = b"".join(
        remotewire._field(1, remotewire._field(1, key.encode()) + remotewire._field(2, value.encode()))
        for key, value in remotewire.labels(names.VECTOR.name, who.items())
    )
    return remotewire._field(1, text + _samples(values, millis))


def template_labels(rank: int, workers: int) -> dict[str, str]:
    return Identity(JOB, rank, f"node-{rank // 8}", "bench", "all", workers).labels()


def _samples(values: NDArray[np.float64], millis: int) -> bytes:
    """Return samples a millisecond apart as they stand in a request."""
    out = np.zeros((len(values), _SAMPLE), np.uint8)
    out[:, :3] = (0x12, _SAMPLE - 2, 0x09)
    out[:, 3:11] = values.view(np.uint8).reshape(-1, 8)
    out[:, 11] = 0x10
    times = millis + np.arange(len(values))
    for at in range(6):
        out[:, 12 + at] = times >> 7 * at & 127 | (128 if at < 5 else 0)
    return out.tobytes()


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


def read_and_judge(case: Case, url: str, window_id: int, clock: Clock) -> Report:
    """Read a window in labels and judge it."""
    begin, cpu = time.perf_counter(), time.process_time()
    reader = BackendReader(Backend(url, timeout_seconds=600))
    windows = list(reader.windows(Wanted(JOB, window_id=window_id)))
    clock.read = time.perf_counter() - begin
    begin = time.perf_counter()
    report = judge(windows, expected=case.workers)
    clock.localise = time.perf_counter() - begin
    clock.reader_cpu = time.process_time() - cpu
    return report


def read_columns(case: Case, url: str, window_id: int, written: float, clock: Clock) -> Report:
    """Read a window in vec into columns and judge them."""
    begin, cpu = time.perf_counter(), time.process_time()
    reader = BackendReader(Backend(url, timeout_seconds=600))
    spell = Spell(Shown("bench", JOB, window_id, "degraded", case.workers), written - 1, written + 10)
    table = table_of(JOB, reader._asker.tables(spell))
    clock.read = time.perf_counter() - begin
    assert len(table.workers) == case.workers, "not all vectors came back"
    begin = time.perf_counter()
    report = judge_columns(table, expected=case.workers)
    clock.localise = time.perf_counter() - begin
    clock.reader_cpu = time.process_time() - cpu
    return report


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
            if case.layout == "vec":
                report = read_columns(case, server.url, window_id, millis / 1000, clock)
            else:
                report = read_and_judge(case, server.url, window_id, clock)
        found = {rank for one in report.findings for rank in one.ranks}
        right = found == slow_ranks(case.workers)
        print(_row(case, clock, server, right), flush=True)


def _row(case: Case, clock: Clock, server: Server, right: bool) -> str:
    seconds, memory = usage(server.process.pid)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    published = f"{clock.published:.1f}" if clock.published else ""
    cells = [
        f"{case.workers:,} x {case.functions}", case.layout, case.server, f"{clock.encode:.1f}", f"{clock.push:.1f}",
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
    given = parser.parse_args()
    if given.workers:
        cases = [Case(given.workers, given.functions, given.layout, given.server)]
    else:
        cases = [CASES[name] for name in given.only or USUAL]
    print("| workers x functions | layout | server | encode s | push s | read s | localise s | push to published s | "
          "reader CPU s | server CPU s | server GB | reader GB | right |")  # fmt: skip
    print(f"|{'---|' * 13}")
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            run(case, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
