"""Samples of a stretch of time out of a ring of the node agent (ring.py has the format); nothing in it is trusted.

Takes the shared folder and a ring's name, gives arrays. Used by workers: it cannot disturb the writer and cannot be
killed by what others do to the file. Memory is bounded by the ring's fixed size and the columns that are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.ring import (
    DESCRIPTOR,
    DESCRIPTORS_AT,
    HEARTBEAT_AT,
    MOST_RESOURCES,
    NUMBER,
    STATE_AT,
    SUFFIX,
    Layout,
    counted,
    parse,
)
from eroica_otel.hardware.shared import open_folder, open_regular

STALE_NS = 3_000_000_000
"""An agent that has not said for so long that it is alive is taken for dead; it says so four times a second."""
_CHUNK_BYTES = 1 << 17


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
        lost: The oldest samples of the stretch, where they were written over while they were read.
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
        self._word = bytearray(NUMBER.size)

    def read(self, start: int, end: int, columns: Sequence[int] | None = None) -> Samples:
        """Return the samples of ``start`` <= time <= ``end`` (monotonic ns) in the wanted columns, None = all.

        Raises:
            HardwareError: the file was shortened, cannot be read, or has times that go back.
        """
        newest = self._newest()
        first = self._first_after(start - 1, max(1, newest + 1 - self.layout.slots), newest)
        last = self._first_after(end, first, newest) - 1
        times, values = self._rows(first, last, columns)
        oldest = max(1, self._newest() + 1 - self.layout.slots)  # see ring.py: those below may be torn
        lost = min(max(0, oldest - first), len(times))
        times, values = times[lost:], values[lost:]
        if len(times) and (times[0] < start or times[-1] > end or np.any(np.diff(times) <= 0)):
            raise HardwareError("the times in a ring go back")
        from_start = not lost and len(times) > 0 and times[0] == start
        return Samples(times, values, lost, cut=oldest > 1 and first <= oldest and not from_start)

    def _newest(self) -> int:
        """Return the number of the newest sample whose writing is done, 0 before the first."""
        self._source.load(STATE_AT, memoryview(self._word))
        return counted(int.from_bytes(self._word, "little")) * self.layout.batch

    def _first_after(self, when: int, low: int, newest: int) -> int:
        """Return the least number from ``low`` on whose sample is later than ``when``, ``newest`` + 1 without one."""
        high = newest + 1
        while low < high:
            middle = (low + high) // 2
            if self._is_later(middle, when):
                high = middle
            else:
                low = middle + 1
        return low

    def _is_later(self, number: int, when: int) -> bool:
        """Whether a sample is later; one that is written over meanwhile counts as early, like all before it."""
        self._source.load(self._position(number), memoryview(self._word))
        (time,) = NUMBER.unpack(self._word)
        return bool(time > when) and number > self._newest() - self.layout.slots

    def _position(self, number: int) -> int:
        return self.layout.rows_at + (number - 1) % self.layout.rows * self.layout.row

    def _rows(
        self, first: int, last: int, columns: Sequence[int] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return times and values of samples ``first`` to ``last``, loaded in runs that stay in the core's cache."""
        count, width = max(0, last + 1 - first), self.layout.row // 8
        most = max(1, min(_CHUNK_BYTES // self.layout.row, count))
        whole = columns is None
        room = np.empty((count if whole else most, width), "<f8")
        times, values = np.empty(count, "<i8"), room[:, 1:] if whole else np.empty((count, len(columns or ())), "<f8")
        wanted = _wanted(columns or ())
        number = first
        while number <= last:
            at, row = number - first, (number - 1) % self.layout.rows
            some = min(most, count - at, self.layout.rows - row)
            rows = room[at : at + some] if whole else room[:some]
            self._source.load(self._position(number), rows.data.cast("B"))
            times[at : at + some] = rows[:, 0].view("<i8")
            if not whole:
                values[at : at + some] = rows[:, wanted]
            _without_infinities(values[at : at + some])
            number += some
        return times, values


def _without_infinities(values: NDArray[np.float64]) -> None:
    """Make missing what is infinite, as no counter is."""
    if (unreal := np.isinf(values)).any():
        values[unreal] = np.nan


def _wanted(columns: Sequence[int]) -> slice | list[int]:
    """Return where in a row the columns are, as a slice where they follow one another: that is copied faster."""
    places = [column + 1 for column in columns]
    if places and places == list(range(places[0], places[0] + len(places))):
        return slice(places[0], places[0] + len(places))
    return places


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
