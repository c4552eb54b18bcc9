"""Pieces of a trace, on disk or in memory -> a source of blocks in the order of time.

A file is a few runs that are nearly sorted (the operators of a thread, the kernels of a device), so a piece covers
little time, and a block needs few pieces. Of a file in any order all pieces are needed for the first block: that is
right too, only in more memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eroica_otel.summarize.blocks import FAR, Block, Moves, Numbers, Rows, Sweep, joined
from eroica_otel.summarize.intervals import Times
from eroica_otel.summarize.readers.clock import clock_of
from eroica_otel.summarize.readers.collectives import Launches
from eroica_otel.summarize.readers.columns import Batch, Comm, Part, Tables
from eroica_otel.summarize.readers.header import Header
from eroica_otel.summarize.spill import Spill


class _Piece(NamedTuple):
    """A batch, where it is, and the numbers of the whole by those of its part."""

    batch: Batch
    spill: Spill
    label: Numbers
    thread: Times


class _Pending(NamedTuple):
    """Loaded events of a piece that no block has had yet, sorted by start, on the clock of the trace."""

    place: int
    rows: Rows


class Batches:
    """A blocks.Source over the pieces of a file, on the clock of the worker's samples."""

    def __init__(self, parts: Sequence[tuple[Part, Spill]], header: Header, offset: tuple[int, int]) -> None:
        """Take what the decoders of one file have read; ``offset`` is that of clock_of."""
        tables = Tables()
        self._pieces = [
            _Piece(batch, spill, *moves)
            for part, spill in parts
            for moves in [(tables.of_labels(part), tables.of_threads(part))]
            for batch in part.batches
        ]
        self._pieces.sort(key=lambda piece: piece.batch.first)
        first = min((piece.batch.first for piece in self._pieces), default=0)
        last = max((piece.batch.last for piece in self._pieces), default=0)
        self._clock = clock_of(offset, header.base_ns, first, last)
        self._unknown = [part.unknown for part, _ in parts]
        self.total = sum(piece.batch.slot.size for piece in self._pieces)
        self._resolve(tables.labels, header)
        self.labels = list(tables.labels)
        self.categories = dict.fromkeys(category for category, _ in self.labels)

    def _resolve(self, labels: dict[tuple[str, str], int], header: Header) -> None:
        """Find out what the collectives moved, and which carry another label than they came with."""
        keys = list(labels)
        found: list[tuple[int, Comm, tuple[str, str]]] = [
            (piece.batch.place, comm, keys[piece.label[comm.label]])
            for piece in self._pieces
            for comm in piece.batch.comms
        ]
        known = Launches(((name, comm.told) for _, comm, (_, name) in found), header)
        self._renamed: dict[int, dict[int, int]] = {}
        self._comms: list[tuple[int, int, int]] = []
        self._told: list[tuple[str, int | None] | None] = []
        for place, comm, (category, before) in found:
            after = known.name(before, comm.told)
            label = labels.setdefault((category, after), len(labels))
            if after != before:
                self._renamed.setdefault(place, {})[comm.row] = label
            self._comms.append((comm.start, comm.end, label))
            self._told.append(known.moved(before, comm.told))

    def blocks(self, wanted: NDArray[np.bool_], start: int, end: int) -> Iterator[Block]:
        """Yield blocks that together make up [start, end), of events whose label is wanted (by number)."""
        sweep = Sweep(start, end)
        pending: list[_Pending] = []
        waiting, look = 0, sweep.size
        for place, piece in enumerate(self._pieces):
            pending.append(_Pending(piece.batch.place, self._loaded(piece, wanted)))
            waiting += pending[-1].rows.start.size
            if waiting < look or not self._clock.steady or place + 1 == len(self._pieces):
                continue
            upto = self._pieces[place + 1].batch.first
            ready = sum(int(np.searchsorted(one.rows.start, upto)) for one in pending)
            if 2 * ready >= sweep.size:
                new, pending = _split(pending, upto)
                waiting -= ready
                yield from sweep.blocks(int(self._clock.of(np.array([upto]))[0]), self._on_clock(new))
                if sweep.done:
                    return
                look = waiting + sweep.size
            else:
                look = waiting + waiting // 2
        new = _split(pending, FAR)[0]
        pending.clear()
        yield from sweep.blocks(FAR, self._on_clock(new))

    def moves(self, function: Times) -> Moves:
        """Return the events whose label has a function (by number; -1: none)."""
        table = np.array(self._comms, np.int64).reshape(-1, 3)
        number = function[table[:, 2]] if len(table) else np.zeros(0, np.int64)
        mine = np.flatnonzero(number >= 0)
        start, end = (self._clock.of(table[mine, column]) for column in (0, 1))
        return Moves(start, end, number[mine], [self._told[row] for row in mine.tolist()])

    def unknown(self) -> Mapping[str, tuple[int, float]]:
        """Return (events, seconds that they take together) of each category that the table of kinds does not know."""
        found: dict[str, tuple[int, float]] = {}
        for part in self._unknown:
            for category, (count, time) in part.items():
                before, seconds = found.get(category, (0, 0.0))
                found[category] = (before + count, seconds + time / 1e9)
        return found

    def _loaded(self, piece: _Piece, wanted: NDArray[np.bool_]) -> Rows:
        """Return the wanted events of a piece, sorted by start."""
        start, end, label, thread = piece.spill.get(piece.batch.slot)
        label = piece.label[label]
        for row, number in self._renamed.get(piece.batch.place, {}).items():
            label[row] = number
        rows = Rows(start, end, label, thread).take(np.flatnonzero(wanted[label]))
        if not (rows.start[1:] >= rows.start[:-1]).all():
            rows = rows.take(np.argsort(rows.start, kind="stable"))
        return rows._replace(thread=piece.thread[rows.thread])

    def _on_clock(self, rows: Rows) -> Rows:
        return rows._replace(start=self._clock.of(rows.start), end=self._clock.of(rows.end))


def _split(pending: list[_Pending], upto: int) -> tuple[Rows, list[_Pending]]:
    """Return the events that start before ``upto``, in the order of start and file, and what stays pending."""
    new: list[_Pending] = []
    kept: list[_Pending] = []
    for one in pending:
        at = int(np.searchsorted(one.rows.start, upto))
        if at:
            new.append(_Pending(one.place, one.rows.take(slice(0, at))))
        if at < one.rows.start.size:
            kept.append(_Pending(one.place, one.rows.take(slice(at, None))))
    rows = joined([one.rows for one in sorted(new, key=lambda one: one.place)])
    return rows.take(np.argsort(rows.start, kind="stable")), kept
