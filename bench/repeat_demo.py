"""How often the demo's verdict is right: N runs of each fault, the faulty rank chosen at random.

A run is right when the one finding above info names the injected rank and cause and no healthy worker (FAULT=none: when
there is no such finding although a window was judged). A run is void when processes outside its own tree, and steal,
took more than 10 % of the machine; void runs are shown and made again. Through Prometheus, with windows of 20 s or
less, the median time from the fault to the alert must not be above 60 s.

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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE_SHARE = 0.10
MOST_VOID = 2
FIRING_SECONDS, FIRING_WINDOW_SECONDS = 60.0, 20.0
"""The bar for the median from onset to firing, and the longest window for which it holds."""
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
    """What one demo gave.

    Attributes:
        fault: What was injected.
        right: Whether the demo found that.
        outside: The part of the machine that others used.
        seconds: From start to end.
        verdict: What was found, in words.
        impacts: Shares of the iteration that the findings above info cost.
        firing_seconds: From the fault to the alert; None without one.
    """

    fault: str
    right: bool
    outside: float
    seconds: float
    verdict: str
    impacts: tuple[float, ...] = ()
    firing_seconds: float | None = None


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
    seconds = time.monotonic() - begin
    errors = process.stderr.read().decode().strip() if process.stderr is not None else ""
    report, alarm = _read(out / "report.json"), _read(out / "alert.json")
    verdict = _verdict(report, _read(out / "injected.json"), alarm) + (
        f" [{errors.splitlines()[-1]}]" if errors else ""
    )
    impacts = tuple(float(item["impact_ratio"]) for item in _findings(report))
    firing = alarm.get("firing_seconds")
    return Run(fault, process.returncode == 0, machine.outside_share(), seconds, verdict, impacts, firing)


def _read(path: Path) -> dict[str, Any]:
    """Return a JSON object, an empty one where there is none."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _findings(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in report.get("findings", ()) if item["severity"] != "info"]


def _verdict(report: dict[str, Any], injected: dict[str, Any], alarm: dict[str, Any]) -> str:
    if not report or not injected:
        return "no verdict"
    found = [
        f"{item['cause']} on {item['ranks']} ({item['impact_ratio']:.0%}, {item['function']})"
        for item in _findings(report)
    ]
    said = f"injected on {injected['rank']}: {'; '.join(found) or 'no finding'} ({report['reason']})"
    if not alarm:
        return said
    return f"{said}, firing after {alarm['firing_seconds']} s, {alarm['notifications']} notification(s)"


def firing(runs: Sequence[Run]) -> list[float]:
    """Return the seconds from onset to firing of the runs in which an alert fired."""
    return [run.firing_seconds for run in runs if run.firing_seconds is not None]


def is_late(runs: Sequence[Run], window_seconds: float) -> bool:
    """Return whether the median from onset to firing misses the bar; it has none for longer windows."""
    seconds = firing(runs)
    return bool(seconds) and window_seconds <= FIRING_WINDOW_SECONDS and statistics.median(seconds) > FIRING_SECONDS


def table(runs: Sequence[Run], what: str) -> str:
    """Return a row of Markdown for each fault; ``what`` tells with what all of them were made."""
    lines = [
        "| fault | made with | right | median seconds, start to end | impact found | seconds, onset to firing |",
        "|---|---|---|---|---|---|",
    ]
    for fault in dict.fromkeys(run.fault for run in runs):
        mine = [run for run in runs if run.fault == fault]
        impacts = [impact for run in mine for impact in run.impacts]
        found = f"{min(impacts):.0%} to {max(impacts):.0%}" if impacts else "no finding"
        seconds = statistics.median(run.seconds for run in mine)
        right = f"{sum(run.right for run in mine)} of {len(mine)}"
        lines.append(f"| {fault} | {what} | {right} | {seconds:.0f} | {found} | {_spread(firing(mine))} |")
    return "\n".join(lines)


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return ""
    return f"{statistics.median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})"


def commit(folder: Path) -> str:
    """Return the short hash of a checkout, with "-dirty" where tracked files differ; "unknown" outside of one."""
    try:
        head = _git(folder, "rev-parse", "--short", "HEAD")
        return head + ("-dirty" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _repeat(faults: Sequence[str], count: int, out: Path, backend: str, window: str) -> tuple[list[Run], int]:
    """Return the runs that are not void, and how many were."""
    runs: list[Run] = []
    void = 0
    for fault in faults:
        valid = 0
        while valid < count and void <= MOST_VOID:
            run = play(fault, (out / f"{fault}-{len(runs)}").absolute(), backend, window)
            is_void = run.outside > OUTSIDE_SHARE
            void += is_void
            valid += not is_void
            runs += [] if is_void else [run]
            word = "void " if is_void else "right" if run.right else "WRONG"
            print(f"{fault:7} {word} {run.seconds:4.0f} s, others {run.outside:4.0%}: {run.verdict}", flush=True)
    return runs, void


def main() -> int:
    """Print each run and a table; 1 when a run was wrong, alerts came too late or too many runs were void."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/repeat"))
    parser.add_argument("--faults", default="python,input,none")
    parser.add_argument("--backend", default="otlp")
    parser.add_argument("--window", default="5")
    arguments = parser.parse_args()
    faults, seconds, made_of = arguments.faults.split(","), float(arguments.window), commit(ROOT)
    runs, void = _repeat(faults, arguments.runs, arguments.out, arguments.backend, arguments.window)
    what = f"{time.strftime('%Y-%m-%d')}, commit {made_of}, {arguments.backend}, windows of {seconds:g} s"
    print(f"\n{table(runs, what)}\n\nvoid: {void}")
    late = [fault for fault in faults if is_late([run for run in runs if run.fault == fault], seconds)]
    for fault in late:
        print(f"TOO LATE: {fault}, median from onset to firing above {FIRING_SECONDS:.0f} s")
    return int(void > MOST_VOID or bool(late) or not all(run.right for run in runs))


if __name__ == "__main__":
    raise SystemExit(main())
