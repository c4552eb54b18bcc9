"""Columns that the decoders of one file make, and their join into events sorted by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eroica_otel.summarize.intervals import Times
from eroica_otel.summarize.readers.arguments import Arguments
from eroica_otel.summarize.spill import Slot

Numbers = NDArray[np.int32]
Thread = int | str | None
NO_TABLE = np.zeros((0, 3), np.int64)
_MOST = 1 << 63
_LONGEST = 20
"""Digits of a thread's number."""


class Comm(NamedTuple):
    """A collective or record_param_comms: row in its batch, number of its label, times, and what its arguments say."""

    row: int
    label: int
    start: int
    end: int
    told: Arguments


class Batch(NamedTuple):
    """The events of one piece; rows count from 0 in it.

    Attributes:
        place: Number of the piece in the file.
        first: Earliest start, nanoseconds since the trace's base.
        last: Latest end.
        slot: Columns start, end (nanoseconds since the trace's base), label and thread (numbers in the part's tables).
        comms: Its collectives.
        python: (row, Python id, parent's) of Python functions, -1 where it is not told, shape [n, 3].
        stacks: (row, number of the call stack) of operators that carry one, shape [n, 2].
    """

    place: int
    first: int
    last: int
    slot: Slot
    comms: list[Comm]
    python: Times
    stacks: Times


@dataclass(frozen=True, slots=True)
class Part:
    """What one decoder has read.

    Attributes:
        labels: (category, name) by number.
        threads: By number.
        stacks: Call stacks by number.
        batches: In the order in which they were read.
        skipped: What could not be used, by reason.
        unknown: Events and nanoseconds of each category that the table of kinds does not know.
        problem: Why columns that should be in a file are in memory, "" where they are not.
    """

    labels: list[tuple[str, str]]
    threads: list[Thread]
    stacks: list[str]
    batches: list[Batch]
    skipped: Counter[str]
    unknown: dict[str, tuple[int, int]]
    problem: str


@dataclass(slots=True)
class Joined:
    """All events of a file, sorted by start; rows count in this order.

    Attributes:
        start: Nanoseconds since the trace's base.
        end: The same.
        thread: Thread of each event; what has a name instead of a number ("stream 7") is negative.
        comms: Row -> arguments, of collectives and record_param_comms.
        python: As in Batch.
        stacks: As in Batch, numbers into ``texts``.
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


class Tables:
    """Numbers of several parts -> numbers of the whole."""

    def __init__(self) -> None:
        self.labels: dict[tuple[str, str], int] = {}
        self.texts: dict[str, int] = {}
        self._streams: dict[str, int] = {}

    def of_labels(self, part: Part) -> Numbers:
        """Return the whole's number of each label of a part."""
        return np.array([self.labels.setdefault(key, len(self.labels)) for key in part.labels], np.int32)

    def of_texts(self, part: Part) -> Times:
        """Return the whole's number of each call stack of a part."""
        return np.array([self.texts.setdefault(key, len(self.texts)) for key in part.stacks], np.int64)

    def of_threads(self, part: Part) -> Times:
        """Return the thread by its number in a part; negative numbers stand for names, and are no system's."""
        return np.array([self._thread(key) for key in part.threads], np.int64)

    def _thread(self, key: Thread) -> int:
        # Of 2021 are numbers in quotes and streams with names.
        if isinstance(key, str) and key.isdecimal() and len(key) < _LONGEST:
            key = int(key)
        if isinstance(key, int) and -1 <= key < _MOST:
            return key
        return -2 - self._streams.setdefault(str(key), len(self._streams))


class _Piece(NamedTuple):
    """A batch with the numbers of the whole by those of its part."""

    batch: Batch
    label: Numbers
    thread: Times
    text: Times


def join(parts: Sequence[Part]) -> Joined:
    """Return the events of all parts, whose columns are in memory, sorted by start.

    Of those that start together the order in the file holds. The parts' columns are given up one by one.
    """
    tables = Tables()
    found = [
        _Piece(batch, *moves)
        for part in parts
        for moves in [(tables.of_labels(part), tables.of_threads(part), tables.of_texts(part))]
        for batch in part.batches
    ]
    found.sort(key=lambda piece: piece.batch.place)
    before = np.cumsum([0] + [piece.batch.slot.size for piece in found]).tolist()
    numbered = list(zip(found, before[:-1], strict=True))
    start = _column(numbered, 0, np.int64, before[-1])
    order = np.argsort(start, kind="stable")
    start = start[order]
    end = _column(numbered, 1, np.int64, before[-1])[order]
    label = _column(numbered, 2, np.int32, before[-1])[order]
    thread = _column(numbered, 3, np.int64, before[-1])[order]
    rows = np.empty(order.size, np.int32 if order.size < 1 << 31 else np.int64)
    rows[order] = np.arange(order.size, dtype=rows.dtype)
    names, name = _table([name for _, name in tables.labels], label)
    categories, category = _table([category for category, _ in tables.labels], label)
    return Joined(
        start=start,
        end=end,
        name=name,
        category=category,
        thread=thread,
        names=names,
        categories=categories,
        comms={int(rows[comm.row + at]): comm.told for piece, at in numbered for comm in piece.batch.comms},
        python=_shifted([(piece.batch.python, at) for piece, at in numbered], rows, 3),
        stacks=_shifted([(_renumbered(piece), at) for piece, at in numbered], rows, 2),
        texts=list(tables.texts),
        skipped=sum((part.skipped for part in parts), Counter()),
    )


def _column(found: list[tuple[_Piece, int]], place: int, kind: type, total: int) -> NDArray[Any]:
    """Return column ``place`` of all pieces in the whole's numbers, and take it out of them."""
    whole: NDArray[Any] = np.empty(total, kind)
    for piece, at in found:
        arrays = piece.batch.slot.arrays
        values = (None, None, piece.label, piece.thread)[place]
        whole[at : at + piece.batch.slot.size] = arrays[place] if values is None else values[arrays[place]]
        arrays[place] = arrays[place][:0].copy()
    return whole


def _table(texts: list[str], label: Numbers) -> tuple[list[str], Numbers]:
    """Return the distinct texts, and the number of each event's; ``texts`` is by label."""
    distinct = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(distinct), np.array([distinct[text] for text in texts], np.int32)[label]


def _renumbered(piece: _Piece) -> Times:
    stacks = piece.batch.stacks
    return np.column_stack((stacks[:, 0], piece.text[stacks[:, 1]])) if len(stacks) else stacks


def _shifted(tables: list[tuple[Times, int]], rows: NDArray[Any], width: int) -> Times:
    """Return tables whose first column is a row as one table, with rows of the whole, sorted by them."""
    moved = [np.column_stack((rows[table[:, 0] + at], table[:, 1:])) for table, at in tables if len(table)]
    whole = np.concatenate(moved) if moved else np.zeros((0, width), np.int64)
    return whole[np.argsort(whole[:, 0], kind="stable")]
