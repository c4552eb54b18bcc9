"""The ring in which the node agent leaves the samples of one source: its format, and the one who writes it.

Takes resources and rows of raw values, gives a file of fixed size. One process writes it, any number read it, nobody
waits. Little endian; all times are the host's monotonic clock (CLOCK_MONOTONIC, ns), which processes on a kernel share:

    0   magic 8s, version u32, resources u32 (R), slots u64 (N), family 32s, start i64
    64  heartbeat i64: when the writer was last alive; 0 = it has ended
    128 R descriptors of 160 bytes: name 32s, device 96s, unit 16s, peak f64, counter u8
    then, each from the next multiple of 4,096 on:
        begins i64[N]   times i64[N]   values f64[N, R]   ends i64[N]

Sample number k = 1, 2, ... lies in slot (k - 1) % N. Its writer stores k in ``begins``, then time and values, then k in
``ends``. A reader loads ``ends`` first, then the rest, then ``begins``, and keeps a slot only where both say k
(L. Lamport, "Concurrent reading and writing", CACM 20(11), 1977). A number is never used twice, so a slot that was
written over in between, even many times, is seen; and a number whose store is half done does no harm: where it reads
as k, that store has begun, so all before it is there. What this rests on: stores become visible in their order, and
while a number (8 aligned bytes) is loaded, at most one store to it goes on.

The file can be mapped, but is read and written at positions, which go to the same pages in memory: a mapped file that
somebody shortens kills whoever touches it (SIGBUS), and here that would be a training or the agent.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.source import Resource

MAGIC = b"EROICAR\x01"
VERSION = 1
HEADER = struct.Struct("<8sIIQ32sq")
HEARTBEAT_AT = 64
DESCRIPTORS_AT = 128
DESCRIPTOR = struct.Struct("<32s96s16sdB7x")
NUMBER = struct.Struct("<q")
MOST_RESOURCES = 2048
MOST_SLOTS = 1 << 17
MOST_BYTES = 1 << 28
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
        os.pwrite(self.file, data, position)


@dataclass(frozen=True, slots=True)
class Layout:
    """What a ring holds and where; raises HardwareError where it would be none or too large.

    Attributes:
        family: The source.
        resources: The columns.
        slots: How many samples are kept.
    """

    family: str
    resources: tuple[Resource, ...]
    slots: int

    def __post_init__(self) -> None:
        if not (1 <= len(self.resources) <= MOST_RESOURCES and 1 <= self.slots <= MOST_SLOTS):
            raise HardwareError(f"a ring of {self.slots} samples of {len(self.resources)} resources is none")
        if self.size > MOST_BYTES:
            raise HardwareError(f"a ring of {self.size} bytes is too large, {MOST_BYTES} is the most")

    @property
    def begins_at(self) -> int:
        return _aligned(DESCRIPTORS_AT + len(self.resources) * DESCRIPTOR.size)

    @property
    def times_at(self) -> int:
        return self.begins_at + _aligned(self.slots * 8)

    @property
    def values_at(self) -> int:
        return self.times_at + _aligned(self.slots * 8)

    @property
    def ends_at(self) -> int:
        return self.values_at + _aligned(self.slots * self.row)

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.ends_at + _aligned(self.slots * 8)

    @property
    def row(self) -> int:
        """Bytes of one sample's values."""
        return len(self.resources) * 8

    def head(self, start: int) -> bytes:
        """Return what stands before the arrays; raises HardwareError for a name that does not fit."""
        family = _fitting(self.family, 32)
        parts = [HEADER.pack(MAGIC, VERSION, len(self.resources), self.slots, family, start)]
        parts.append(NUMBER.pack(start).ljust(DESCRIPTORS_AT - HEARTBEAT_AT, b"\0"))
        for one in self.resources:
            names = _fitting(one.name, 32), _fitting(one.device, 96), _fitting(one.unit, 16)
            parts.append(DESCRIPTOR.pack(*names, one.peak, one.counter))
        return b"".join(parts)


def slots_for(resources: int, wanted: int = 1 << 16, most_bytes: int = MOST_BYTES // 4) -> int:
    """Return how many samples to keep: ``wanted`` (a minute at 1 kHz, eleven at 100 Hz), fewer where too large."""
    return max(1, min(wanted, MOST_SLOTS, most_bytes // (resources * 8 + 24)))


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
    layout = Layout(_text(family), tuple(_resource(*fields) for fields in found), slots)
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


class Writer:
    """The one writer of a ring's samples; owns no file, so that tests can give it a memory of theirs."""

    def __init__(self, layout: Layout, store: Store) -> None:
        self.layout = layout
        self.number = 0
        self._store = store
        self._row = struct.Struct(f"<{len(layout.resources)}d")
        self._at = layout.begins_at, layout.times_at, layout.values_at, layout.ends_at

    def append(self, time: int, values: Sequence[float]) -> None:
        """Add one sample: monotonic ns and one raw value for each resource (NaN = missing); raises OSError."""
        for _ in self.steps(time, values):
            pass

    def steps(self, time: int, values: Sequence[float]) -> Generator[None, None, None]:
        """Do what ``append`` does, store by store.

        Raises:
            HardwareError: there are more or fewer values than resources.
        """
        try:
            row = self._row.pack(*values)
        except struct.error as error:
            raise HardwareError(f"{len(self.layout.resources)} values are needed: {error}") from error
        begins_at, times_at, values_at, ends_at = self._at
        slot = self.number % self.layout.slots
        self.number += 1
        number = NUMBER.pack(self.number)
        self._store.save(begins_at + slot * 8, number)
        yield
        self._store.save(times_at + slot * 8, NUMBER.pack(time))
        yield
        self._store.save(values_at + slot * self._row.size, row)
        yield
        self._store.save(ends_at + slot * 8, number)

    def beat(self, time: int) -> None:
        """Say that the writer is alive at ``time`` (monotonic ns); 0 says that it has ended; raises OSError."""
        self._store.save(HEARTBEAT_AT, NUMBER.pack(time))


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
