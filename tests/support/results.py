"""What the cases of the table came to when they were last run: docs/support.json, which the page is written from.

Nothing is imported here but the standard library, so that the page can be written without torch.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from support.registry import BY_NAME, Case

RESULTS = Path(__file__).parents[2] / "docs" / "support.json"
VARIABLE = "SUPPORT_RESULTS"
"""Where it is set, as `make support` does, outcomes are written down; other runs of a case say nothing of a release."""
WORKS, UNMATCHED, FAILS = "works", "unmatched", "fails"


@dataclass(frozen=True, slots=True)
class Result:
    """One case, when it was last run.

    Attributes:
        outcome: WORKS, UNMATCHED (as it should be) or FAILS.
        day: Year, month and day, in UTC.
        python, torch: Their versions, torch's without what it was built for.
        package: Version of the case's framework, "" for none.
    """

    outcome: str
    day: str
    python: str
    torch: str
    package: str = ""


def result(case: Case, complaints: Iterable[str]) -> Result:
    """Return what is written down of a case that was judged now, in this environment."""
    outcome = FAILS if list(complaints) else UNMATCHED if case.unmatched else WORKS
    torch = version("torch").partition("+")[0]
    package = version(case.package) if case.package else ""
    return Result(outcome, f"{datetime.now(timezone.utc):%Y-%m-%d}", platform.python_version(), torch, package)


def read(path: Path = RESULTS) -> dict[str, Result]:
    """Return the results of the cases that are in the table, by name."""
    found = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return {name: Result(**one) for name, one in found.items() if name in BY_NAME}


def write(results: Mapping[str, Result], path: Path = RESULTS) -> None:
    """Write all of them, in the order of the table."""
    rows = {name: asdict(results[name]) for name in BY_NAME if name in results}
    path.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


def keep(case: Case, complaints: Iterable[str], path: Path = RESULTS) -> None:
    """Write down what a case came to, where that is asked for; those not run keep what they had."""
    if os.environ.get(VARIABLE):
        write(read(path) | {case.name: result(case, complaints)}, path)
