"""The ring in which the node agent leaves the samples of one source: its format, and the one who writes it.

Takes resources and rows of raw values, gives a file of fixed size. One process writes it, any number read it, nobody
waits. Little endian; all times are the host's monotonic clock (CLOCK_MONOTONIC, ns), which processes on a kernel share:

    0   magic 8s, version u32, resources u32 (R), slots u64 (N), family 32s, start i64
    64  heartbeat i64: when the writer was last alive, 0 = it has ended; state u64: Gray code of the newest batch;
        batch u32: samples that are stored at once (B), of which N is a multiple
    128 R descriptors of 160 bytes: name 32s, device 96s, unit 16s, peak f64, counter u8
    then, from the next multiple of 4,096 on, N + B rows: time i64, values f64[R]

Sample number k = 1, 2, ... lies in row (k - 1) % (N + B). The writer stores B rows, then the state, the number s of the
batch: two stores, the second of which says that the first is done. A reader loads the state (s = a), then rows, then
the state (s = b). Rows up to a B were whole when it began. When it ended the writer had begun no row beyond (b + 1) B,
so all from b B + 1 - N on were still what they had been: each number from there to a B is whole, each below was written
over or may have been. No number is used twice. What this rests on: stores become visible in their order, and bytes are
whole. A state half stored does no harm: Gray codes of neighbours differ in one bit (F. Gray, US patent 2632058, 1953),
so half a store is the old number or the new one.

Why batches: at a hundred samples a second two calls of the system for each cost as much as taking it. A batch that is
to be stored before it is full is filled up with rows in which all is missing.

The file can be mapped, but is read and written at positions, which go to the same pages in memory: a mapped file that
somebody shortens kills whoever touches it (SIGBUS), and here that would be a training or the agent.
"""

from __future__ import annotations

import errno
import math
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.source import Resource

MAGIC = b"EROICAR\x01"
VERSION = 3
HEADER = struct.Struct("<8sIIQ32sq")
HEARTBEAT_AT = 64
STATE_AT = 72
BATCH_AT = 80
DESCRIPTORS_AT = 128
DESCRIPTOR = struct.Struct("<32s96s16sdB7x")
NUMBER = struct.Struct("<q")
BATCH = struct.Struct("<I")
MOST_RESOURCES = 2048
MOST_SLOTS = 1 << 17
MOST_BYTES = 1 << 28
MOST_BATCH = 256
SUFFIX = ".ring"
_PAGE = 4096


class Store(Protocol):
    """Bytes at positions; a file, or in tests a memory that tears what is stored."""

    def save(self, position: int, data: bytes) -> None:
        """Put ``data`` at ``position``; raises OSError."""


class FileStore:
    """The bytes of an open file."""

    def __init__(self, file: int) -> None:
        self.file = file

    def save(self, position: int, data: bytes) -> None:
        """Put ``data`` at ``position``; raises OSError, also where only a part of it found room."""
        if os.pwrite(self.file, data, position) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass(frozen=True, slots=True)
class Layout:
    """What a ring holds and where; raises HardwareError where it would be none or too large.

    Attributes:
        family: The source.
        resources: The columns.
        slots: How many samples are kept.
        batch: How many are stored at once.
    """

    family: str
    resources: tuple[Resource, ...]
    slots: int
    batch: int = 1

    def __post_init__(self) -> None:
        if not (1 <= len(self.resources) <= MOST_RESOURCES and 1 <= self.slots <= MOST_SLOTS):
            raise HardwareError(f"a ring of {self.slots} samples of {len(self.resources)} resources is none")
        if not 1 <= self.batch <= MOST_BATCH or self.slots % self.batch:
            raise HardwareError(f"a ring of {self.slots} samples in batches of {self.batch} is none")
        if self.size > MOST_BYTES:
            raise HardwareError(f"a ring of {self.size} bytes is too large, {MOST_BYTES} is the most")

    @property
    def rows(self) -> int:
        """Rows in the file: one batch more than there are slots, as one is being written."""
        return self.slots + self.batch

    @property
    def rows_at(self) -> int:
        return _aligned(DESCRIPTORS_AT + len(self.resources) * DESCRIPTOR.size)

    @property
    def row(self) -> int:
        """Bytes of one row."""
        return 8 + len(self.resources) * 8

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.rows_at + _aligned(self.rows * self.row)

    def head(self, start: int) -> bytes:
        """Return what stands before the arrays; raises HardwareError for a name that does not fit."""
        family = _fitting(self.family, 32)
        parts = [HEADER.pack(MAGIC, VERSION, len(self.resources), self.slots, family, start)]
        alive = NUMBER.pack(start).ljust(BATCH_AT - HEARTBEAT_AT, b"\0") + BATCH.pack(self.batch)
        parts.append(alive.ljust(DESCRIPTORS_AT - HEARTBEAT_AT, b"\0"))
        for one in self.resources:
            names = _fitting(one.name, 32), _fitting(one.device, 96), _fitting(one.unit, 16)
            parts.append(DESCRIPTOR.pack(*names, one.peak, one.counter))
        return b"".join(parts)


