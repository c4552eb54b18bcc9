"""Takes Python interpreters, newest first, gives requirements-dev.lock: what pip would install for development.

A package whose version differs on an older interpreter gets one line with a marker for each. Hashes and index
addresses are left out, so that any mirror serves; so are the accelerator libraries, which torch itself pins.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
EXTRAS = "dev,torch,hardware,grafana"
OF_TORCH = re.compile(r"(cuda-|nvidia-(?!ml-py)|triton)")
HEAD = f"""\
# Every package of the development environment, pinned. Made by `make lock`; do not edit.
# Refresh: make lock LOCK_PYTHONS="python3.11 python3.10" (any interpreters, the newest first), then make test.
# torch is pinned here and not in pyproject.toml: {TORCH} has the CPU-only build where an index offers one,
# and a plain "torch" would follow the newest release with its gigabytes of accelerator libraries.
"""


def resolve(python: str) -> tuple[str, dict[str, str]]:
    """Return the version of ``python`` and, by package, what a new environment with it would get."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [f"{folder}/venv/bin/python", "-m", "pip", "install", "--quiet"]
        subprocess.run([python, "-m", "venv", f"{folder}/venv"], check=True)
        subprocess.run([*pip, "--upgrade", "pip"], check=True)
        report = f"{folder}/report.json"
        dry = [*pip, "--dry-run", "--ignore-installed", "--report", report, f"{ROOT}[{EXTRAS}]", TORCH]
        subprocess.run(dry, check=True)
        found = json.loads(Path(report).read_text(encoding="utf-8"))
    pins = {
        re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(): item["metadata"]["version"].partition("+")[0]
        for item in found["install"]
    }
    del pins["eroica-otel"]
    version = found["environment"]["python_version"]
    return version, {name: pin for name, pin in pins.items() if not OF_TORCH.match(name)}


def merge(newer: dict[str, str], older: dict[str, str], border: str) -> list[str]:
    """Return the lines of two interpreters; ``border`` is the version at which the newer begins."""
    lines = [f"{name}=={pin}" for name, pin in newer.items() if older.get(name) == pin]
    for pins, other, sign in ((newer, older, ">="), (older, newer, "<")):
        lines += [
            f'{name}=={pin} ; python_version {sign} "{border}"' for name, pin in pins.items() if other.get(name) != pin
        ]
    return sorted(lines)


def main(newer: str, older: str) -> None:
    """Write the lock for a newer and an older interpreter (the same twice gives a lock for one)."""
    border, pins = resolve(newer)
    lines = merge(pins, resolve(older)[1] if older != newer else pins, border)
    ROOT.joinpath("requirements-dev.lock").write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[-1])
