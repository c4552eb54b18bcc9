"""Events of a window -> blocks: stretches of time, one after the other, each with all the events that reach into it.

What is charged at an instant depends on nothing but the events around it, so a window can be charged block by block in
memory that does not grow with it. Events that last longer are carried from block to block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from eroica_otel.summarize.intervals import Times

Numbers = NDArray[np.int32]
BLOCK_EVENTS = 1 << 17
"""Events in a block: few enough to stay near the processor, enough that numpy is not called for little."""
FAR = int(np.iinfo(np.int64).max)


class Rows(NamedTuple):
    """Events as columns of shape [n]; ``label`` is a number in Source.labels."""

    start: Times
    end: Times
    label: Numbers
    thread: Times

    def take(self, index: NDArray[np.bool_] | Times | slice) -> Rows:
        """Return the events that ``index`` selects."""
        return Rows(self.start[index], self.end[index], self.label[index], self.thread[index])


class Block(NamedTuple):
    """Every event that reaches into [low, high), sorted by start, those with equal starts as in the file."""

    low: int
    high: int
    rows: Rows


class Moves(NamedTuple):
    """Events that move data between workers.

    Attributes:
        start: Start, shape [n].
        end: End, shape [n].
        function: Number of the function, shape [n].
        told: (process group, bytes or None) of each; None for an event that is no call of its own.
    """

    start: Times
    end: Times
    function: Times
    told: Sequence[tuple[str, int | None] | None]


class Source(Protocol):
    """A worker's events, wherever they are.

    Attributes:
        categories: Every category.
        labels: (category, name) by number.
        total: Complete events, before any selection.
    """

    @property
    def categories(self) -> Collection[str]: ...
    @property
    def labels(self) -> Sequence[tuple[str, str]]: ...
    @property
    def total(self) -> int: ...

    def blocks(self, wanted: NDArray[np.bool_], start: int, end: int) -> Iterator[Block]:
        """Yield blocks that together make up [start, end), of events whose label is wanted (by number)."""

    def moves(self, function: Times) -> Moves:
        """Return the events whose label has a function (by number; -1: none)."""

    def unknown(self) -> Mapping[str, tuple[int, float]]:
        """Return (events, seconds that they take together) of each category that the table of kinds does not know."""


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the events of all parts."""
    if not parts:
        return Rows(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64))
    return Rows(*(np.concatenate(column) for column in zip(*parts, strict=True))) if len(parts) > 1 else parts[0]


class Sweep:
    """Makes blocks of events that come in the order of their starts."""

    def __init__(self, start: int, end: int) -> None:
        self._low, self._end = start, end
        self._open = joined([])

    @property
    def size(self) -> int:
        """Events that the next block should have: as many as are carried, so that these never cost most of the time."""
        return max(BLOCK_EVENTS, self._open.start.size)

    @property
    def done(self) -> bool:
        """Whether the window's end has been reached."""
        return self._low >= self._end

    def block(self, upto: int, new: Rows) -> Block:
        """Return the block that ends at ``upto``.

        Args:
            upto: No event that comes later starts before it.
            new: Events that start no earlier than those that came before.
        """
        low, high = self._low, min(max(upto, self._low), self._end)
        rows = joined([self._open, new]) if self._open.start.size else new
        lasting = rows.end > high
        self._open = rows.take(lasting & (rows.start < self._end)) if high < self._end else joined([])
        self._low = high
        return Block(low, high, rows.take((rows.end > low) & (rows.start < high)))

    def blocks(self, upto: int, new: Rows) -> Iterator[Block]:
        """Yield blocks, the last of which ends at ``upto``; as block(), but ``new`` may be more than fits into one.

        Where it is not sorted by start (a clock that stepped back) it makes one.
        """
        steady = bool((new.start[1:] >= new.start[:-1]).all())
        while steady and new.start.size > 2 * self.size and not self.done:
            border = int(new.start[self.size])
            after = int(np.searchsorted(new.start, border, side="right"))
            yield self.block(border + 1, new.take(slice(0, after)))
            new = new.take(slice(after, None))
        if not self.done:
            yield self.block(upto, new)
