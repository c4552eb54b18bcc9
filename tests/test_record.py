"""The table of CONTRIBUTING.md that make interpreters and make oldest write: one row a run, the newest in its place."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from loaded import module_of

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def record() -> ModuleType:
    return module_of(ROOT / ".ci" / "record.py")


@pytest.mark.parametrize(
    ("last", "cells"),
    [
        ("3129 passed, 4 warnings in 12.30s", "3129 | 0"),
        ("2 failed, 3127 passed, 1 error in 1780.80s (0:29:40)", "3127 | 3"),
        ("Fatal Python error: Aborted", "did not end | 0"),
    ],
)
def test_a_row_counts_what_the_last_line_says(record: ModuleType, last: str, cells: str) -> None:
    outcome = record.counted(f"....F  [100%]\n1 passed before\n{last}\n")
    row = record.row("`make oldest`", "3.11.7", "2.4.0", outcome, 0, "2026-12-01")
    assert row == f"| `make oldest` | 3.11.7 | 2.4.0 | {cells} | 0 | 2026-12-01 |"


def test_a_row_takes_the_place_of_the_run_before_on_that_python(record: ModuleType) -> None:
    def added(page: str, *cells: str) -> str:
        return str(record.renewed(page, f"| {' | '.join(cells)} |"))

    page = f"before\n{record.BEGIN}" + "\n".join(record.HEAD) + f"\n{record.END}\nafter\n"
    for cells in (("b", "3.10.1", "1"), ("b", "3.9.2", "2"), ("a", "3.11.0", "3"), ("b", "3.10.9", "4")):
        page = added(page, *cells)
    head, rest = page.split(record.BEGIN)
    rows = rest.split(record.END)[0].splitlines()[len(record.HEAD) :]
    assert rows == ["| a | 3.11.0 | 3 |", "| b | 3.9.2 | 2 |", "| b | 3.10.9 | 4 |"]
    assert (head, rest.split(record.END)[1]) == ("before\n", "\nafter\n")


def test_the_page_has_the_table(record: ModuleType) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert "\n".join(record.HEAD) in page.split(record.BEGIN)[1].split(record.END)[0]
