"""What the verdict on a window of many workers costs: time, CPU and memory, by number of workers.

    python bench/localize.py                          1 k, 10 k, 100 k and 1 M workers, 50 functions each
    python bench/localize.py --workers 3400 --reference whole

Windows are made as columns by bench/synthetic/fleet.py with a seed; each is judged in a fresh process and one worker of
it is a culprit. Fails where that one is not named, or another one is. ``--reference whole`` compares with one of every
worker, ``medians`` with the medians of all. Making the columns is timed apart; the peak is that of the whole
process, with the columns in it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.synthetic import fleet
from eroica_otel.localize.verdict import judge_columns

SIZES = (1_000, 10_000, 100_000, 1_000_000)
REFERENCES = ("none", "medians", "whole")


def one(workers: int, functions: int, reference: str) -> dict[str, Any]:
    """Judge one window in this process and return what it took."""
    began = time.perf_counter()
    table = fleet.table(workers, functions)
    before = None if reference == "none" else fleet.table(workers, functions, healthy=True)
    if before is not None and reference == "medians":
        before = fleet.medians(before)
    made, cpu = time.perf_counter(), time.process_time()
    report = judge_columns(table, before, expected=workers)
    ended, used = time.perf_counter(), time.process_time() - cpu
    named = [finding.ranks for finding in report.findings if finding.severity != "info"]
    return {
        "made_seconds": made - began,
        "seconds": ended - made,
        "cpu_seconds": used,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "right": named == [(fleet.culprit(workers),)],
        "causes": [finding.cause for finding in report.findings],
    }


def fresh(workers: int, functions: int, reference: str) -> dict[str, Any]:
    """Judge one window in a process of its own."""
    words = [str(Path(__file__).resolve()), "--one", str(workers), "--functions", str(functions)]
    done = subprocess.run(
        [sys.executable, *words, "--reference", reference], stdout=subprocess.PIPE, text=True, check=True
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--functions", type=int, default=50)
    parser.add_argument("--reference", choices=REFERENCES, default="none")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, given.functions, given.reference)))
        return 0
    print(f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, load "
          f"{os.getloadavg()[0]:.1f}, {time.strftime('%d %B %Y')}\n")  # fmt: skip
    print("| workers | functions | reference | seconds | CPU seconds | us a pattern | peak MiB | right |")
    print("|---|---|---|---|---|---|---|---|")
    right = True
    for workers in given.workers:
        took = fresh(workers, given.functions, given.reference)
        right &= took["right"]
        print(
            f"| {workers:,} | {given.functions} | {given.reference} | {took['seconds']:.2f} "
            f"| {took['cpu_seconds']:.2f} | {1e6 * took['cpu_seconds'] / workers / given.functions:.2f} "
            f"| {took['peak_mib']:.0f} | {'yes' if took['right'] else 'NO: ' + ', '.join(took['causes'])} |",
            flush=True,
        )
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
