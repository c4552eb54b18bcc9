"""Charged pieces, block by block -> all of them, as if the window had been charged at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from eroica_otel.summarize.intervals import Intervals, join, nothing
from eroica_otel.summarize.spill import Slot, Spill


class Stretches:
    """Pieces of all levels; those that a border between two blocks has cut are sewn together again."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._slots: list[Slot] = []
        self._cut: list[Intervals] = []

    def add(self, levels: Sequence[Intervals], low: int, high: int, last: bool) -> None:
        """Add the pieces of each level inside [low, high), sorted by function and start; blocks come in turn."""
        before = self._cut or [nothing() for _ in levels]
        done: list[Intervals] = []
        self._cut = []
        for cut, pieces in zip(before, levels, strict=True):
            finished, pieces = _sewn(cut, pieces, low)
            goes_on = (pieces.end == high) & (not last)
            self._cut.append(pieces.take(goes_on))
            done += [finished, pieces.take(~goes_on)]
        self._keep(join(*done))

    def __iter__(self) -> Iterator[Intervals]:
        """Yield the pieces part by part; a function's are disjoint, and none is in two parts."""
        for slot in self._slots:
            start, end, function = self._spill.get(slot)
            yield Intervals(start, end, function.astype(np.int64))

    def _keep(self, pieces: Intervals) -> None:
        if pieces.start.size:
            self._slots.append(self._spill.put(pieces.start, pieces.end, pieces.function.astype(np.int32)))


def _sewn(cut: Intervals, pieces: Intervals, low: int) -> tuple[Intervals, Intervals]:
    """Return pieces that ended at ``low`` for good, and pieces of which some now begin where those did.

    Of one level and function at most one piece ends at a border, and at most one begins there.
    """
    if not cut.start.size:
        return cut, pieces
    first = np.flatnonzero(pieces.start == low)
    place = np.searchsorted(cut.function, pieces.function[first])
    same = place < cut.function.size
    same[same] = cut.function[place[same]] == pieces.function[first[same]]
    start = pieces.start.copy()
    start[first[same]] = cut.start[place[same]]
    ended = np.ones(cut.start.size, bool)
    ended[place[same]] = False
    return cut.take(ended), Intervals(start, pieces.end, pieces.function)
