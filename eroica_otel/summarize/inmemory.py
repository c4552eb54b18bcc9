"""Events in memory -> a source of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from eroica_otel import kinds
from eroica_otel.model import Events
from eroica_otel.summarize.blocks import FAR, Block, Moves, Rows, Sweep
from eroica_otel.summarize.intervals import Times


class InMemory:
    """A blocks.Source over the columns of a trace that was read as a whole."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.categories = events.categories
        self.total = events.total
        width = max(len(events.names), 1)
        key = events.category.astype(np.int64) * width + events.name
        seen = np.zeros(width * len(events.categories), bool)
        seen[key] = True
        known = np.flatnonzero(seen)
        number = np.zeros(seen.size, np.int32)
        number[known] = np.arange(known.size)
        self._label = number[key]
        self.labels = [(events.categories[at // width], events.names[at % width]) for at in known.tolist()]

    def blocks(self, wanted: NDArray[np.bool_], start: int, end: int) -> Iterator[Block]:
        """Yield blocks that together make up [start, end), of events whose label is wanted (by number)."""
        events, sweep, first = self._events, Sweep(start, end), 0
        starts = events.start_ns
        # A clock that stepped back by more than the trace's length leaves them unsorted: then all make one block.
        steady = bool((starts[1:] >= starts[:-1]).all())
        while not sweep.done:
            after = first + sweep.size
            upto = int(starts[after]) if steady and after < starts.size else FAR
            after = int(np.searchsorted(starts, upto, side="right")) if upto < FAR else starts.size
            rows = slice(first, after)
            new = Rows(starts[rows], events.end_ns[rows], self._label[rows], events.thread[rows])
            yield sweep.block(upto + 1 if upto < FAR else FAR, new.take(wanted[new.label]))
            first = after

    def moves(self, function: Times) -> Moves:
        """Return the events whose label has a function (by number; -1: none)."""
        if not self.labels:
            return Moves(*(np.zeros(0, np.int64),) * 3, [])
        rows = np.flatnonzero((function >= 0)[self._label])
        told = [self._events.collectives.get(row) for row in rows.tolist()]
        return Moves(self._events.start_ns[rows], self._events.end_ns[rows], function[self._label[rows]], told)

    def unknown(self) -> Mapping[str, tuple[int, float]]:
        """Return (events, seconds that they take together) of each category that the table of kinds does not know."""
        return unknown_categories(self._events)


def unknown_categories(events: Events) -> dict[str, tuple[int, float]]:
    """Return (events, seconds that they take together) of each category that the table of kinds does not know."""
    if all(kinds.is_known(category) for category in events.categories):
        return {}
    counts = np.bincount(events.category, minlength=len(events.categories))
    lengths = np.bincount(events.category, weights=events.end_ns - events.start_ns, minlength=len(events.categories))
    return {
        category: (int(count), float(length) / 1e9)
        for category, count, length in zip(events.categories, counts, lengths, strict=True)
        if count and not kinds.is_known(category)
    }
