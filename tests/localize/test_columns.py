"""One way to judge: windows and the same as a table, in any order, give one report; many workers are judged whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from eroica_otel.localize.columns import columns_of
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.selection import select
from eroica_otel.localize.verdict import judge, judge_columns
from eroica_otel.model import Collective, Pattern, Report, WorkerWindow
from eroica_otel.table import Calls, Function, Table, Words, Workers, not_measured
from eroica_otel.tabled import table_of
from factories_localize import Work, blocked_input, busy, matmul, noisy, rank, reference_of, window_of
from loaded import module_of

BENCH = Path(__file__).parents[2] / "bench"
MANY = 100_000


@pytest.fixture(scope="module")
def fleet() -> ModuleType:
    return module_of(BENCH / "synthetic" / "fleet.py")


def faulty() -> list[WorkerWindow]:
    return window_of(
        [
            rank(
                *((busy(),) * (at == 1)), *((blocked_input(40),) * (at == 4)),
                peaks={"nic_tx": 0.9, "nic_rx": 0.9}, host_use={"major_faults": 50.0 * (at == 1)},
            )
            for at in range(9)
        ]
    )  # fmt: skip


def shuffled(table: Table, seed: int) -> Table:
    """Return the same table with its workers and its patterns in another order."""
    random = np.random.default_rng(seed)
    rows, order = random.permutation(len(table.workers)), random.permutation(table.beta.size)
    place = np.argsort(rows).astype(np.int32)
    return Table(
        table.workers.at(rows), table.functions, place[table.worker[order]], table.function[order],
        table.beta[order], table.mu[order], table.sigma[order], table.noise[order],
        Calls(place[table.calls.worker], table.calls.function, table.calls.group),
    )  # fmt: skip


def by_function(table: Table) -> Table:
    order = np.lexsort((table.worker, table.function))
    return replace(
        table, worker=table.worker[order], function=table.function[order],
        **{name: getattr(table, name)[order] for name in ("beta", "mu", "sigma", "noise")},
    )  # fmt: skip


def tables() -> dict[str, Table]:
    table = table_of(faulty())
    return {"by worker": table, "by function": by_function(table)}


@pytest.mark.parametrize("order", ["by worker", "by function"])
@pytest.mark.parametrize("referenced", [False, True], ids=["alone", "referenced"])
def test_a_table_gives_the_report_of_its_windows(order: str, referenced: bool) -> None:
    reference = reference_of(9)
    whole = judge(faulty(), reference if referenced else (), expected=9)
    assert {finding.cause for finding in whole.findings} == {"python_overhead", "slow_input"}
    before = table_of(reference) if referenced else None
    assert repr(judge_columns(tables()[order], before, expected=9)) == repr(whole)


def who(report: Report) -> list[tuple[str, tuple[int, ...], str, float]]:
    return [(f.cause, f.ranks, f.function, round(f.impact_seconds, 5)) for f in report.findings]


def grave(report: Report) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(f.cause, f.verdict, f.ranks) for f in report.findings if f.severity != "info"]


@pytest.mark.parametrize("seed", range(3))
def test_rows_in_any_order_give_the_same_findings(seed: int) -> None:
    table = table_of(faulty())
    assert who(judge_columns(shuffled(table, seed), expected=9)) == who(judge_columns(table, expected=9)) != []


def test_no_worker_has_no_columns() -> None:
    assert judge_columns(Table.empty(), expected=4) == judge([], expected=4)


def test_a_clean_table_names_nobody() -> None:
    report = judge_columns(table_of(noisy(7, 16)), table_of(noisy(8, 16, window_id=1)), expected=16)
    assert grave(report) == []


def pattern(function_id: str, name: str, beta: float, **changes: Any) -> Pattern:
    return replace(Pattern(function_id, name, "python", "other", "", beta), **changes)


def test_functions_stand_in_the_order_of_first_appearance_and_a_stack_is_taken_where_one_is_told() -> None:
    told = [
        (pattern("b", "second", 0.2), pattern("a", "first", 0.1)),
        (pattern("a", "first", 0.3, stack=("m:first:1",), resource="cpu", mu=0.5), pattern("c", "broken", 2.0)),
    ]
    windows = [replace(w, patterns=ps) for w, ps in zip(window_of([rank(), rank()]), told, strict=True)]
    table = table_of(windows)
    columns, notes = columns_of(table, select(table.workers).judged)
    assert [(function.id, function.stack) for function in columns.functions] == [("b", ()), ("a", ("m:first:1",))]
    assert columns.starts.tolist() == [0, 1, 3]
    assert columns.worker.tolist() == [0, 0, 1]
    assert columns.everywhere.tolist() == [False, True]
    assert columns.largest == pytest.approx([0.2, 0.3])
    assert columns.of_cpu.tolist() == [False, False, True]
    assert notes == ("1 patterns hold no usable share or kind and are not judged",)


def test_what_workers_left_out_leaves_no_gap_in_functions_and_calls() -> None:
    calls = (Collective("tp0", 1, None, 0.1),)
    first = pattern("x", "only_there", 0.2, kind="communication", collectives=calls)
    windows = window_of([rank(), rank(), rank()])
    windows[0] = replace(windows[0], iterations=0, patterns=(first,))
    windows[2] = replace(windows[2], patterns=(*windows[2].patterns, replace(first, function_id="y")))
    table = table_of(windows)
    columns, _ = columns_of(table, select(table.workers).judged)
    assert "x" not in {function.id for function in columns.functions}
    assert columns.ranks.tolist() == [1, 2]
    (at,) = columns.calls.function.tolist()
    assert (columns.functions[at].id, columns.calls.worker.tolist(), list(columns.calls.group)) == ("y", [1], ["tp0"])


def test_a_hundred_thousand_workers_are_judged_and_the_one_culprit_is_named(fleet: ModuleType) -> None:
    report = judge_columns(fleet.table(MANY, 12), expected=MANY)
    (finding,) = report.findings
    assert (finding.ranks, finding.cause, finding.function) == ((MANY // 3,), "python_overhead", fleet.GUILTY)
    assert finding.hosts == (f"node-{MANY // 3 // fleet.PER_HOST}",)
    # 30 % more than a healthy iteration, as a share of one that is as much longer.
    assert finding.impact_ratio == pytest.approx(0.3 / 1.3, abs=0.01)
    assert finding.differential_distance == 1
    assert report.victims[0].waits_for == finding.ranks
    assert len(report.victims[0].ranks) == MANY - 1
    assert report.detail is not None
    assert MANY // 3 in report.detail.ranks
    assert len(report.detail.ranks) < 5000
    assert {len(function.seconds) for function in report.detail.functions} == {len(report.detail.ranks)}


def test_the_sample_of_peers_is_the_same_for_a_seed_and_the_report_for_the_same_input(fleet: ModuleType) -> None:
    def judged(seed: float) -> Report:
        return judge_columns(fleet.table(6000, 8), expected=6000, policy=Policy(sample_seed=seed, sample_peers=200))

    assert repr(judged(5)) == repr(judged(5))
    assert [finding.ranks for finding in judged(6).findings] == [(2000,)]


def test_a_healthy_fleet_has_no_finding_and_its_reference_changes_nothing(fleet: ModuleType) -> None:
    healthy = fleet.table(5000, 10, healthy=True)
    assert judge_columns(healthy, expected=5000).findings == ()
    found = judge_columns(fleet.table(5000, 10), healthy, expected=5000).findings
    assert [(finding.ranks, finding.cause) for finding in found] == [((5000 // 3,), "python_overhead")]
    assert found[0].drift_distance == pytest.approx(0.3 / 1.3, abs=0.01)


def test_a_reference_may_be_one_row_of_medians_for_each_role() -> None:
    def job(*extra: Work, **changes: Any) -> list[WorkerWindow]:
        stages = [(matmul(120.0 if at >= 4 else 60.0, 50.0, noise_ms=1.0),) for at in range(8)]
        return window_of([rank(*extra, base=base, role=f"pp{at // 4}") for at, base in enumerate(stages)], **changes)

    healthy = job(window_id=1, reason="reference")
    rows = [replace(w, identity=replace(w.identity, rank=-1 - at)) for at, w in enumerate((healthy[0], healthy[4]))]
    assert who(judge(job(busy()), rows, expected=8)) == who(judge(job(busy()), healthy, expected=8))
    assert grave(judge(job(busy()), rows, expected=8)) == [("python_overhead", "job", ())]
    assert grave(judge(job(), rows, expected=8)) == []


def test_columns_that_nobody_tells_are_unknown() -> None:
    workers = Workers.of(np.arange(3), seconds=np.full(3, 2.0), iterations=np.full(3, 20))
    beta = np.array([0.9, 0.9, 0.9], np.float32)
    table = Table(
        workers, (Function("f", "f", "compute", "gemm"),), np.arange(3, dtype=np.int32), np.zeros(3, np.int32),
        beta, not_measured(3), not_measured(3), not_measured(3),
    )  # fmt: skip
    report = judge_columns(table, expected=3)
    assert (report.findings, report.workers_seen, report.missing_ranks) == ((), 3, ())
    assert report.detail is not None
    assert report.detail.iteration_seconds == pytest.approx(0.1)


def test_words_are_told_apart_by_what_they_say() -> None:
    words = Words.of(("b", "a", "b", "c"))
    assert (list(words), len(words), words[3]) == (["b", "a", "b", "c"], 4, "c")
    assert words.distinct([3, 0, 2]) == ("c", "b")
    assert words.among(("a", "c", "x")).tolist() == [False, True, False, True]
    assert list(words.at(np.array([3, 1]))) == ["c", "a"]
