"""Tables of some workers, joined, are the table of all."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from eroica_otel.localize.verdict import judge, judge_columns
from eroica_otel.model import Collective, WorkerWindow
from eroica_otel.table import Table
from eroica_otel.tabled import in_parts, joined, table_of, taken
from factories_central import all_reduce, pattern, window
from factories_localize import blocked_input, busy, rank, reference_of, window_of


def odd(size: int = 7) -> list[WorkerWindow]:
    """Return workers that differ in what they report: functions, groups, facts that only some know."""
    return [
        window(
            at, patterns=(
                all_reduce(collectives=(Collective(f"pair {at // 2}", 3 + at, None if at == 2 else 900, 0.001 * at),)),
                pattern(f"{at % 3:012x}", function=f"f{at % 3}", beta=0.1 + at / 100, mu=None if at == 4 else 0.5),
                *((pattern("dddddddddddd", noise_seconds=0.01),) * (at > 4)),
            ),
            host_use={"cgroup_cpu": 0.25} if at == 5 else {}, unknown={"warp": (at, 0.5)} if at > 3 else {},
            kinds={"compute": 0.5} if at else {}, throttled_ratio=None if at == 1 else 0.125,
        )
        for at in range(size)
    ]  # fmt: skip


def words(table: Table) -> list[object]:
    """Return everything that a table says, by worker, without numbers of functions or texts."""
    functions, calls, unknown = table.functions, table.calls, table.unknown
    assert calls.count is not None
    assert calls.call_bytes is not None
    assert calls.fastest_seconds is not None
    workers = {item.name: getattr(table.workers, item.name) for item in fields(table.workers)}
    plain = {name: list(column) for name, column in workers.items() if name not in ("kinds", "host_use", "peaks")}
    named = {
        (what, name): column.tolist()
        for what in ("kinds", "host_use", "peaks") for name, column in workers[what].items()
    }  # fmt: skip
    patterns = [
        (*row[:1], functions[row[1]], *row[2:])
        for row in zip(table.worker, table.function, table.beta, table.mu, table.sigma, table.noise, strict=True)
    ]
    made = [
        (worker, functions[function].id, *more)
        for worker, function, *more in zip(
            calls.worker, calls.function, calls.group, calls.count, calls.call_bytes, calls.fastest_seconds, strict=True
        )
    ]
    seen = list(zip(unknown.worker, unknown.category, unknown.events, unknown.seconds, strict=True))
    return [repr(part) for part in (plain, named, patterns, made, seen)]


@pytest.mark.parametrize("cut", [1, 3, 6])
def test_parts_of_the_workers_are_joined_to_the_table_of_all(cut: int) -> None:
    given = odd()
    whole = joined([table_of(given[:cut]), Table.empty(), table_of(given[cut:])])
    assert words(whole) == words(table_of(given))


def test_the_verdict_on_joined_parts_is_that_on_the_windows() -> None:
    given = window_of([rank(*((busy(),) * (at == 1)), *((blocked_input(40),) * (at == 4))) for at in range(9)])
    parts = joined([table_of(given[at : at + 2]) for at in range(0, 9, 2)])
    before = reference_of(9)
    report = judge_columns(parts, joined([table_of(before[:4]), table_of(before[4:])]), expected=9)
    assert repr(report) == repr(judge(given, before, expected=9))
    assert {finding.ranks for finding in report.findings} >= {(1,), (4,)}


@pytest.mark.parametrize("kept", [[0, 2, 5], [6], [], list(range(7))])
def test_of_a_table_the_rows_of_some_workers_are_taken(kept: list[int]) -> None:
    given = odd()
    which = np.isin(np.arange(len(given)), kept)
    some = taken(table_of(given), which)
    assert some.workers.rank.tolist() == kept
    if kept:
        assert words(_bare(some)) == words(_bare(table_of([given[at] for at in kept])))


def _bare(table: Table) -> Table:
    """Leave out columns that nobody of these need know."""
    return replace(table, workers=replace(table.workers, kinds={}, host_use={}, peaks={}))


def test_more_windows_than_are_objects_at_a_time_are_one_table() -> None:
    found = in_parts(window(at, patterns=(pattern(beta=at / 1024),)) for at in range(600))
    assert found.workers.rank.tolist() == list(range(600))
    assert found.beta.tolist() == [at / 1024 for at in range(600)]
    assert len(in_parts([]).workers) == 0
