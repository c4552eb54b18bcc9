"""How often the demo's verdict is right: N runs of each fault, the faulty rank chosen at random.

A run is right when the one finding above info names the injected rank and cause and no healthy worker (FAULT=none: when
there is no such finding although a window was judged). A run is void when processes outside its own tree, and steal,
took more than 10 % of the machine; void runs are shown and made again.

    python bench/repeat_demo.py [--runs 5] [--out build/repeat] [--faults python,input,none] [--backend prometheus]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

OUTSIDE_SHARE = 0.10
MOST_VOID = 2
TICK = os.sysconf("SC_CLK_TCK")


class Machine:
    """CPU seconds of the whole machine, and of one tree of processes, between two looks."""

    def __init__(self, marker: str, root: int) -> None:
        self._marker = marker.encode()
        self._members = {root}
        self._used: dict[tuple[int, int], float] = {}
        self._begin = self._busy()
        self._started = time.monotonic()

    def _busy(self) -> float:
        """Return user + nice + system + irq + softirq + steal of all cores."""
        fields = [int(text) for text in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        return (sum(fields[:3]) + sum(fields[5:8])) / TICK

    def look(self) -> None:
        """Take note of what the tree has used so far; a process counts once seen under it, or by its folder."""
        rows = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                    rows[int(entry.name)] = (stat, (entry / "cmdline").read_bytes())
                except (OSError, IndexError):
                    continue
        grew = True
        while grew:
            fresh = {
                pid
                for pid, (stat, command) in rows.items()
                if pid not in self._members and (int(stat[1]) in self._members or self._marker in command)
            }
            self._members |= fresh
            grew = bool(fresh)
        for pid in self._members & rows.keys():
            stat = rows[pid][0]
            self._used[pid, int(stat[19])] = (int(stat[11]) + int(stat[12])) / TICK

    def outside_share(self) -> float:
        """Return the part of the machine's capacity that others used since the start."""
        capacity = (time.monotonic() - self._started) * (os.cpu_count() or 1)
        return max(0.0, self._busy() - self._begin - sum(self._used.values())) / capacity


@dataclass(frozen=True)
class Run:
    """What one demo gave."""

    fault: str
    right: bool
    outside: float
    seconds: float
    verdict: str


def play(fault: str, out: Path, backend: str, window: str) -> Run:
    """Run the demo once."""
    begin = time.monotonic()
    options = ["--fault", fault, "--out", str(out), "--backend", backend, "--window", window]
    command = [sys.executable, "-m", "eroica_otel.commands.main", "demo", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    machine = Machine(str(out), process.pid)
    while process.poll() is None:
        machine.look()
        time.sleep(0.5)
    errors = process.stderr.read().decode().strip() if process.stderr is not None else ""
    verdict = _verdict(out) + (f" [{errors.splitlines()[-1]}]" if errors else "")
    return Run(fault, process.returncode == 0, machine.outside_share(), time.monotonic() - begin, verdict)


def _verdict(out: Path) -> str:
    try:
        report = json.loads((out / "report.json").read_text())
        injected = json.loads((out / "injected.json").read_text())
    except OSError:
        return "no verdict"
    found = [
        f"{item['cause']} on {item['ranks']} ({item['impact_ratio']:.0%}, {item['function']})"
        for item in report["findings"]
        if item["severity"] != "info"
    ]
    said = f"injected on {injected['rank']}: {'; '.join(found) or 'no finding'} ({report['reason']})"
    return f"{said}, {words}" if (words := _alarm(out)) else said


def _alarm(out: Path) -> str:
    path = out / "alert.json"
    if not path.exists():
        return ""
    alarm = json.loads(path.read_text())
    return f"firing after {alarm['firing_seconds']} s, {alarm['notifications']} notification(s)"


def main() -> int:
    """Print a line for each run and a table; 1 when a run that is not void was wrong or too many were void."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/repeat"))
    parser.add_argument("--faults", default="python,input,none")
    parser.add_argument("--backend", default="otlp")
    parser.add_argument("--window", default="5")
    arguments = parser.parse_args()
    runs: list[Run] = []
    void = 0
    for fault in arguments.faults.split(","):
        valid = 0
        while valid < arguments.runs and void <= MOST_VOID:
            out = (arguments.out / f"{fault}-{len(runs)}").absolute()
            run = play(fault, out, arguments.backend, arguments.window)
            is_void = run.outside > OUTSIDE_SHARE
            void += is_void
            valid += not is_void
            runs += [] if is_void else [run]
            word = "void " if is_void else "right" if run.right else "WRONG"
            print(f"{fault:7} {word} {run.seconds:4.0f} s, others {run.outside:4.0%}: {run.verdict}", flush=True)
    for fault in arguments.faults.split(","):
        mine = [run for run in runs if run.fault == fault]
        median = statistics.median(run.seconds for run in mine) if mine else float("nan")
        print(f"{fault}: {sum(run.right for run in mine)} of {len(mine)} right, median {median:.0f} s")
    print(f"void: {void}")
    return int(void > MOST_VOID or not all(run.right for run in runs))


if __name__ == "__main__":
    raise SystemExit(main())
