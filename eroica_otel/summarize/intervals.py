"""Algebra of half-open intervals [start, end) in int64 nanoseconds; every array is one-dimensional. Pure numpy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Reals = NDArray[np.float64]
_FEW = 1 << 15
_LONGEST_AXIS = 1 << 62


class Intervals(NamedTuple):
    """Intervals that belong to functions.

    Attributes:
        start: Starts, shape [n].
        end: Ends, shape [n].
        function: Number of the function, shape [n].
    """

    start: Times
    end: Times
    function: Times

    def take(self, index: NDArray[np.bool_] | Times | slice) -> Intervals:
        """Return the intervals that ``index`` selects."""
        return Intervals(self.start[index], self.end[index], self.function[index])


def nothing() -> Intervals:
    """Return no interval."""
    empty = np.zeros(0, np.int64)
    return Intervals(empty, empty, empty)


def join(*parts: Intervals) -> Intervals:
    """Return the intervals of all parts."""
    return Intervals(*(np.concatenate(column) for column in zip(*parts, strict=True))) if parts else nothing()


def clip(intervals: Intervals, start: int, end: int) -> Intervals:
    """Return what lies inside [start, end); empty intervals vanish."""
    low = np.clip(intervals.start, start, end)
    high = np.clip(intervals.end, start, end)
    return Intervals(low, high, intervals.function).take(high > low)


def merge(intervals: Intervals) -> Intervals:
    """Return the union per function: sorted by function and start, disjoint, touching ones joined."""
    if not intervals.start.size:
        return intervals
    order = _by_function_and_start(intervals)
    start, end, function = (column[order] for column in intervals)
    # One running maximum serves all functions: each gets a stretch of its own on a longer axis.
    lowest = start.min()
    if (int(end.max()) - int(lowest) + 1) * (int(function[-1]) + 1) >= _LONGEST_AXIS:
        return _merge_by_rank(intervals)
    shift = function * (end.max() - lowest + 1) - lowest
    reach = np.maximum.accumulate(end + shift)
    first = np.empty(start.size, bool)
    first[0] = True
    first[1:] = (start + shift)[1:] > reach[:-1]
    first[1:] |= function[1:] != function[:-1]
    last = np.append(np.flatnonzero(first)[1:] - 1, start.size - 1)
    return Intervals(start[first], (reach - shift)[last], function[first])


def _merge_by_rank(intervals: Intervals) -> Intervals:
    """Merge intervals that lie too far apart for one axis: their borders' places in time do for the times."""
    borders, place = np.unique(np.concatenate((intervals.start, intervals.end)), return_inverse=True)
    start, end = place.reshape(2, -1).astype(np.int64)
    merged = merge(Intervals(start, end, intervals.function))
    return Intervals(borders[merged.start], borders[merged.end], merged.function)


def _by_function_and_start(intervals: Intervals) -> Times:
    """Return an order; where starts are sorted already one stable sort does, which is linear for few functions."""
    start, function = intervals.start, intervals.function
    if not (start[1:] >= start[:-1]).all():
        return np.lexsort((start, function))
    few = int(function.min()) >= 0 and int(function.max()) < _FEW
    return np.argsort(function.astype(np.int16) if few else function, kind="stable")


def union(intervals: Intervals) -> Intervals:
    """Return the union over all functions, under function 0."""
    order = np.argsort(intervals.start, kind="stable")
    return merge(Intervals(intervals.start[order], intervals.end[order], np.zeros_like(intervals.start)))


class Walk:
    """Gives intervals stretch by stretch, from early to late; ``whole`` may come in any order."""

    def __init__(self, whole: Intervals) -> None:
        self._whole = whole.take(np.argsort(whole.start, kind="stable"))
        self._at = 0
        self._open = nothing()

    def within(self, low: int, high: int) -> Intervals:
        """Return what lies inside [low, high), cut to it, by start; ``low`` is no earlier than the last ``high``."""
        upto = int(np.searchsorted(self._whole.start, high))
        now = join(self._open, self._whole.take(slice(self._at, upto)))
        self._at = upto
        self._open = now.take(now.end > high)
        return clip(now, low, high)


def length(intervals: Intervals) -> int:
    """Return the summed length in nanoseconds."""
    return int((intervals.end - intervals.start).sum())


def per_function(intervals: Intervals, values: Times | Reals, functions: int) -> Reals:
    """Return the sum of one value of each interval by function, shape [functions]."""
    return np.bincount(intervals.function, weights=values, minlength=functions).astype(np.float64)


def spread(count: Times) -> tuple[Times, Times]:
    """Return (row, place in the row) of a ragged table whose row ``i`` has ``count[i]`` items."""
    row = np.repeat(np.arange(count.size), count)
    return row, np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)


def subtract(intervals: Intervals, cover: Intervals) -> Intervals:
    """Return the pieces of ``intervals`` outside ``cover`` (a union), in the same order, empty ones left out."""
    if not cover.start.size or not intervals.start.size:
        return intervals
    far = np.iinfo(np.int64)
    gap_start = np.append(far.min, cover.end)
    gap_end = np.append(cover.start, far.max)
    low = np.searchsorted(gap_end, intervals.start, side="right")
    high = np.searchsorted(gap_start, intervals.end, side="left")
    row, place = spread(np.maximum(high - low, 0))
    gap = low[row] + place
    pieces = Intervals(
        np.maximum(intervals.start[row], gap_start[gap]),
        np.minimum(intervals.end[row], gap_end[gap]),
        intervals.function[row],
    )
    return pieces.take(pieces.end > pieces.start)


def inside(spans: Intervals, borders: Times) -> Times:
    """Return how many nanoseconds of disjoint, sorted ``spans`` lie in each of [borders[i], borders[i + 1])."""
    if not spans.start.size:
        return np.zeros(borders.size - 1, np.int64)
    size = spans.end - spans.start
    before = np.append(0, np.cumsum(size))
    place = np.searchsorted(spans.start, borders, side="right") - 1
    known = np.maximum(place, 0)
    reached = np.where(place >= 0, np.minimum(borders - spans.start[known], size[known]), 0)
    return np.diff(before[known] + reached)
