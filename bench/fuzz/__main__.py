"""Fuzz one reader, guided by coverage.

    python -m bench.fuzz kineto --seconds 600          needs atheris (pip install atheris)
    python -m bench.fuzz kineto --blind 1000           without it: random changes of the seeds
    python -m bench.fuzz kineto --replay FILE...       show what an input does

Readers: kineto, nsight, capture, otlp, prometheus, journal, flight, config, grafana. Findings, each with its smallest
input, and the inputs that reached something new are written to --out (build/fuzz/READER), which a later search starts
from. The last line is a row for bench/README.md; the exit code is 1 where something was found.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.fuzz import engine
from bench.fuzz.target import NAMES

ROOT = Path(__file__).parents[2]
_REACHED = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_PEAK = re.compile(r"stat::peak_rss_mb:\s+(\d+)")


def main() -> int:
    """Search, and print a row of figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", choices=NAMES)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--blind", type=int, metavar="RUNS")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    out = (given.out or ROOT / "build" / "fuzz" / given.reader).resolve()
    if given.inside:
        engine.guided(given.reader, out, given.seconds)
    files = [file.resolve() for file in given.replay or ()]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # targets write their files where they run
        if files:
            engine.replay(given.reader, files)
            return 0
        found = engine.blind(given.reader, out, given.blind) if given.blind is not None else 0
        if given.blind is None:
            found = _guided(given.reader, out, given.seconds)
        os.chdir(ROOT)
    return int(found > 0)


def _guided(reader: str, out: Path, seconds: int) -> int:
    """Run the search in a process of its own, which libFuzzer ends; return how many findings there are."""
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("*.input"), *out.glob("*.txt"), *out.glob("timeout-*"), *out.glob("crash-*")):
        old.unlink()
    command = [sys.executable, "-m", "bench.fuzz", reader, "--inside", "--out", str(out), "--seconds", str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT) + os.pathsep + os.environ.get("PYTHONPATH", "")}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "EROICA_DISABLED": "1"}
    with (out / "log").open("w") as log:
        subprocess.run(command, env=environment, stderr=log, check=False)
    said = (out / "log").read_text("utf-8", "replace")
    if "No module named 'atheris'" in said:
        sys.exit("bench.fuzz: atheris is not installed: pip install atheris, or search without it: --blind 1000")
    reached, executed, peak = (pattern.findall(said) for pattern in (_REACHED, _EXECUTED, _PEAK))
    ended = [*out.glob("*.input"), *out.glob("timeout-*"), *out.glob("crash-*")]
    if not executed:
        print("\n".join(said.splitlines()[-25:]), file=sys.stderr)
    edges, features, inputs = reached[-1] if reached else ("", "", "")
    cells = (
        reader,
        str(seconds),
        *(executed or [""])[-1:],
        edges,
        features,
        inputs,
        *(peak or [""])[-1:],
        str(len(ended)),
    )
    print(f"| {' | '.join(cells)} |")
    return len(ended) or int(not executed)


if __name__ == "__main__":
    raise SystemExit(main())
