"""The table and what its cases came to -> docs/support.md. Nothing but the standard library is imported here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from support.registry import CASES, FRAMEWORK, NOT_TESTED, Case
from support.results import FAILS, UNMATCHED, WORKS, Result

INTRODUCTION = """\
# Launchers, loops and frameworks that are tested

Written by `make docs` from the table that the tests run (`tests/support/registry.py`) and from `support.json`, where
`make support` writes what each real training came to, on CPUs and gloo. `make stack` runs the launchers and some loops
again with every change. *Works* means, on every rank:

- the updates that were delivered are exactly those that the training counted itself, and each iteration is timed except
  the ten that teach the loop, the last one, and those that carry the profiler's trial or a window;
- the mean iteration time is the training's own within 25 %;
- a window that was asked for by `eroica-otel window` is captured by all ranks and ends at the same iteration;
- the function known to take most of the time has the largest share of all Python and compute, within 0.12 of the truth.

*Unsupported* means that the worker says so itself (`eroica_worker_state{state="unmatched"}`) and takes no window. *Not
run* means that nothing is known: the line is newer than its last run.
"""
WORDS: Mapping[str, str] = MappingProxyType(
    {WORKS: "works", UNMATCHED: "unsupported: `unmatched`", FAILS: "fails", "": "not run"}
)


def page(results: Mapping[str, Result]) -> str:
    """Return docs/support.md; ``results`` by the name of the case."""
    blocks = [INTRODUCTION]
    for group in ("Launchers", "Loops", FRAMEWORK):
        rows = ["| what | ranks | outcome | run | notes |", "|---|---|---|---|---|"]
        rows += [_row(case, results.get(case.name)) for case in CASES if case.group == group]
        blocks.append(f"## {group}\n\n" + "\n".join(rows) + "\n")
    rows = ["| what | expected |", "|---|---|", *(f"| {what} | {expected} |" for what, expected in NOT_TESTED)]
    blocks.append(
        "## Not tested\n\nNo test runs these; what is expected follows from lines above.\n\n" + "\n".join(rows) + "\n"
    )
    return "\n".join([*blocks, _runs(results)])


def _row(case: Case, result: Result | None) -> str:
    ran = f" {result.package}" if result is not None else ""
    package = f" ({case.package}{ran})" if case.package else ""
    outcome, day = (WORDS[result.outcome], result.day) if result is not None else (WORDS[""], "-")
    return f"| {case.title}{package} | {case.ranks} | {outcome} | {day} | {case.note} |"


def _runs(results: Mapping[str, Result]) -> str:
    """Return which of the cases ran when, and on what."""
    runs = Counter((one.day, one.python, one.torch) for one in results.values())
    rows = ["| day | Python | torch | cases |", "|---|---|---|---|"]
    rows += [f"| {day} | {python} | {torch} | {count} |" for (day, python, torch), count in sorted(runs.items())]
    missing = sum(case.name not in results for case in CASES)
    return "## Runs\n\n" + "\n".join(rows) + f"\n\n{missing} of {len(CASES)} cases were not run.\n"
