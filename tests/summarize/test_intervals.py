"""Algebra of intervals against sets of integers."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np

from eroica_otel.summarize.intervals import (
    Intervals,
    clip,
    inside,
    join,
    length,
    merge,
    nothing,
    spread,
    subtract,
    union,
)


def _random(rng: random.Random, count: int) -> Intervals:
    start = [rng.randrange(-20, 60) for _ in range(count)]
    return Intervals(
        np.array(start, np.int64),
        np.array([low + rng.randrange(12) for low in start], np.int64),
        np.array([rng.randrange(3) for _ in range(count)], np.int64),
    )


def _sets(intervals: Intervals) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for start, end, function in zip(*intervals, strict=True):
        found.setdefault(int(function), set()).update(range(start, end))
    return {function: times for function, times in found.items() if times}


def test_clip_merge_subtract_and_union_are_those_of_sets() -> None:
    rng = random.Random(7)
    for _ in range(500):
        some, other = _random(rng, rng.randrange(9)), _random(rng, rng.randrange(9))
        window = set(range(40))
        clipped = clip(some, 0, 40)
        assert _sets(clipped) == {f: t & window for f, t in _sets(some).items() if t & window}
        merged = merge(clipped)
        assert _sets(merged) == _sets(clipped)
        assert length(merged) == sum(len(times) for times in _sets(clipped).values())
        cover = union(clip(other, 0, 40))
        taken = set().union(*_sets(cover).values())
        rest = subtract(merged, cover)
        assert _sets(rest) == {f: t - taken for f, t in _sets(merged).items() if t - taken}
        assert length(rest) == sum(len(times) for times in _sets(rest).values())


def test_merge_joins_what_touches_and_sorts_by_function_and_start() -> None:
    merged = merge(Intervals(np.array([5, 0, 3, 0]), np.array([9, 3, 4, 2]), np.array([1, 1, 1, 0])))
    assert [column.tolist() for column in merged] == [[0, 0, 5], [2, 4, 9], [0, 1, 1]]


def test_inside_counts_each_part() -> None:
    rng = random.Random(8)
    for _ in range(200):
        spans = union(clip(_random(rng, rng.randrange(6)), 0, 60))
        borders = np.array(sorted(rng.sample(range(-5, 65), 5)), np.int64)
        times = _sets(spans).get(0, set())
        expected = [len(times & set(range(a, b))) for a, b in pairwise(borders.tolist())]
        assert inside(spans, borders).tolist() == expected


def test_spread_numbers_a_ragged_table() -> None:
    row, place = spread(np.array([2, 0, 3]))
    assert (row.tolist(), place.tolist()) == ([0, 0, 2, 2, 2], [0, 1, 0, 1, 2])


def test_nothing_is_neutral() -> None:
    assert (
        length(join()) == length(nothing()) == length(merge(nothing())) == length(subtract(nothing(), nothing())) == 0
    )
