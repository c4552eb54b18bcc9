"""That the rows of the fault board say what they must, once, and that what they switch on exists where they do so."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from eroica_otel import names

ROOT = Path(__file__).parents[2]
FIRST_TWELVE = (
    "python", "input", "input-workers", "quota", "link", "batch", "backward", "hang", "stopped", "left-out", "clean-1",
    "clean-2",
)  # fmt: skip
COMMON = {"load", "batch", "forward", "backward", "loss", "before_step", "after_step"}
POINTS = {
    "ddp": {"collective", "checkpoint", "validation", "epoch"},
    "fsdp": {"collective", "checkpoint"},
    "accumulate": {"collective", "micro"},
    "pipeline": {"micro", "stage"},
    "experts": {"collective", "experts"},
    "conv": {"collective", "checkpoint", "validation", "epoch"},
    "hf": {"validation"},
    "accelerated": set[str](),
    "lightning_": {"validation"},
}
"""What each workload has beside the common points, but a pipeline's stages have no common input."""


@pytest.fixture(scope="module")
def table() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield importlib.import_module("bench.faults.table.every")


@pytest.fixture(scope="module")
def case_module(table: ModuleType) -> ModuleType:
    return importlib.import_module("bench.faults.case")


class Nothing:
    """Stands for a node, a group, a server and their mechanisms: takes any call, notes whose it was, does nothing."""

    def __init__(self, asked: set[str], name: str = "") -> None:
        self._asked, self._name = asked, name

    def __getattr__(self, name: str) -> Nothing:
        return Nothing(self._asked, name)

    def __call__(self, *arguments: Any, **more: Any) -> Nothing:
        self._asked.add(self._name)
        return self

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __radd__(self, other: int) -> int:
        return other

    __add__ = __radd__


class Recorder(Nothing):
    """A board on which nothing runs: it notes the orders and what else was asked of it."""

    def __init__(self, case: Any) -> None:
        super().__init__(set())
        self.world, self.folder, self.cores = case.world, Path("/nowhere"), (0, 1)
        self.orders: list[dict[str, Any]] = []

    @property
    def asked(self) -> set[str]:
        return self._asked

    def order(self, switch: str, ranks: list[int], value: float, **more: Any) -> None:
        self.orders.append({"switch": switch, "ranks": ranks, "value": value, **more})

    def iteration(self) -> int:
        return 100


@pytest.fixture
def started(table: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Recorder, Any]]:
    """Return every faulty row, the board on which it was started, and what was drawn."""
    inject = importlib.import_module("bench.faults.faults.inject")
    found = []
    for case in table.CASES:
        if case.fault is not None:
            board = Recorder(case)
            for mechanism in ("network", "signals", "memory", "inputs"):
                monkeypatch.setattr(inject, mechanism, Nothing(board.asked))
            drawn = case.draw(1)
            with ExitStack() as undo:
                case.fault(board, undo, drawn)
            found.append((case, board, drawn))
    return found


def test_there_are_at_least_a_hundred_rows_with_ids_of_their_own(table: ModuleType) -> None:
    ids = [case.name for case in table.CASES]
    assert len(ids) == len(set(ids)) >= 100
    assert [name for name in ids if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


def test_the_first_twelve_cases_kept_their_names(table: ModuleType) -> None:
    assert set(FIRST_TWELVE) <= {case.name for case in table.CASES}


def test_eight_of_them_run_with_the_tests(table: ModuleType) -> None:
    assert len(set(table.FEW)) == 8
    assert set(table.FEW) <= {case.name for case in table.CASES}


def test_what_is_expected_comes_from_the_closed_lists(table: ModuleType, case_module: ModuleType) -> None:
    for case in table.CASES:
        assert case.where in case_module.WHERE, case.name
        assert case.verdict in case_module.VERDICTS, case.name
        assert case.onset in case_module.ONSETS, case.name
        assert case.causes <= set(names.CAUSES), case.name
        assert bool(case.causes) == (case.verdict != case_module.SILENCE), case.name


def test_no_row_takes_a_shrug_for_an_answer_but_where_no_cause_says_what_is_done(table: ModuleType) -> None:
    assert [case.name for case in table.CASES if "unknown" in case.causes] == ["uneven-sequences"]


def test_only_what_is_healthy_has_no_fault(table: ModuleType, case_module: ModuleType) -> None:
    for case in table.CASES:
        assert (case.fault is None) == (case.where == case_module.NONE) == (case.klass == "clean"), case.name


def test_a_size_is_told_where_there_is_one(table: ModuleType) -> None:
    for case in table.CASES:
        assert ("{size}" in case.what) == (case.size > 0), case.name
        assert "{" not in case.text, case.name


def test_rows_name_their_bug_report_as_it_is_cited(table: ModuleType) -> None:
    sources = [case.source for case in table.CASES if case.source]
    assert [source for source in sources if not re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", source)] == []
    assert len(set(sources)) >= 20


def test_no_job_has_more_than_eight_ranks(table: ModuleType) -> None:
    assert [case.name for case in table.CASES if not 2 <= case.world <= 8] == []


def test_every_fault_does_something_and_says_when_it_needs_cgroups(started: list[tuple[Any, Recorder, Any]]) -> None:
    for case, board, _ in started:
        assert board.orders or board.asked, case.name
        assert ("cgroup" in board.asked) == ("cgroups" in case.needs), case.name


def test_what_is_switched_on_exists_and_acts_where_the_workload_looks(
    started: list[tuple[Any, Recorder, Any]],
) -> None:
    switches = importlib.import_module("bench.faults.faults.switches").SWITCHES
    for case, board, _ in started:
        for order in board.orders:
            assert switches[order["switch"]].point in COMMON | POINTS[case.workload], (case.name, order)


def test_orders_are_for_the_drawn_ranks_or_for_all_of_which_the_drawn_do_it_wrong(
    started: list[tuple[Any, Recorder, Any]],
) -> None:
    of = importlib.import_module("bench.faults.faults.order").Order.of
    for case, board, drawn in started:
        for order in map(of, board.orders):
            everybody = tuple(range(case.world))
            assert set(order.ranks) <= set(drawn.ranks) or order.ranks == everybody, case.name
            assert set(order.more) <= {"folder", "expert", "wrong"}, case.name


def test_ranks_that_hang_alone_do_so_in_a_case_that_expects_it(case_module: ModuleType, table: ModuleType) -> None:
    hanging = {case.name for case in table.CASES if case.verdict == case_module.HANG}
    standing = {case.name for case in table.CASES if case.klass == "hang"} | {"link-cut"}
    stopped = {case.name for case in table.CASES if case.klass == "stopped" and case.verdict == case_module.HANG}
    assert hanging == standing | stopped
