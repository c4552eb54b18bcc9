"""Samples of a stretch of time out of a ring of the node agent (ring.py has the format); nothing in it is trusted.

Takes the shared folder and a ring's name, gives arrays. Used by workers: it cannot disturb the writer and cannot be
killed by what others do to the file. Memory is bounded by the ring's fixed size and the columns that are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.ring import (
    DESCRIPTOR,
    DESCRIPTORS_AT,
    HEARTBEAT_AT,
    MOST_RESOURCES,
    NUMBER,
    SUFFIX,
    Layout,
    parse,
)
from eroica_otel.hardware.shared import open_folder, open_regular

STALE_NS = 3_000_000_000
"""An agent that has not said for so long that it is alive is taken for dead; it says so four times a second."""
_CHUNK_BYTES = 1 << 21


class Bytes(Protocol):
    """Bytes at positions; a file, or in tests a memory that is written meanwhile."""

    def load(self, position: int, into: memoryview) -> None:
        """Fill ``into`` from ``position``; raises HardwareError where there is less."""


class FileBytes:
    """The bytes of an open file."""

    def __init__(self, file: int) -> None:
        self.file = file

    def load(self, position: int, into: memoryview) -> None:
        try:
            got = os.preadv(self.file, [into], position)
        except OSError as error:
            raise HardwareError(f"a ring cannot be read: {error.strerror}") from error
        if got != len(into):
            raise HardwareError("a ring was shortened while it was read")


@dataclass(frozen=True, slots=True)
class Samples:
    """What a ring holds of a stretch of time.

    Attributes:
        times: Shape [n], monotonic ns, growing.
        values: Shape [n, columns], raw; NaN where the source could not be read.
        lost: Samples in between that were written over or half written while they were read.
        cut: Whether the ring may have held earlier samples of the stretch, and has written over them.
    """

    times: NDArray[np.int64]
    values: NDArray[np.float64]
    lost: int
    cut: bool


class Samplings:
    """Reads the samples of one ring; owns no file, so that tests can give it a memory of theirs."""

    def __init__(self, layout: Layout, source: Bytes) -> None:
        self.layout = layout
        self._source = source

    def read(self, start: int, end: int, columns: Sequence[int] | None = None) -> Samples:
        """Return the samples of ``start`` <= time <= ``end`` (monotonic ns) in the wanted columns, None = all.

        Raises:
            HardwareError: the file was shortened, cannot be read, or has times that go back.
        """
        steps = self.steps(start, end, columns)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                samples: Samples = done.value
                return samples

    def steps(self, start: int, end: int, columns: Sequence[int] | None = None) -> Generator[None, None, Samples]:
        """Do what ``read`` does, load by load: ``ends`` first, ``begins`` last (see ring.py)."""
        layout = self.layout
        ends = self._numbers(layout.ends_at)
        yield
        times = self._numbers(layout.times_at)
        yield
        slots, cut = _chosen(ends, times, start, end)
        values = yield from self._values(slots, columns)
        begins = self._numbers(layout.begins_at)
        good = begins[slots] == ends[slots]
        lost = 0 if not len(slots) else int(ends[slots[-1]] - ends[slots[0]]) + 1 - int(good.sum())
        kept = times[slots[good]]
        if np.any(np.diff(kept) <= 0):
            raise HardwareError("the times in a ring go back")
        return Samples(kept, values if good.all() else values[good], lost, cut)

    def _numbers(self, position: int) -> NDArray[np.int64]:
        found = np.empty(self.layout.slots, "<i8")
        self._source.load(position, found.data.cast("B"))
        return found

    def _values(self, slots: NDArray[np.int64], columns: Sequence[int] | None) -> Generator[None, None, NDArray[Any]]:
        """Load the rows of these slots, which follow one another around the ring, in runs of some megabytes."""
        layout = self.layout
        most = max(1, _CHUNK_BYTES // layout.row)
        found = np.empty((len(slots), len(layout.resources) if columns is None else len(columns)), "<f8")
        room = None if columns is None else np.empty((most, len(layout.resources)), "<f8")
        for first, last in _runs(slots, most):
            rows = found[first:last] if room is None else room[: last - first]
            self._source.load(layout.values_at + int(slots[first]) * layout.row, rows.data.cast("B"))
            if (unreal := np.isinf(rows)).any():  # no counter is infinite
                rows[unreal] = np.nan
            if room is not None:
                found[first:last] = rows[:, columns]
            yield
        return found


def _runs(slots: NDArray[np.int64], most: int) -> list[tuple[int, int]]:
    """Return (first, last + 1) of stretches of at most ``most`` slots that lie side by side in the file."""
    borders = [0, *(np.flatnonzero(np.diff(slots) != 1) + 1).tolist(), len(slots)]
    return [(first, min(first + most, end)) for begin, end in pairwise(borders) for first in range(begin, end, most)]


def _chosen(ends: NDArray[np.int64], times: NDArray[np.int64], start: int, end: int) -> tuple[NDArray[np.int64], bool]:
    """Return the slots of the newest lap with a time in the stretch, oldest first, and whether older ones are gone."""
    slots = np.arange(len(ends))
    placed = (ends > 0) & ((ends - 1) % len(ends) == slots)
    newest = int(ends[placed].max(initial=0))
    lap = slots[placed & (ends > newest - len(ends))]
    lap = lap[np.argsort(ends[lap], kind="stable")]
    inside = lap[(times[lap] >= start) & (times[lap] <= end)]
    cut = newest > len(ends) and len(lap) > 0 and int(times[lap[0]]) > start
    return inside, cut


class Ring:
    """An open ring of the agent's."""

    def __init__(self, file: int) -> None:
        """Take a read-only descriptor; raises HardwareError where it is no ring, and closes it then."""
        self._file = file
        try:
            head = os.pread(file, DESCRIPTORS_AT + MOST_RESOURCES * DESCRIPTOR.size, 0)
            self._samplings = Samplings(parse(head, os.fstat(file).st_size), FileBytes(file))
        except OSError as error:
            self.close()
            raise HardwareError(f"a ring cannot be read: {error.strerror}") from error
        except HardwareError:
            self.close()
            raise
        self.layout = self._samplings.layout

    def read(self, start: int, end: int, columns: Sequence[int] | None = None) -> Samples:
        """Return the samples of a stretch of time as ``Samplings.read`` does."""
        return self._samplings.read(start, end, columns)

    def alive(self, now: int) -> bool:
        """Whether its writer was at work less than 3 s before ``now`` (monotonic ns); raises HardwareError."""
        word = bytearray(NUMBER.size)
        FileBytes(self._file).load(HEARTBEAT_AT, memoryview(word))
        (beat,) = NUMBER.unpack(word)
        return bool(beat > 0 and abs(now - beat) < STALE_NS)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def open_ring(folder: int, name: str, owners: frozenset[int] | None = None) -> Ring:
    """Open the ring ``name`` of a shared folder; ``owners`` are the users whose rings are believed, None = anybody's.

    Raises:
        HardwareError: it is missing, no regular file of such an owner, or no ring.
    """
    return Ring(open_regular(folder, name, owners))


def open_rings(path: Path, owners: frozenset[int] | None = None) -> tuple[dict[str, Ring], dict[str, str]]:
    """Return the usable rings of a shared folder by name, and why the others are not used; at most 64 are looked at.

    Raises:
        HardwareError: the folder is missing or may not be read.
    """
    folder = open_folder(path)
    rings: dict[str, Ring] = {}
    refused: dict[str, str] = {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX) and not name.startswith("."))
        for name in names[:64]:
            try:
                rings[name] = open_ring(folder, name, owners)
            except HardwareError as error:
                refused[name] = str(error)
    finally:
        os.close(folder)
    return rings, refused
