"""What eroica_otel costs always: CPU time of the training thread per iteration, with and without the hooks, in one run.

Blocks of iterations with and without hooks alternate in one process, while the rest (1 Hz thread, helper process) runs
all the time. Thread CPU time is compared, because wall time on a shared machine says nothing about microseconds. The
loop is as small as a loop can be (a DataLoader without workers, SGD on one parameter), so that the difference stands
out; it rests between blocks, so that the 1 Hz thread learns from thousands of iterations a second, not tens of them.

    python bench/overhead.py [--pairs 60] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import tempfile
import time

import torch
from torch.utils.data import DataLoader, Dataset

import eroica_otel
from eroica_otel.signals.hooks import Hooks

ITERATIONS = 1000
WARM_UP = 200
"""Iterations before each block that are not counted: setting hooks makes the interpreter specialise its code anew."""
REST_SECONDS = 0.1
BAR_MICROSECONDS = 2.0


class Numbers(Dataset[int]):
    """As cheap an input as there is."""

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> int:
        return index


def measure(pairs: int) -> dict[str, float]:
    """Return microseconds per iteration without, with, and their median difference with a 95 % interval."""
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    batches = iter(DataLoader(Numbers(), batch_size=None))
    handle = eroica_otel.instrument(directory=tempfile.mkdtemp(), reference=False, degraded_ratio=10)

    def run(iterations: int) -> float:
        begin = time.thread_time_ns()
        for _ in range(iterations):
            next(batches)
            optimizer.step()
        return (time.thread_time_ns() - begin) / iterations / 1000

    run(ITERATIONS)
    handle._hooks.close()  # type: ignore[union-attr]
    without, differences = [], []
    for _ in range(pairs):
        measured: dict[bool, float] = {}
        for hooked in random.sample((False, True), 2):
            hooks = Hooks(handle.recorder) if hooked else None
            run(WARM_UP)
            measured[hooked] = run(ITERATIONS)
            if hooks is not None:
                hooks.close()
            time.sleep(REST_SECONDS)
        without.append(measured[False])
        differences.append(measured[True] - measured[False])
    handle.close()
    differences.sort()
    margin = 0.98 * len(differences) ** 0.5
    middle = len(differences) / 2
    return {
        "without_us": statistics.median(without),
        "added_us": statistics.median(differences),
        "added_low_us": differences[max(0, int(middle - margin))],
        "added_high_us": differences[min(len(differences) - 1, int(middle + margin))],
    }


def main() -> int:
    """Print the figures; 1 when the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--json", default="")
    arguments = parser.parse_args()
    os.environ.setdefault("OTEL_METRICS_EXPORTER", "none")
    torch.set_num_threads(1)
    figures = measure(arguments.pairs)
    print(
        f"an iteration without: {figures['without_us']:.2f} us; eroica_otel adds {figures['added_us']:.2f} us "
        f"({figures['added_low_us']:.2f} to {figures['added_high_us']:.2f}); bar {BAR_MICROSECONDS:g} us; "
        f"torch {torch.__version__}, Python {platform.python_version()}"
    )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(figures, file)
    return int(figures["added_us"] > BAR_MICROSECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
