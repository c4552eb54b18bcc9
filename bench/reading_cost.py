"""What reading a window's trace costs the trainings beside it: by the helper alone, and by it and its second process.

    python bench/reading_cost.py                       1 million events beside as many trainings as there are cores
    python bench/reading_cost.py --trainings 1         one core left

Trainings are those of window_cost.py on the CPU, one thread each. The summary runs as the helper runs it, at its
niceness. In each round its three rows take turns, so that a ratio compares neighbours; the mean is compared, because
readers make few iterations much longer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from bench.summarize import OURS
from bench.synthetic import kineto
from bench.window_cost import run, training
from eroica_otel.config import WorkerConfig

ROWS = ("nothing", "one process", "two processes")
Span = tuple[float, float]


def train(until: Path) -> None:
    """Train until a file is there; print when each iteration began, on the clock that all processes share."""
    torch.set_num_threads(1)
    state, begins = training("cpu"), []
    while not until.exists():
        begins.append(time.perf_counter())
        run(1, state)
    print(json.dumps(begins), flush=True)


def beside(row: str, trace: Path, seconds: float) -> tuple[Span, dict[str, Any]]:
    """Do what stands in the row; return from when to when it went on, and the figures of the summary."""
    begin, figures = time.perf_counter(), {"cpu_seconds": 0.0}
    if row == "nothing":
        time.sleep(seconds)
    else:
        command = [sys.executable, str(OURS), str(trace), *(["alone"] if row == "one process" else [])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as summary:
            nice = os.getpriority(os.PRIO_PROCESS, 0) + WorkerConfig.from_env({}).helper_nice
            os.setpriority(os.PRIO_PROCESS, summary.pid, nice)
            figures = json.loads(summary.communicate()[0].splitlines()[-1])
    return (begin, time.perf_counter()), figures


def iteration_seconds(begins: list[float], span: Span) -> float:
    """Return the mean time of the iterations that lie in a span; NaN without any."""
    inside = [begin for begin in begins if span[0] <= begin <= span[1]]
    return (inside[-1] - inside[0]) / (len(inside) - 1) if len(inside) > 1 else float("nan")


def measure(trace: Path, folder: Path, trainings: int, rounds: int, seconds: float) -> list[str]:
    """Return a line of the table for each row."""
    stop = folder / "stop"
    command = [sys.executable, __file__, "--train", str(stop)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(trainings)]
    try:
        time.sleep(seconds)  # until all of them train
        done = [(row, *beside(row, trace, seconds)) for _ in range(rounds) for row in ROWS]
    finally:
        stop.touch()
        told = [json.loads(one.communicate()[0].splitlines()[-1]) for one in running]
    means = [statistics.mean(iteration_seconds(begins, span) for begins in told) for _, span, _ in done]
    return [line(row, done[place :: len(ROWS)], means, place) for place, row in enumerate(ROWS)]


def line(row: str, done: list[tuple[str, Span, dict[str, Any]]], means: list[float], place: int) -> str:
    ratios = [mine / base for mine, base in zip(means[place :: len(ROWS)], means[:: len(ROWS)], strict=True)]
    took = statistics.median(end - begin for _, (begin, end), _ in done)
    cpu = statistics.median(figures["cpu_seconds"] for *_, figures in done)
    spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return f"| {row} | {took:.1f} | {cpu:.2f} | {1e3 * means[place]:.1f} | {spread} |"


def main() -> None:
    """Print the table; with --train be one of the trainings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--trainings", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long nothing runs beside, in each round")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train is not None:
        train(given.train)
        return
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / f"synthetic-{given.events}.json"
        kineto.write(trace, given.events)
        print(f"load {os.getloadavg()[0]:.1f}, {given.trainings} trainings on {os.cpu_count()} cores\n")
        print("| beside the training | seconds | CPU s | ms an iteration, first round | times the one without |")
        print("|---" * 5 + "|")
        print("\n".join(measure(trace, Path(folder), given.trainings, given.rounds, given.seconds)))


if __name__ == "__main__":
    main()
