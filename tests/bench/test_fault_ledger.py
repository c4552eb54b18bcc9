"""The lines of the fault board: kept whatever happens, and counted as long as their row is the same."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from faultboard import board, case

LEDGER = board("ledger")


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    assert LEDGER.read(file) == []
    first = LEDGER.append(file, {"kind": "run", "case": "a", "drawn": {"ranks": (1, 2)}})
    second = LEDGER.append(file, {"kind": "effect", "case": "a"})
    assert LEDGER.read(file) == [first, second]
    assert first["drawn"] == {"ranks": [1, 2]}
    assert {"when", "commit", "cores", "torch"} <= set(first)
    assert list(LEDGER.of_kind(LEDGER.read(file), "run")) == [first]


def test_a_line_that_was_cut_off_is_left_out_and_spoils_none_that_follows(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    first = LEDGER.append(file, {"kind": "run", "case": "a"})
    with file.open("a") as text:
        text.write('{"kind": "run", "ca')
    assert LEDGER.read(file) == [first]


def test_after_one_that_was_cut_off_the_ledger_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    first = LEDGER.append(file, {"kind": "run", "case": "a"})
    with file.open("a") as text:
        text.write('{"kind": "run", "ca')
    second = LEDGER.append(file, {"kind": "run", "case": "b"})
    assert LEDGER.read(file) == [first, second]


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({"what": "else"}, True),
        ({"explanation": "it is studied"}, True),
        ({"changed": "a reason"}, True),
        ({"causes": frozenset({"storage_slow"})}, False),
        ({"size": 71.0}, False),
        ({"arguments": ("--batch", "4")}, False),
        ({"verdict": "silence"}, False),
    ],
)
def test_a_run_belongs_to_a_row_as_long_as_what_it_is_judged_by_is_the_same(fields: dict[str, Any], same: bool) -> None:
    assert (LEDGER.row_digest(case()) == LEDGER.row_digest(case(**fields))) is same


def test_the_order_of_a_set_does_not_matter() -> None:
    one, other = (case(causes=frozenset(names)) for names in (("a", "b", "c", "d"), ("d", "c", "b", "a")))
    assert LEDGER.row_digest(one) == LEDGER.row_digest(other)


@pytest.mark.parametrize(
    ("file", "same"),
    [("workloads/ddp.py", False), ("faults/slow.py", False), ("page.py", True), ("table/cpu.py", True)],
)
def test_an_effect_is_measured_again_when_what_runs_has_changed(tmp_path: Path, file: str, same: bool) -> None:
    folder = tmp_path / "faults"
    shutil.copytree(LEDGER.RESULTS.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    before = LEDGER.code_digest(folder)
    with (folder / file).open("a") as text:
        text.write("# changed\n")
    assert (LEDGER.code_digest(folder) == before) is same


def test_the_round_is_the_latest() -> None:
    assert LEDGER.current_round([]) == 1
    assert LEDGER.current_round([{"round": 1}, {"round": 3}, {"round": 2}]) == 3
