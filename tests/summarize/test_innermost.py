"""Self times against the loop oracle: call trees, and ranges that cross."""

from __future__ import annotations

import random

import numpy as np

import naive
from eroica_otel.summarize.innermost import innermost
from factories_summarize import Row


def _found(rows: list[Row]) -> dict[tuple[int, int], int]:
    stretches = innermost(
        np.array([row.start for row in rows], np.int64),
        np.array([row.end for row in rows], np.int64),
        np.array([row.thread for row in rows], np.int64),
    )
    found: dict[tuple[int, int], int] = {}
    for start, end, event in zip(*stretches, strict=True):
        for now in range(start, end):
            key = (rows[event].thread, now)
            assert key not in found, "two events are innermost at one instant of a thread"
            found[key] = int(event)
    return found


def _expected(rows: list[Row]) -> dict[tuple[int, int], int]:
    tops = {(thread, now): naive.innermost(rows, thread, now) for thread in (1, 2) for now in range(40)}
    return {key: top for key, top in tops.items() if top is not None}


def _tree(rng: random.Random, low: int, high: int, depth: int, thread: int) -> list[Row]:
    rows = [Row("x", low, high, thread=thread)]
    while depth and low < high:
        start = rng.randint(low, high)
        end = rng.randint(start, high)
        rows += _tree(rng, start, end, depth - 1, thread)
        low = end
        if rng.random() < 0.3:
            break
    return rows


def test_call_trees() -> None:
    rng = random.Random(11)
    for _ in range(200):
        rows = _tree(rng, 0, 30, 3, 1) + _tree(rng, 5, 38, 2, 2)
        rng.shuffle(rows)
        rows.sort(key=lambda row: row.start)
        assert _found(rows) == _expected(rows)


def test_ranges_that_cross_go_to_the_one_that_began_last() -> None:
    rows = [Row("outer", 0, 10), Row("late", 5, 15)]
    assert _found(rows) == {(1, now): int(now >= 5) for now in range(15)}


def test_any_ranges_on_one_thread_beside_a_call_tree_on_another() -> None:
    rng = random.Random(12)
    for _ in range(200):
        spans = [sorted(rng.choices(range(38), k=2)) for _ in range(rng.randrange(8))]
        rows = [Row("x", start, end, thread=1) for start, end in spans] + _tree(rng, 0, 30, 3, 2)
        rows.sort(key=lambda row: row.start)
        assert _found(rows) == _expected(rows)


def test_no_events_and_events_without_duration() -> None:
    assert _found([]) == {}
    assert _found([Row("x", 3, 3)]) == {}
