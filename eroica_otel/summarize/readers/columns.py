"""Columns that the decoders of one file make, and their join into events sorted by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eroica_otel.summarize.intervals import Times
from eroica_otel.summarize.readers.arguments import Arguments

Numbers = NDArray[np.int32]
Thread = int | str | None
_MOST = 1 << 63


class Columns(NamedTuple):
    """The events of one piece; rows count from 0 in it.

    Attributes:
        place: Number of the piece in the file.
        start: Nanoseconds since the trace's base.
        end: The same.
        name: Number in the part's table, as category and thread.
        comms: Of collectives and record_param_comms: (row, arguments).
        python: (row, Python id, parent's) of Python functions, -1 where it is not told, shape [n, 3].
        stacks: (row, number of the call stack) of operators that carry one, shape [n, 2].
        skipped: What could not be used, by reason.
    """

    place: int
    start: Times
    end: Times
    name: Numbers
    category: Numbers
    thread: Numbers
    comms: list[tuple[int, Arguments]]
    python: Times
    stacks: Times
    skipped: Counter[str]


@dataclass(frozen=True, slots=True)
class Part:
    """What one decoder has read: its tables (by number) and its pieces."""

    names: list[str]
    categories: list[str]
    threads: list[Thread]
    stacks: list[str]
    pieces: list[Columns]


@dataclass(slots=True)
class Joined:
    """All events of a file, sorted by start; rows count in this order.

    Attributes:
        start: Nanoseconds since the trace's base.
        end: The same.
        thread: Thread of each event; what has a name instead of a number ("stream 7") is negative.
        comms: Row -> arguments, of collectives and record_param_comms.
        python: As in Columns.
        stacks: As in Columns, numbers into ``texts``.
        texts: Distinct call stacks.
    """

    start: Times
    end: Times
    name: Numbers
    category: Numbers
    thread: Times
    names: list[str]
    categories: list[str]
    comms: dict[int, Arguments]
    python: Times
    stacks: Times
    texts: list[str]
    skipped: Counter[str]


class _Tables:
    """Numbers of several parts -> numbers of the whole."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.categories: dict[str, int] = {}
        self.texts: dict[str, int] = {}
        self._streams: dict[str, int] = {}

    def moves(self, part: Part) -> dict[str, NDArray[np.int64]]:
        """Return for each column the whole's number by the part's number."""
        return {
            "name": _moved(self.names, part.names).astype(np.int32),
            "category": _moved(self.categories, part.categories).astype(np.int32),
            "stacks": _moved(self.texts, part.stacks),
            "thread": np.array([self._thread(key) for key in part.threads], np.int64),
        }

    def _thread(self, key: Thread) -> int:
        # Of 2021 are numbers in quotes and streams with names; negative numbers are no thread of any system.
        if isinstance(key, str) and key.isdecimal():
            key = int(key)
        if isinstance(key, int) and -1 <= key < _MOST:
            return key
        return -2 - self._streams.setdefault(str(key), len(self._streams))


def _moved(table: dict[str, int], keys: list[str]) -> NDArray[np.int64]:
    return np.array([table.setdefault(key, len(table)) for key in keys], np.int64)


def join(parts: Sequence[Part]) -> Joined:
    """Return the events of all parts sorted by start; of those that start together the order in the file holds."""
    tables = _Tables()
    found = [(piece, moves) for part in parts for moves in [tables.moves(part)] for piece in part.pieces]
    found.sort(key=lambda item: item[0].place)
    order, columns = _sorted(found)
    before = np.cumsum([0] + [piece.start.size for piece, _ in found]).tolist()
    rows = np.empty(order.size, np.int64)
    rows[order] = np.arange(order.size)
    numbered = list(zip(found, before[:-1], strict=True))
    return Joined(
        start=columns[0],
        end=columns[1],
        name=columns[2].astype(np.int32, copy=False),
        category=columns[3].astype(np.int32, copy=False),
        thread=columns[4],
        names=list(tables.names),
        categories=list(tables.categories),
        comms={int(rows[row + at]): known for (piece, _), at in numbered for row, known in piece.comms},
        python=_shifted([(piece.python, at) for (piece, _), at in numbered], rows, 3),
        stacks=_shifted([(_renumbered(piece.stacks, moves), at) for (piece, moves), at in numbered], rows, 2),
        texts=list(tables.texts),
        skipped=sum((piece.skipped for piece, _ in found), Counter()),
    )


def _sorted(found: list[tuple[Columns, dict[str, NDArray[np.int64]]]]) -> tuple[Times, list[Times]]:
    """Return the order by start, and start, end, name, category and thread in it."""
    start = _chain([piece.start for piece, _ in found], np.int64)
    order = np.argsort(start, kind="stable")
    columns: list[Times] = [start[order], _chain([piece.end for piece, _ in found], np.int64)[order]]
    for column, kind in (("name", np.int32), ("category", np.int32), ("thread", np.int64)):
        columns.append(_chain([moves[column][getattr(piece, column)] for piece, moves in found], kind)[order])
    return order, columns


def _chain(arrays: list[NDArray[np.int64]], kind: type) -> Times:
    return np.concatenate(arrays) if arrays else np.zeros(0, kind)


def _renumbered(stacks: Times, moves: dict[str, NDArray[np.int64]]) -> Times:
    return np.column_stack((stacks[:, 0], moves["stacks"][stacks[:, 1]])) if stacks.size else stacks


def _shifted(tables: list[tuple[Times, int]], rows: Times, width: int) -> Times:
    """Return tables whose first column is a row as one table, with rows of the whole, sorted by them."""
    moved = [np.column_stack((rows[table[:, 0] + at], table[:, 1:])) for table, at in tables if table.size]
    whole = np.concatenate(moved) if moved else np.zeros((0, width), np.int64)
    return whole[np.argsort(whole[:, 0], kind="stable")]
