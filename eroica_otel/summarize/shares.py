"""Cumulative use of one resource + charged pieces -> mean and deviation of the share in use, per function.

Use is known at sample times and taken to be even between two of them, so the share of the peak in use is piecewise
constant. Pieces are cut to the sampled stretch; a function without any sampled time has no mu.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eroica_otel.summarize.intervals import Intervals, Reals, Times, clip, per_function, spread

WHOLE = 1.0
"""``hold`` under which the whole of each piece counts."""


@dataclass(frozen=True, slots=True)
class Use:
    """Cumulative use of one resource in nanoseconds at its peak, so that its slope is the share of the peak.

    Attributes:
        time_ns: Sample times, strictly increasing, shape [n >= 2].
        used_ns: Use since the first sample, never decreasing, shape [n].
        squared_ns: Integral of the squared share, shape [n].
        known_ns: Time since the first sample of which the use is known, shape [n]; None = all of it.
    """

    time_ns: Times
    used_ns: Reals
    squared_ns: Reals
    known_ns: Reals | None = None

    def used(self, time: Reals | Times) -> Reals:
        """Return the cumulative use at any times inside the sampled stretch."""
        return np.interp(time, self.time_ns, self.used_ns)

    def known(self, time: Reals | Times) -> Reals:
        """Return the known time since some fixed one, at any times inside the sampled stretch."""
        if self.known_ns is None:
            return np.asarray(time, np.float64)
        return np.interp(time, self.time_ns, self.known_ns)

    def squared(self, time: Reals | Times) -> Reals:
        """Return the integral of the squared share at any times inside the sampled stretch."""
        return np.interp(time, self.time_ns, self.squared_ns)


def cumulative_use(time_ns: Times, counter: NDArray[np.int64], peak_per_second: float) -> Use | None:
    """Return the use of a counter that may reach ``peak_per_second``; None with fewer than two distinct times.

    A counter that steps back (another clock's jitter, a reset) counts as standing still.
    """
    keep = np.append(np.diff(time_ns) > 0, True) if time_ns.size else np.zeros(0, bool)
    time, count = time_ns[keep], np.maximum.accumulate(counter[keep]) if counter.size else counter
    if time.size < 2:
        return None
    used = (count - count[0]) * (1e9 / peak_per_second)
    step = np.diff(time)
    squared = np.append(0.0, np.cumsum(np.diff(used) ** 2 / step))
    return Use(time, used, squared)


def held_use(time_ns: Times, ratio: Reals) -> tuple[Reals, Reals]:
    """Return (use, known time) in nanoseconds since the first sample, of shares that hold until the next; shape [n].

    A share that is NaN adds to neither.
    """
    step = np.diff(time_ns)
    known = np.isfinite(ratio[:-1])
    used = np.where(known, ratio[:-1] * step, 0.0)
    return np.append(0.0, np.cumsum(used)), np.append(0.0, np.cumsum(np.where(known, step, 0)))


def mean_and_deviation(use: Use, parts: Iterable[Intervals], functions: int, hold: float) -> tuple[Reals, Reals]:
    """Return (mu, sigma) per function, shape [functions], NaN without a sample; mu in [0, 1].

    Over a part of each piece (see shortest_parts), pooled by time: mu = sum of use / sum of known length, sigma the
    standard deviation of the share in use over the same time.
    """
    total, used, squared = np.zeros((3, functions))
    for part in parts:
        moved, pieces = _from_first_sample(use, part)
        start, end = shortest_parts(moved, pieces, hold)
        total += per_function(pieces, moved.known(end) - moved.known(start), functions)
        used += per_function(pieces, moved.used(end) - moved.used(start), functions)
        squared += per_function(pieces, moved.squared(end) - moved.squared(start), functions)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = used / total
        return np.clip(mean, 0.0, 1.0), np.sqrt(np.maximum(squared / total - mean**2, 0.0))


def _from_first_sample(use: Use, pieces: Intervals) -> tuple[Use, Intervals]:
    """Return use and what of the pieces is sampled, on a time from the first sample on.

    What follows is float64, in which a time since 1970 is good to 256 ns only.
    """
    first, last = int(use.time_ns[0]), int(use.time_ns[-1])
    start, end, function = clip(pieces, first, last)
    return replace(use, time_ns=use.time_ns - first), Intervals(start - first, end - first, function)


def charged_use(use: Use, parts: Iterable[Intervals], functions: int) -> Reals:
    """Return the use in nanoseconds at the peak over all of each function's pieces, shape [functions]."""
    total = np.zeros(functions)
    for part in parts:
        moved, pieces = _from_first_sample(use, part)
        total += per_function(pieces, moved.used(pieces.end) - moved.used(pieces.start), functions)
    return total


def shortest_parts(use: Use, pieces: Intervals, hold: float) -> tuple[Reals, Reals]:
    """Return (start, end) of the shortest contiguous part of each piece that holds ``hold`` of its use.

    Use is piecewise linear, so an optimum has one end at a sample or at a border of the piece: those are all tried, and
    of equal ones the earliest is taken. Without any use, or with ``hold`` = WHOLE, it is the whole piece.
    """
    start, end = pieces.start.astype(np.float64), pieces.end.astype(np.float64)
    below, above = use.used(start), use.used(end)
    chosen = np.flatnonzero(above > below) if hold < WHOLE else np.zeros(0, np.int64)
    if not chosen.size:
        return start, end
    row, left, right = _candidates(use, start[chosen], end[chosen], hold)
    size = right - left
    order = np.lexsort((left, size, row))
    first = order[np.searchsorted(row[order], np.arange(chosen.size))]
    start[chosen], end[chosen] = left[first], right[first]
    return start, end


def _candidates(use: Use, start: Reals, end: Reals, hold: float) -> tuple[Times, Reals, Reals]:
    """Return (piece, start, end) of every part that begins or ends at a sample or border and holds enough."""
    low = np.searchsorted(use.time_ns, start, side="right")
    high = np.searchsorted(use.time_ns, end, side="left")
    row, place = spread(np.maximum(high - low, 0))
    inside = use.time_ns[low[row] + place].astype(np.float64)
    pieces = np.arange(start.size)
    row = np.concatenate((pieces, row))
    wanted = hold * (use.used(end) - use.used(start))[row]
    begin, finish = np.concatenate((start, inside)), np.concatenate((end, inside))
    right = _reached(use, use.used(begin) + wanted, end[row])
    left = _left_at(use, use.used(finish) - wanted, start[row])
    slack = 1e-9 * wanted
    starts = use.used(begin) + wanted <= use.used(end)[row] + slack
    ends = use.used(finish) - wanted >= use.used(start)[row] - slack
    return (
        np.concatenate((row[starts], row[ends])),
        np.concatenate((begin[starts], left[ends])),
        np.concatenate((right[starts], finish[ends])),
    )


def _reached(use: Use, level: Reals, latest: Reals) -> Reals:
    """Return the earliest time at which the use has reached ``level``."""
    after = np.clip(np.searchsorted(use.used_ns, level, side="left"), 1, use.used_ns.size - 1)
    return np.minimum(_between(use, level, after), latest)


def _left_at(use: Use, level: Reals, earliest: Reals) -> Reals:
    """Return the latest time at which the use is still at ``level``."""
    after = np.clip(np.searchsorted(use.used_ns, level, side="right"), 1, use.used_ns.size - 1)
    return np.maximum(_between(use, level, after), earliest)


def _between(use: Use, level: Reals, after: Times) -> Reals:
    rise = use.used_ns[after] - use.used_ns[after - 1]
    share = np.clip((level - use.used_ns[after - 1]) / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
    begin = use.time_ns[after - 1].astype(np.float64)
    return begin + share * (use.time_ns[after] - begin)
