"""How long training stands still for one window, by the number of events in it, with free cores and with busy ones.

    python bench/blocked.py                                    0.1, 0.3 and 1 million events, free and busy
    python bench/blocked.py --events 20000 --rounds 1 --cores free

The training is that of window_cost.py on the CPU, the window our own capture in mode ``light``. Each figure is the
median of fresh processes that take turns. Busy means an endless loop on every core. "Stood still" is all that the
window keeps the training thread from its work: start, torch's stop, its save, and our own rest (samplers, writing of
the samples, freeing what torch recorded). CPU seconds are those of that thread: what it takes where nobody disturbs it.

Beside each window, for as many iterations and in a fresh process too, torch alone: its public profiler as its users
start it, stop and export, without anything of ours and without freeing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bench.window_cost import State, fill, run, training, window_of
from eroica_otel.profile.kineto import TorchProfiler, UserProfiler
from eroica_otel.summarize.readers.kineto import read

SIZES = (100_000, 300_000, 1_000_000)
CORES = ("free", "busy")
QUIET = 0.1
"""Share of the machine that others may use while cores count as free."""
_TICKS = os.sysconf("SC_CLK_TCK")
Figures = dict[str, float]


class TimedProfiler(TorchProfiler):
    """torch's profiler as the plugin uses it; says how long its stop and its save took."""

    stop_seconds = save_seconds = 0.0

    def stop(self) -> Any:
        begin = time.perf_counter()
        self._result = super().stop()
        self.stop_seconds = time.perf_counter() - begin
        return self

    def save(self, path: str) -> None:
        """Save what was recorded and let go of it, as the plugin does."""
        begin = time.perf_counter()
        self._result.save(path)
        self.save_seconds = time.perf_counter() - begin
        del self._result


class Stretch:
    """Adds up wall time, CPU time of this thread, and the share of the machine that other processes used."""

    def __init__(self) -> None:
        self.wall = self.cpu = self._others = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Count what runs inside."""
        begin = (time.perf_counter(), time.thread_time(), _machine() - time.process_time())
        yield
        wall, cpu, others = time.perf_counter(), time.thread_time(), _machine() - time.process_time()
        self.wall, self.cpu = self.wall + wall - begin[0], self.cpu + cpu - begin[1]
        self._others += others - begin[2]

    def others(self) -> float:
        """Return the share of all cores that others used, in [0, 1]."""
        return max(0.0, self._others / (self.wall * (os.cpu_count() or 1)))


def _machine() -> float:
    """Return the CPU seconds that the whole machine has used since it was started."""
    user, nice, system, _, _, irq, softirq = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    return sum(map(int, (user, nice, system, irq, softirq))) / _TICKS


def measure(events: int) -> Figures:
    """Return what a window of about so many events costs here; a window of two iterations tells how many to take."""
    torch.set_num_threads(1)  # on shared cores more threads wait for one another, and times mean nothing
    state = training("cpu")
    run(30, state)
    user = UserProfiler(torch, lambda: None)
    with tempfile.TemporaryDirectory() as folder:
        probe = window_of(TorchProfiler(torch, "light", user), 2, Path(folder) / "window-1")
        fill(probe, state, 2)
        each = read(probe.stop({}).trace, (0, 0)).total / 2
        profiler, iterations, still = TimedProfiler(torch, "light", user), max(2, round(events / each)), Stretch()
        window = window_of(profiler, iterations, Path(folder) / "window-2")
        fill(window, state, iterations)
        still.wall = window.blocked_seconds
        with still.measured():
            captured = window.stop({})
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        found = read(captured.trace, captured.realtime_offset_ns).total
        size = os.path.getsize(captured.trace)
    user.close()
    return {
        "events": found, "iterations": iterations, "still": still.wall,
        "stop": profiler.stop_seconds, "save": profiler.save_seconds,
        "rest": still.wall - profiler.stop_seconds - profiler.save_seconds, "cpu": still.cpu, "others": still.others(),
        "bytes": size / found, "peak": peak,
    }  # fmt: skip


def alone(iterations: int) -> Figures:
    """Return what torch's own profiler costs for so many iterations; a session of two before, as ours has."""
    torch.set_num_threads(1)
    state = training("cpu")
    run(30, state)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "trace.json")
        session(2, state, path)
        still = session(iterations, state, path)
        return {"events": read(path, (0, 0)).total, "still": still.wall, "cpu": still.cpu, "others": still.others()}


def session(iterations: int, state: State, path: str) -> Stretch:
    """Train under torch's public profiler; return what its stop and its export took."""
    profiler, still = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]), Stretch()
    profiler.start()
    run(iterations, state)
    with still.measured():
        profiler.stop()
        profiler.export_chrome_trace(path)
    return still


@contextmanager
def load(cores: str) -> Iterator[None]:
    """Keep every core busy, or none."""
    count = (os.cpu_count() or 1) if cores == "busy" else 0
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def fresh(option: str, number: int) -> Figures:
    """Return the figures that this script prints in a fresh process."""
    command = [sys.executable, __file__, option, str(number)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def pair(events: int, cores: str) -> Figures:
    """Return the figures of a window, with those of torch alone for as many iterations beside them."""
    with load(cores):
        ours = fresh("--one", events)
        theirs = fresh("--alone", int(ours["iterations"]))
    return ours | {"alone": theirs["cpu"] / theirs["events"] * ours["events"], "ratio": ours["cpu"] / theirs["cpu"]}


def row(cores: str, runs: list[Figures]) -> str:
    """Return one line of the table."""

    def middle(name: str) -> float:
        return statistics.median(one[name] for one in runs)

    def million(name: str) -> float:
        return statistics.median(one[name] / one["events"] * 1e6 for one in runs)

    every = [one["still"] / one["events"] * 1e6 for one in runs]
    disturbed = " (not free)" if cores == "free" and middle("others") > QUIET else ""
    cells = (
        cores + disturbed, f"{middle('events'):,.0f}", f"{middle('still'):.2f}",
        f"{statistics.median(every):.2f} ({min(every):.2f} to {max(every):.2f})",
        *(f"{million(name):.2f}" for name in ("stop", "save", "rest", "cpu", "alone")), f"{middle('ratio'):.2f}",
        f"{100 * middle('others'):.0f} %", f"{middle('peak') / 2**20:.0f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table, or with --one EVENTS or --alone ITERATIONS the figures of one window as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--cores", choices=CORES, nargs="+", default=list(CORES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one or given.alone:
        print(json.dumps(measure(given.one) if given.one else alone(given.alone)), flush=True)
        return
    runs: dict[tuple[str, int], list[Figures]] = {}
    for _ in range(given.rounds):
        for events in given.events:
            for cores in given.cores:
                runs.setdefault((cores, events), []).append(pair(events, cores))
    print(
        "| cores | events | stood still, s | s per million | stop | save | rest | CPU s "
        "| torch alone, CPU s | ours / alone, same iterations | others use | peak MiB |"
    )
    print("|---" * 12 + "|")
    for (cores, _), found in sorted(runs.items(), key=lambda item: (CORES.index(item[0][0]), item[0][1])):
        print(row(cores, found))


if __name__ == "__main__":
    main()