def slots_for(resources: int, wanted: int = 1 << 16, most_bytes: int = MOST_BYTES // 4, batch: int = 1) -> int:
    """Return how many samples to keep: ``wanted`` (a minute at 1 kHz, eleven at 100 Hz), fewer where too large."""
    return max(1, min(wanted, MOST_SLOTS, most_bytes // (resources * 8 + 8)) // batch) * batch


def parse(head: bytes, size: int) -> Layout:
    """Return the layout of a file of ``size`` bytes that begins with ``head``; nothing in it is trusted.

    Raises:
        HardwareError: it is no ring, of another version, of another size, or names what cannot be.
    """
    if len(head) < DESCRIPTORS_AT:
        raise HardwareError("too short for a ring")
    magic, version, count, slots, family, _ = HEADER.unpack_from(head)
    if (magic, version) != (MAGIC, VERSION):
        raise HardwareError(f"no ring of version {VERSION}: agent and plugin must be of one version")
    if not (1 <= count <= MOST_RESOURCES and len(head) >= DESCRIPTORS_AT + count * DESCRIPTOR.size):
        raise HardwareError(f"a ring of {count} resources in {size} bytes is none")
    found = DESCRIPTOR.iter_unpack(head[DESCRIPTORS_AT : DESCRIPTORS_AT + count * DESCRIPTOR.size])
    (batch,) = BATCH.unpack_from(head, BATCH_AT)
    layout = Layout(_text(family), tuple(_resource(*fields) for fields in found), slots, batch)
    if layout.size != size:
        raise HardwareError(f"a ring of {size} bytes that should have {layout.size}")
    return layout


def _resource(name: bytes, device: bytes, unit: bytes, peak: float, counter: int) -> Resource:
    usable = peak if math.isfinite(peak) and peak > 0 else math.nan
    return Resource(_text(name), _text(device), _text(unit), usable, bool(counter))


def _text(data: bytes) -> str:
    try:
        text = data.rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise HardwareError("a name in a ring that is no text") from error
    if not text.isprintable():
        raise HardwareError("a name in a ring that cannot be printed")
    return text


def _fitting(text: str, most: int) -> bytes:
    data = text.encode()
    if len(data) > most or not text.isprintable():
        raise HardwareError(f"the name {text!r} does not fit into a ring: at most {most} printable bytes")
    return data


def _aligned(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def gray(number: int) -> int:
    """Return the Gray code of a number in [0, 2^63)."""
    return number ^ (number >> 1)


def counted(code: int) -> int:
    """Return the number of a Gray code of 64 bits."""
    for shift in (1, 2, 4, 8, 16, 32):
        code ^= code >> shift
    return code


class Writer:
    """The one writer of a ring's samples; owns no file, so that tests can give it a memory of theirs.

    Attributes:
        batches: How many have been stored.
    """

    def __init__(self, layout: Layout, store: Store) -> None:
        self.layout = layout
        self.batches = 0
        self._save = store.save
        self._state = struct.Struct("<qQ")
        self._rows_at, self._size = layout.rows_at, layout.row * layout.batch
        self._most = layout.rows // layout.batch
        self._row = struct.Struct(f"<q{len(layout.resources)}d")
        self._missing = (math.nan,) * len(layout.resources)

    def append(self, time: int, values: Sequence[float]) -> None:
        """Add one sample: monotonic ns, which is the heartbeat too, and a raw value for each resource (NaN = missing).

        Raises:
            OSError: the file cannot be written.
            HardwareError: there are more or fewer values than resources.
        """
        self.extend([time], [values])

    def extend(self, times: Sequence[int], rows: Sequence[Sequence[float]]) -> None:
        """Add up to a batch of samples, oldest first, as ``append`` does; what is left of it is missing.

        Raises:
            OSError: the file cannot be written.
            HardwareError: there are more or fewer values than resources, or more samples than a batch has.
        """
        if len(times) > self.layout.batch:
            raise HardwareError(f"{len(times)} samples at once, {self.layout.batch} are the most")
        pack, newest = self._row.pack, times[-1]
        try:
            block = [pack(time, *values) for time, values in zip(times, rows, strict=True)]
        except struct.error as error:
            raise HardwareError(f"{len(self.layout.resources)} values are needed: {error}") from error
        block += [pack(newest + more, *self._missing) for more in range(1, self.layout.batch + 1 - len(block))]
        number = self.batches
        self._save(self._rows_at + number % self._most * self._size, b"".join(block))
        self.batches = number = number + 1
        self._save(HEARTBEAT_AT, self._state.pack(newest, gray(number)))

    def beat(self, time: int) -> None:
        """Say that the writer is alive at ``time`` (monotonic ns); 0 says that it has ended; raises OSError."""
        self._save(HEARTBEAT_AT, NUMBER.pack(time))


def create(folder: int, name: str, layout: Layout, start: int) -> int:
    """Make the ring ``name`` in the folder of that descriptor, whole before it has its name; return a descriptor.

    An older ring of that name is replaced, and stays what it was for those who have it open. Space is taken at once: a
    full disk is told here, not when a sample is written.

    Raises:
        OSError: the folder is full or read-only, or something else than a file has the name.
        HardwareError: a name of a resource does not fit.
    """
    head = layout.head(start)
    hidden = f".{name}.{os.getpid()}"
    with suppress(FileNotFoundError):
        os.unlink(hidden, dir_fd=folder)
    file = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        os.posix_fallocate(file, 0, layout.size)
        os.pwrite(file, head, 0)
        os.fchmod(file, 0o644)  # workers of other users read it; the umask is nobody's business here
        os.rename(hidden, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.close(file)
        with suppress(OSError):
            os.unlink(hidden, dir_fd=folder)
        raise
    return file


def intact(folder: int, name: str, file: int, layout: Layout) -> bool:
    """Whether the name still leads to this file and it has its size; else the writer makes a new one."""
    try:
        there, ours = os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(file)
    except OSError:
        return False
    return os.path.samestat(there, ours) and ours.st_size == layout.size
