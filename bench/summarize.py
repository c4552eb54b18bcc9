"""What the summary of one worker's window costs: time, CPU and memory, by size of the trace, and next to a peer.

    python bench/summarize.py                            0.1, 1 and 5 million events
    python bench/summarize.py --events 100000 20000000   other sizes
    python bench/summarize.py --hta PYTHON --trace FILE  the same traces by HolisticTraceAnalysis, side by side

Traces are made by bench/synthetic/kineto.py, with a seed, beside 20 s of stack samples at 1 kHz. Each figure is the
median of fresh processes that take turns; imports are timed apart. Peak memory is that of the process and of its helper
together. PYTHON is an interpreter with HolisticTraceAnalysis (python -m venv hta; hta/bin/pip install
HolisticTraceAnalysis); what is compared is its load and GPU kernel breakdown with our whole summary.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.synthetic import kineto

SIZES = (100_000, 1_000_000, 5_000_000)
HERE = Path(__file__).resolve()
HTA = HERE.parent / "synthetic" / "hta_breakdown.py"
OURS = HERE.parent / "synthetic" / "one_summary.py"
Figures = dict[str, Any]


def child(interpreter: str, script: Path, trace: Path) -> Figures:
    """Run one measurement in a fresh process and return what it prints; {"error": ...} where it fails."""
    done = subprocess.run([interpreter, str(script), str(trace)], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def median(runs: list[Figures], name: str) -> float:
    values: list[float] = [run[name] for run in runs]
    return statistics.median(values)


def spread(runs: list[Figures], name: str) -> str:
    """Return "median (lowest to highest)"."""
    values = [run[name] for run in runs]
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def by_size(sizes: list[int], folder: Path, rounds: int) -> None:
    """Print a row for each size: time, CPU, memory, and what the result takes."""
    print(
        "| events | MB | bytes an event | seconds | CPU seconds | s per million | peak MiB | series | KB of patterns |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for events in sizes:
        trace = folder / f"synthetic-{events}.json"
        made = kineto.write(trace, events)
        runs = [child(sys.executable, OURS, trace) for _ in range(rounds)]
        trace.unlink()
        failed = [run["error"] for run in runs if "error" in run]
        if failed:
            print(f"| {events:,} | {made.bytes / 1e6:.0f} | failed: {failed[0]} |", flush=True)
            continue
        print(
            f"| {events:,} | {made.bytes / 1e6:.0f} | {made.bytes / events:.0f} | {spread(runs, 'seconds')} "
            f"| {spread(runs, 'cpu_seconds')} | {median(runs, 'seconds') / events * 1e6:.2f} "
            f"| {median(runs, 'peak_mib'):.0f} | {runs[0]['series']} | {runs[0]['pattern_bytes'] / 1e3:.1f} |",
            flush=True,
        )


def side_by_side(traces: list[Path], hta: str, rounds: int) -> bool:
    """Print ours and HolisticTraceAnalysis on each trace, in turn; return whether all could be compared."""
    print(
        "| trace | ours, seconds | HTA, seconds | times faster | CPU seconds, ours and HTA | peak MiB, ours and HTA |"
    )
    print("|---|---|---|---|---|---|")
    whole = True
    for trace in traces:
        ours: list[Figures] = []
        theirs: list[Figures] = []
        for _ in range(rounds):
            ours.append(child(sys.executable, OURS, trace))
            theirs.append(child(hta, HTA, trace))
        failed = [run["error"] for run in (*ours, *theirs) if "error" in run]
        if failed:
            print(f"| {trace.name} | failed: {failed[0]} |", flush=True)
            whole = False
            continue
        ratios = sorted(b["seconds"] / a["seconds"] for a, b in zip(ours, theirs, strict=True))
        print(
            f"| {trace.name} | {spread(ours, 'seconds')} | {spread(theirs, 'seconds')} "
            f"| {statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f}) "
            f"| {median(ours, 'cpu_seconds'):.2f}, {median(theirs, 'cpu_seconds'):.2f} "
            f"| {median(ours, 'peak_mib'):.0f}, {median(theirs, 'peak_mib'):.0f} |",
            flush=True,
        )
        last = (ours[-1], theirs[-1])
    if whole and traces:
        print(
            f"imports, apart: {last[0]['import_seconds']:.2f} s and {last[1]['import_seconds']:.2f} s; "
            f"HolisticTraceAnalysis {last[1]['version']}, pandas {last[1]['pandas']}"
        )
    return whole


def has_hta(interpreter: str) -> bool:
    """Return whether an interpreter has HolisticTraceAnalysis; says what to do where it has not."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('hta') is None)"
    try:
        found = subprocess.run([interpreter, "-c", code], capture_output=True, check=False).returncode == 0
    except OSError:
        found = False
    if not found:
        print(
            f"HolisticTraceAnalysis: not found in {interpreter}, so nothing is compared. "
            "python -m venv hta; hta/bin/pip install HolisticTraceAnalysis; --hta hta/bin/python"
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where traces are made (default: a temporary folder)")
    parser.add_argument(
        "--hta", default=sys.executable, metavar="PYTHON", help="interpreter with HolisticTraceAnalysis"
    )
    parser.add_argument(
        "--trace", type=Path, nargs="*", default=[], help="traces for the comparison, beside a made one"
    )
    parser.add_argument("--hta-events", type=int, default=1_000_000, help="size of the made one; 0: none")
    arguments = parser.parse_args()
    print(f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, load "
          f"{os.getloadavg()[0]:.1f}, {time.strftime('%d %B %Y')}\n")  # fmt: skip
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        if arguments.events:
            by_size(arguments.events, Path(folder), arguments.rounds)
            print()
        if not has_hta(arguments.hta):
            return 0
        traces = list(arguments.trace)
        if arguments.hta_events:
            traces.append(Path(folder) / f"synthetic-{arguments.hta_events}.json")
            kineto.write(traces[-1], arguments.hta_events)
        return 0 if side_by_side(traces, arguments.hta, arguments.rounds) else 1


if __name__ == "__main__":
    raise SystemExit(main())
