"""How the fault board scores a run, which runs count, and what its table says."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from eroica_otel.demo.monitoring import Alert

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def board() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield importlib.import_module("bench.faults.run")


def alert(
    rank: str = "1", host: str = "b", cause: str = "slow_input", function: str = "Remote.fetch_remote (x)"
) -> Alert:
    said = {"cause": cause, "function": function, "impact": "20% of every iteration"}
    return Alert("EroicaWorkerSlowsJob", {"rank": rank, "host": host}, said, 0.0)


def judge(board: ModuleType, *firing: Alert) -> tuple[bool, bool]:
    """Return whether worker and cause are right for the case "input": rank 1, which runs on host b."""
    case = next(case for case in board.CASES if case.name == "input")
    result = board.result_of(case, "b", list(firing), 33.333, 0.02)
    assert (result.case, result.seconds, result.outside) == ("input", 33.3, 0.02)
    return result.worker, result.cause


@pytest.mark.parametrize(
    ("firing", "worker", "cause"),
    [
        ([alert()], True, True),
        ([alert(), alert()], True, True),  # twice, as a severity changes
        ([alert(rank="2")], False, False),
        ([alert(host="a")], False, False),  # the right number on the wrong node
        ([alert(), alert(rank="2")], False, True),  # a healthy worker beside the right one
        ([alert(cause="python_blocked")], True, False),
        ([alert(), alert(cause="unknown")], True, False),
        ([alert(function="augment (x)")], True, False),
        ([], False, False),
    ],
)
def test_a_run_is_right_when_nobody_but_the_hurt_worker_is_named_with_the_cause_and_the_function(
    board: ModuleType, firing: list[Alert], worker: bool, cause: bool
) -> None:
    assert judge(board, *firing) == (worker, cause)


def result(board: ModuleType, worker: bool = True, outside: float = 0.0, named: str = "rank 1", **more: Any) -> Any:
    return board.Result(
        more.get("case", "input"), worker, more.get("cause", True), more.get("seconds", 40.0), named, outside
    )


def test_the_table_counts_and_shows_every_name_that_was_given(board: ModuleType) -> None:
    text = board.table(
        [
            result(board, seconds=30.0, named="rank 1: a"),
            result(board, seconds=50.0, named="rank 1: b"),
            result(board, worker=False, cause=False, seconds=None, named="waited in vain"),
            result(board, seconds=44.0, named="rank 1: b"),
            result(board, case="clean-1", seconds=None, named="no finding"),
        ]
    )
    _, _, first, second = text.splitlines()
    # The median of 30, 44 and 50; the run without an alert has no seconds.
    assert first.startswith("| input | batches come 70 ms late | 3 of 4 | 3 of 4 | 44 | ")
    assert first.endswith(" | 2 x rank 1: b<br>1 x rank 1: a<br>1 x waited in vain |")
    assert second == "| clean-1 | nothing, a window by hand | 1 of 1 | 1 of 1 | - | no finding |"


@pytest.mark.parametrize(
    ("outside", "kept", "void"),
    [
        ([0.0, 0.10], 2, 0),  # a tenth is allowed
        ([0.0, 0.11, 0.0], 2, 1),  # void, and made again
        ([0.11, 0.5, 0.0, 0.0], 2, 2),
        ([0.11, 0.5, 0.2, 0.0], 1, 3),  # no more than two are made again: one is missing
    ],
)
def test_void_runs_are_made_again_but_not_for_ever(
    board: ModuleType, outside: list[float], kept: int, void: int
) -> None:
    made = []

    def one(number: int) -> Any:
        made.append(number)
        return result(board, outside=outside[number])

    found, dropped = board.runs_of(board.CASES[1], 2, one)
    assert (len(found), dropped) == (kept, void)
    assert made == list(range(len(outside)))


def test_a_void_run_that_is_wrong_does_not_count(board: ModuleType) -> None:
    runs = [result(board, worker=False, outside=0.2), result(board)]
    found, _ = board.runs_of(board.CASES[1], 1, runs.__getitem__)
    assert found == runs[1:]


@pytest.mark.parametrize(
    ("seconds", "window_seconds", "said"),
    [
        ([60.0], 20.0, []),  # the bar itself is met
        ([60.1], 20.0, ["input"]),
        ([30.0, 59.0, 90.0], 20.0, []),  # the median counts
        ([59.0, 61.0, 62.0], 20.0, ["input"]),
        ([None, 61.0], 20.0, ["input"]),
        ([None], 20.0, []),  # without an alert it is wrong, not late
        ([80.0], 30.0, []),  # a window of 30 s has no bar
    ],
)
def test_a_case_whose_median_to_firing_is_above_a_minute_is_late(
    board: ModuleType, seconds: list[float | None], window_seconds: float, said: list[str]
) -> None:
    results = [result(board, case="clean-1", seconds=None), *(result(board, seconds=each) for each in seconds)]
    assert board.late(results, window_seconds) == said


def test_the_foot_tells_when_and_with_what_the_table_was_made(board: ModuleType) -> None:
    line = board.foot(20.0, 3)
    assert re.match(r"\d{4}-\d\d-\d\d, commit \S+, \d+ cores, Python 3\.\d+\.\d+, torch \d+\.\d+\.\d+", line)
    assert line.endswith(", window 20 s, 3 void.\n")
