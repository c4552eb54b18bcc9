"""Does a training keep its speed when the localizer (with its receiver) or a helper is killed under it?

The demo's training runs with all its processes; then the localizer is killed and started again, then one helper, over
and over. Iteration times of all ranks are taken from their own status files, for equally long stretches with and
without the killed process; the ratio of the medians is compared round by round, so that what else the machine does
meets both.

    python bench/kill_cost.py [--rounds 5] [--seconds 8]
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from eroica_otel.demo.stage import RANKS, Stage
from eroica_otel.status import STATUS_FILE, StatusReader, live_workers

WARM_ITERATIONS = 120


class Periods:
    """Iteration times of all ranks."""

    def __init__(self, stage: Stage) -> None:
        self._readers = [StatusReader(folder / STATUS_FILE) for folder, _ in live_workers(stage.workers_folder)]

    def median(self, seconds: float) -> float:
        """Return the median iteration time of the next ``seconds``."""
        self._take()
        time.sleep(seconds)
        return float(np.nanmedian(self._take()))

    def _take(self) -> np.ndarray:
        rows = [seen[2][:, 1] for reader in self._readers if (seen := reader.read()) is not None]
        return np.concatenate(rows)


def wait_for(stage: Stage, iterations: int) -> None:
    """Wait until all ranks are that far."""
    while len(workers := stage.workers()) < RANKS or min(worker.iterations for worker in workers) < iterations:
        stage.check()
        time.sleep(0.5)


def helper_of(pid: int) -> int:
    """Return the process id of a worker's helper."""
    found = subprocess.run(["pgrep", "-P", str(pid), "-f", "eroica_otel.helper"], capture_output=True, check=True)
    return int(found.stdout.split()[0])


def one_round(stage: Stage, periods: Periods, seconds: float) -> dict[str, float]:
    """Return iteration time without over with, for each process that is killed."""
    ratios = {}
    whole = periods.median(seconds)
    os.kill(stage.pid("localizer"), signal.SIGKILL)
    ratios["localizer"] = periods.median(seconds) / whole
    stage.restart_localizer()
    time.sleep(seconds)
    whole = periods.median(seconds)
    os.kill(helper_of(stage.workers()[1].pid), signal.SIGKILL)
    ratios["helper"] = periods.median(seconds) / whole
    return ratios


def main() -> int:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each stretch")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Stage(Path(folder), 5.0) as stage:
        wait_for(stage, WARM_ITERATIONS)
        periods = Periods(stage)
        rounds = [one_round(stage, periods, arguments.seconds) for _ in range(arguments.rounds)]
    for killed in rounds[0]:
        ratios = sorted(one[killed] for one in rounds)
        print(
            f"{killed} killed: iteration time x {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
