"""docs/support.md says "works" only of a case that has run, and what make support writes down is what it then says."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from support.page import page
from support.registry import BY_NAME, CASES
from support.results import FAILS, RESULTS, UNMATCHED, VARIABLE, WORKS, Result, keep, read, result, write

RAN = Result(WORKS, "2026-12-01", "3.11.7", "2.13.0")


def line(text: str, title: str) -> str:
    (found,) = (one for one in text.splitlines() if one.startswith(f"| {title} |"))
    return found


def test_what_has_no_result_is_not_run() -> None:
    text = page({})
    assert line(text, "plain") == "| plain | 1 | not run | - |  |"
    assert "| works |" not in text
    assert f"{len(CASES)} of {len(CASES)} cases were not run." in text


def test_the_outcome_and_its_day_are_those_of_the_result() -> None:
    unmatched = replace(RAN, outcome=UNMATCHED, torch="2.4.0")
    fabric = replace(RAN, package="5.24.0")
    text = page({"plain": RAN, "gan": replace(RAN, outcome=FAILS), "own_step": unmatched, "fabric": fabric})
    assert line(text, "plain") == "| plain | 1 | works | 2026-12-01 |  |"
    assert line(text, "two optimizers (GAN)").split(" | ")[2] == "fails"
    assert "unsupported: `unmatched` | 2026-12-01" in text
    assert line(text, "Lightning Fabric (lightning 5.24.0)").split(" | ")[2] == "works"
    assert text.endswith(
        "| 2026-12-01 | 3.11.7 | 2.13.0 | 3 |\n| 2026-12-01 | 3.11.7 | 2.4.0 | 1 |\n\n"
        f"{len(CASES) - 4} of {len(CASES)} cases were not run.\n"
    )


def test_complaints_make_a_failure_also_where_the_loop_should_not_be_recognised() -> None:
    own_step, plain = BY_NAME["own_step"], BY_NAME["plain"]
    assert [result(case, []).outcome for case in (plain, own_step)] == [WORKS, UNMATCHED]
    assert [result(case, ["exit code 1"]).outcome for case in (plain, own_step)] == [FAILS, FAILS]
    assert result(plain, []).python == platform.python_version()


def test_results_keep_the_order_of_the_table_and_lose_what_is_not_in_it(tmp_path: Path) -> None:
    path = tmp_path / "support.json"
    assert read(path) == {}
    write({"gan": RAN, "plain": replace(RAN, outcome=FAILS)}, path)
    kept = json.loads(path.read_text())
    assert list(kept) == ["plain", "gan"]
    path.write_text(json.dumps(kept | {"gone": kept["gan"]}))
    assert read(path) == {"plain": replace(RAN, outcome=FAILS), "gan": RAN}


def test_only_make_support_writes_results_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "support.json"
    monkeypatch.delenv(VARIABLE, raising=False)
    keep(BY_NAME["plain"], [], path)
    assert not path.exists()
    monkeypatch.setenv(VARIABLE, "1")
    keep(BY_NAME["plain"], [], path)
    keep(BY_NAME["gan"], ["a window was taken"], path)
    assert {name: one.outcome for name, one in read(path).items()} == {"plain": WORKS, "gan": FAILS}


def test_the_results_are_those_of_cases_in_the_table() -> None:
    assert set(json.loads(RESULTS.read_text("utf-8"))) <= set(BY_NAME)
