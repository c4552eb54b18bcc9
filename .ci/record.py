"""Takes the output of the unit tests on one interpreter, gives their row in the table of CONTRIBUTING.md.

``record.py NAME LOG [FILES]``, run by that interpreter: NAME is what was run, LOG what pytest has printed, FILES how
many files of tests were left out because there is no torch.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
from datetime import datetime, timezone
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "CONTRIBUTING.md"
BEGIN, END = "<!-- runs: written by make interpreters and make oldest -->\n", "<!-- end of runs -->"
HEAD = (
    "| run | Python | torch | passed | failed | files left out, without torch | day |",
    "|---|---|---|---|---|---|---|",
)


def counted(log: str) -> dict[str, int]:
    """Return how many tests passed, failed, had an error; empty where pytest has not come to its last line."""
    last = log.strip().rpartition("\n")[2]
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", last)}


def row(name: str, python: str, torch: str, outcome: dict[str, int], left_out: int, day: str) -> str:
    """Return the row; tests with an error count as failed."""
    failed = outcome.get("failed", 0) + outcome.get("error", 0)
    passed = f"{outcome.get('passed', 0)}" if outcome else "did not end"
    return f"| {name} | {python} | {torch} | {passed} | {failed} | {left_out} | {day} |"


def renewed(page: str, new: str) -> str:
    """Return the page with the row of that name and Python put in, or in the place of the one it had."""
    before, rest = page.split(BEGIN)
    table, after = rest.split(END)
    rows = {_key(line): line for line in [*table.splitlines()[len(HEAD) :], new]}
    return f"{before}{BEGIN}" + "\n".join([*HEAD, *(rows[key] for key in sorted(rows))]) + f"\n{END}{after}"


def _key(line: str) -> tuple[str, tuple[int, ...]]:
    name, python = (cell.strip() for cell in line.split("|")[1:3])
    return name, tuple(int(part) for part in python.split(".")[:2])


def _torch() -> str:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "none"


def main(name: str, log: str, left_out: str = "0") -> None:
    """Write the row."""
    outcome = counted(Path(log).read_text(encoding="utf-8"))
    day = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    new = row(name, platform.python_version(), _torch(), outcome, int(left_out), day)
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), new), encoding="utf-8")
    sys.stdout.write(f"{new}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
