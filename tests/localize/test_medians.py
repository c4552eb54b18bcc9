"""What a large job keeps as its reference: a window of medians for each peer role."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eroica_otel.localize.medians import medians_of
from eroica_otel.localize.verdict import judge, judge_columns
from eroica_otel.model import Identity, Report
from eroica_otel.table import Table
from eroica_otel.tabled import table_of
from factories_central import all_reduce, pattern, window
from factories_localize import busy, noisy, rank, reference_of, window_of


def test_the_row_of_a_role_holds_the_medians_of_its_workers() -> None:
    given = [
        window(
            at, who=Identity("llm-7b", at, f"host-{at}", role="dense" if at < 5 else "expert", world_size=8),
            patterns=(
                pattern(beta=0.1 * (at + 1), mu=None if at == 0 else 0.25 * (at % 3)),
                all_reduce(beta=0.05, peaks={"nic_tx": 0.1 * at}),
                *((pattern("dddddddddddd", beta=0.01),) * (at in (0, 7))),
            ),
            seconds=20.0 + at, throttled_ratio=0.125 * at, kinds={"compute": 0.5, "idle": 0.25}, window_id=1,
        )
        for at in range(8)
    ]  # fmt: skip
    dense, expert = medians_of(table_of(given))
    assert [(one.identity.rank, one.identity.role, one.identity.world_size) for one in (dense, expert)] == [
        (-1, "dense", 8), (-2, "expert", 8),
    ]  # fmt: skip
    assert (dense.seconds, dense.iterations) == (22.0, 30)
    assert (dense.throttled_ratio, expert.throttled_ratio) == (0.25, 0.75)
    assert dense.kinds == {"compute": 0.5, "idle": 0.25}
    first, second = dense.patterns
    assert (first.function_id, first.stack) == ("aaaaaaaaaaaa", given[0].patterns[0].stack)
    assert first.beta == pytest.approx(0.3)
    assert first.mu == 0.25  # of 0.25, 0.5, 0 and 0.25
    assert second.beta == pytest.approx(0.05)
    assert dict(second.peaks) == {"nic_tx": pytest.approx(0.2)}
    assert "dddddddddddd" not in [one.function_id for one in expert.patterns]  # one of three


def named(report: Report) -> list[tuple[tuple[int, ...], str]]:
    return [(one.ranks, one.cause) for one in report.findings if one.severity != "info"]


def test_a_verdict_by_medians_names_whom_one_by_the_whole_reference_names() -> None:
    before = noisy(8, 64, window_id=1)
    now = [replace(one, window_id=2) for one in window_of([rank(*((busy(),) * (at == 40))) for at in range(64)])]
    whole = judge(now, reference_of(64), expected=64)
    assert named(judge_columns(table_of(now), table_of(medians_of(table_of(reference_of(64)))), expected=64)) == named(
        whole
    )
    assert [ranks for ranks, _ in named(whole)] == [(40,)]
    healthy = [replace(one, window_id=2, reason="periodic") for one in noisy(9, 64)]
    assert named(judge_columns(table_of(healthy), table_of(medians_of(table_of(before))), expected=64)) == []


def test_without_a_worker_that_moved_there_is_nothing_to_keep() -> None:
    assert medians_of(Table.empty()) == ()
    assert medians_of(table_of([window(0, iterations=0)])) == ()
