"""What it costs a localizer to follow many workers in a backend: CPU time and memory, by number of workers.

    python -m bench.following                        10,000 and 50,000 workers, samples of a minute five seconds apart
    python -m bench.following --workers 131072 --parts 1

A backend in this process answers what is asked at each look: who lives, what each worker says of itself, in which state
it is and which window it shows. Windows themselves are read apart (bench/backend.py). Each number of workers is looked
at in a fresh process: once, which is when all are new, and a second time, when all have moved on. Fails where not all
are followed. Making the answers is not counted; the peak is that of the whole process, with one answer in it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from eroica_otel import names
from eroica_otel.query.client import Backend, Client
from eroica_otel.query.look import Asker
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.parts import endings
from eroica_otel.query.prometheus import PrometheusSource
from eroica_otel.query.store import Store

SIZES = (10_000, 50_000)
SPACING_SECONDS, BACK_SECONDS = 5, 65
NOW = 1_764_430_000
HOST_RANKS = 8


class Answers(Client):
    """A backend of one job, asked without a network."""

    def __init__(self, workers: int, digits: int) -> None:
        self.now = NOW
        self._workers, self.making_seconds = workers, 0.0
        parts = ((f'rank=~"{one}"' if one else "", one or ".*") for one in endings(digits))
        self._matching = {matcher: re.compile(one, re.DOTALL) for matcher, one in parts}

    def post(self, path: str, fields: Mapping[str, str]) -> bytes:
        """Return the answer to a question about one metric."""
        began = time.process_time()
        question = fields["query"]
        part = next(one for matcher, one in self._matching.items() if matcher in question)
        ranks = (rank for rank in range(self._workers) if part.fullmatch(str(rank)))
        name = question.partition('"')[2].partition('"')[0]
        rows = ",".join(self._row(name, rank, whole="ms]" in question) for rank in ranks)
        body = f'{{"status":"success","data":{{"resultType":"matrix","result":[{rows}]}}}}'.encode()
        self.making_seconds += time.process_time() - began
        return body

    def _row(self, name: str, rank: int, *, whole: bool) -> str:
        own = {"training_job": "llm-7b", "team": "vision", "rank": str(rank), "host": f"node-{rank // HOST_RANKS:06}",
               "role": "all", "instance": f"10.0.0.1:{rank}", "job": "training"}  # fmt: skip
        more = {
            names.WORKER_INFO.name: {"local_rank": "0", "run_id": "run-1", "restart": "0", "signature": "loop-1"},
            names.WORKER_STATE.name: {"state": "healthy"},
            names.WINDOW_ID.name: {"reason": "reference"},
        }.get(name, {})
        value = {names.WORLD_SIZE.name: self._workers, names.WINDOW_ID.name: NOW - 3600}.get(name, 1)
        times = range(self.now - BACK_SECONDS, self.now, SPACING_SECONDS) if whole else (self.now,)
        samples = [[when, str(value)] for when in times]
        told: dict[str, Any] = {"metric": {"__name__": name, **own, **more}}
        return json.dumps(told | ({"values": samples} if whole else {"value": samples[0]}), separators=(",", ":"))


def one(workers: int, digits: int) -> dict[str, Any]:
    """Look twice in this process and return what it took."""
    store, answers = Store(workers=workers), Answers(workers, digits)
    now = iter(float(second) for second in range(1, 10**9))

    def take(delivery: Delivery) -> None:
        store.add(delivery, next(now) / workers)

    source = PrometheusSource(Backend("http://127.0.0.1:1"), take, say=print, workers=workers)
    source._asker = Asker(answers, "")
    source._asker.parts._digits = digits
    # The window that all show is an old one, so that none is read.
    source._pending = lambda found: iter(())  # type: ignore[method-assign]
    looks = list(_looks(source, answers))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gc.collect()
    return {
        "first_seconds": looks[0],
        "second_seconds": looks[1],
        "kept_mib": _resident() / 2**20,
        "peak_mib": peak / 1024,
        "right": sum(len(job.workers) for job in store.jobs()) == workers and source.failures == 0,
    }


def _looks(source: PrometheusSource, answers: Answers) -> Iterator[float]:
    for _ in range(2):
        began, making = time.process_time(), answers.making_seconds
        source.look()
        yield time.process_time() - began - (answers.making_seconds - making)
        answers.now += SPACING_SECONDS


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--parts", type=int, default=1, metavar="DIGITS", help="last digits by which it is asked")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, given.parts)))
        return 0
    print(f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, load "
          f"{os.getloadavg()[0]:.1f}, {time.strftime('%d %B %Y')}\n")  # fmt: skip
    print("| workers | first look, CPU seconds | a later one | us a worker | MiB that stay | peak MiB | right |")
    print("|---|---|---|---|---|---|---|")
    right = True
    for workers in given.workers:
        words = [sys.executable, "-m", "bench.following", "--one", str(workers), "--parts", str(given.parts)]
        took = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
        right &= took["right"]
        print(
            f"| {workers:,} | {took['first_seconds']:.2f} | {took['second_seconds']:.2f} "
            f"| {1e6 * took['second_seconds'] / workers:.0f} | {took['kept_mib']:.0f} | {took['peak_mib']:.0f} "
            f"| {'yes' if took['right'] else 'NO'} |",
            flush=True,
        )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
