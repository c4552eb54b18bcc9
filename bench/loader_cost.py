"""What the thread beside a DataLoader's process costs: asleep, in a window, and for each batch.

    python -m bench.loader_cost [--seconds 20]

A forked process takes a task every 10 ms and works 5 ms on it. Read are CPU time and switches of its threads but the
main one (/proc/PID/task/TID), for ``--seconds`` outside and for as long inside a window.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from eroica_otel.profile import loaderfiles
from eroica_otel.profile.bell import LOADERS_FILE, Bell
from eroica_otel.profile.loaders import Batches, WorkerLoop

HERTZ = 1000.0
ROUNDS, CALLS = 7, 20_000


def _worker_loop(index_queue: Any, data_queue: Any, num_workers: int) -> None:
    while index_queue.get() is not None:
        end = time.perf_counter() + 0.005
        while time.perf_counter() < end:
            pass
        time.sleep(0.005)


class Endless:
    """Tasks without end."""

    def get(self, timeout: float = 0.0) -> int:
        return 1


def _use(process: int) -> tuple[float, int]:
    """Return (CPU seconds, switches) so far of all threads but the main one."""
    seconds, switches = 0.0, 0
    for thread in Path(f"/proc/{process}/task").iterdir():
        if int(thread.name) != process:
            seconds += int((thread / "schedstat").read_text().split()[0]) / 1e9
            lines = (thread / "status").read_text().splitlines()
            switches += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return seconds, switches


def _over(process: int, seconds: float) -> tuple[float, float]:
    before = _use(process)
    time.sleep(seconds)
    after = _use(process)
    return (after[0] - before[0]) / seconds, (after[1] - before[1]) / seconds


def _per_batch() -> float:
    """Return seconds of CPU that a watched queue adds to a batch, the least of several rounds."""

    def least(get: Any) -> float:
        rounds = []
        for _ in range(ROUNDS):
            begin = time.process_time()
            for _ in range(CALLS):
                get(timeout=5.0)
            rounds.append((time.process_time() - begin) / CALLS)
        return min(rounds)

    return least(Batches(Endless()).get) - least(Endless().get)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / f"pid-{os.getpid()}"
        (folder / "window-1").mkdir(parents=True)
        bell = Bell(folder / LOADERS_FILE, create=True)
        loop = WorkerLoop(__name__, directory, _worker_loop)
        process = multiprocessing.get_context("fork").Process(target=loop, args=(Endless(), None, 1), daemon=True)
        process.start()
        assert process.pid is not None
        time.sleep(1.0)
        print("| | CPU of its threads, ms a second | switches a second |\n|---|---|---|")
        cpu, switches = _over(process.pid, seconds)
        print(f"| asleep | {1000 * cpu:.3f} | {switches:.2f} |")
        bell.ring(1, HERTZ)
        cpu, switches = _over(process.pid, seconds)
        bell.silence(1)
        time.sleep(1.0)
        print(f"| in a window | {1000 * cpu:.1f} | {switches:.0f} |")
        (found,) = loaderfiles.read(folder / "window-1")
        size = next((folder / "window-1").glob(loaderfiles.PATTERN)).stat().st_size
        process.kill()
        print(f"\n{found.stack_ns.size / seconds:.0f} samples a second, {size / found.stack_ns.size:.0f} bytes each")
    print(f"{1e6 * _per_batch():.2f} us of CPU for each batch")


if __name__ == "__main__":
    main()
