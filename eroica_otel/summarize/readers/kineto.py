"""Kineto's JSON trace -> Events: streaming, in chunks that end between two events, with a typed decoder.

Memory is bounded by the columns (32 bytes an event) and one chunk. Only complete ("X") events are kept. Kineto carries
realtime; the two offsets turn it into the monotonic clock of the samples.
"""

from __future__ import annotations

import re
from typing import BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from eroica_otel import kinds
from eroica_otel.errors import TraceError
from eroica_otel.model import Events
from eroica_otel.summarize.readers.collectives import Arguments, group_and_bytes, single_group
from eroica_otel.summarize.readers.decimals import nanoseconds
from eroica_otel.traces import Steps, Trace

CHUNK_BYTES = 8 << 20
_CUT_BYTES = 1 << 20
_CUT_TRIES = 16
_CUT = re.compile(rb"\}\s*,(?=\s*\{)")
_OPEN = re.compile(rb'"traceEvents"\s*:\s*\[')
_LARGEST_PART = 64 << 20
_STEP = re.compile(r"ProfilerStep#(\d+)")
_NOTHING = msgspec.Raw(b"")


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    cat: str = ""
    tid: int | str | None = None
    ts: msgspec.Raw = _NOTHING
    dur: msgspec.Raw = _NOTHING
    args: msgspec.Raw = _NOTHING


class _Header(msgspec.Struct):
    baseTimeNanoseconds: int = 0
    distributedInfo: msgspec.Raw = _NOTHING


class _Document(_Header):
    traceEvents: list[_Event] = []


_DECODE_LIST = msgspec.json.Decoder(list[_Event])
_DECODE_DOCUMENT = msgspec.json.Decoder(_Document)
_DECODE_ARGUMENTS = msgspec.json.Decoder(Arguments)


class _Columns:
    """Collects events of all chunks as columns."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.categories: dict[str, int] = {}
        self.threads: dict[str, int] = {}
        self._is_collective: list[bool] = []
        self.parts: list[tuple[NDArray[np.int64], ...]] = []
        self.collectives: dict[int, tuple[str | None, int | None]] = {}
        self.total = 0

    def _thread(self, tid: int | str | None) -> int:
        # Old traces name streams ("stream 7"); negative numbers are no thread of any system.
        return tid if isinstance(tid, int) else -1 - self.threads.setdefault(str(tid), len(self.threads))

    def add(self, events: list[_Event]) -> None:
        """Append the complete events of one chunk."""
        kept = [event for event in events if event.ph == "X" and event.cat != "Trace"]
        names, categories = self.names, self.categories
        start = nanoseconds([bytes(event.ts) for event in kept])
        duration = nanoseconds([bytes(event.dur) or b"0" for event in kept])
        known = len(names)
        name = np.array([names.setdefault(event.name, len(names)) for event in kept], np.int64)
        self._is_collective += [kinds.is_collective(new) for new in list(names)[known:]]
        category = np.array([categories.setdefault(event.cat, len(categories)) for event in kept], np.int64)
        thread = np.array([self._thread(event.tid) for event in kept], np.int64)
        for place in np.flatnonzero(np.array(self._is_collective, bool)[name]).tolist():
            self.collectives[self.total + place] = _arguments(kept[place])
        self.parts.append((start, start + duration, name, category, thread))
        self.total += len(kept)

    def events(self, header: _Header, offset: tuple[int, int]) -> Events:
        """Return all events sorted by start on the monotonic clock."""
        empty = (np.zeros(0, np.int64),) * 5
        start, end, name, category, thread = (
            np.concatenate(part) for part in zip(*(self.parts or [empty]), strict=True)
        )
        order = np.argsort(start, kind="stable")
        start, end = _monotonic(start[order], end[order], header.baseTimeNanoseconds, offset)
        alone = single_group(bytes(header.distributedInfo))
        place = np.empty(self.total, np.int64)
        place[order] = np.arange(self.total)
        return Events(
            start_ns=start,
            end_ns=end,
            name=name[order].astype(np.int32),
            category=category[order].astype(np.int32),
            thread=thread[order],
            names=tuple(self.names),
            categories=tuple(self.categories),
            collectives={
                int(place[index]): (alone if group is None else group, size)
                for index, (group, size) in self.collectives.items()
            },
            total=self.total,
        )


def _arguments(event: _Event) -> tuple[str | None, int | None]:
    return group_and_bytes(_DECODE_ARGUMENTS.decode(event.args)) if bytes(event.args) else (None, None)


def _monotonic(
    start: NDArray[np.int64], end: NDArray[np.int64], base: int, offset: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Subtract the offset that grows evenly from the first event's to the last one's (a slewed clock)."""
    if not start.size or offset[0] == offset[1]:
        return start + (base - offset[0]), end + (base - offset[0])
    first, last = int(start[0]), max(int(end.max()), int(start[0]) + 1)
    slope = (offset[1] - offset[0]) / (last - first)
    moved = [x + (base - offset[0]) - np.rint((x - first) * slope).astype(np.int64) for x in (start, end)]
    return moved[0], moved[1]


def read(path: str, realtime_offset_ns: tuple[int, int], chunk_bytes: int = CHUNK_BYTES) -> Events:
    """Read a Kineto trace.

    Args:
        realtime_offset_ns: realtime minus monotonic clock, at the start and at the end of the trace.
        chunk_bytes: Bytes read at a time.

    Raises:
        TraceError: the file is missing, cut short, or not a Kineto trace; the message says where.
    """
    columns = _Columns()
    try:
        with open(path, "rb") as file:
            header = _stream(file, path, chunk_bytes, columns)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise TraceError(f"{path}: after {columns.total} events: {error}") from error
    return columns.events(header, realtime_offset_ns)


def read_whole(path: str, limit_bytes: int) -> Trace:
    """Read a Kineto trace as the file tells it, on its own clock.

    Raises:
        TraceError: as read.
    """
    events = read(path, (0, 0))
    thread = None
    found: list[tuple[int, int, int]] = []
    for place, name in enumerate(events.names):
        if step := _STEP.fullmatch(name):
            rows = np.flatnonzero(events.name == place)[:1].tolist()
            found += [(int(step[1]), int(events.start_ns[row]), int(events.end_ns[row])) for row in rows]
            thread = int(events.thread[rows[0]])
    table = np.array(sorted(found, key=lambda row: row[1]), np.int64).reshape(-1, 3)
    return Trace(
        path=path,
        format="kineto",
        events=events,
        rank=None,
        world_size=None,
        host="",
        backend="",
        devices=(),
        groups={},
        steps=Steps(table[:, 0], table[:, 1], table[:, 2]),
        python=None,
        gpu=any(kinds.is_kernel(category) for category in events.categories),
        training_thread=thread,
    )


def _stream(file: BinaryIO, path: str, chunk_bytes: int, columns: _Columns) -> _Header:
    head, buffer = _head(file, path, chunk_bytes)
    position = len(head)
    while more := file.read(chunk_bytes):
        buffer += more
        events, used = _whole_events(buffer)
        columns.add(events)
        buffer = buffer[used:]
        position += used
        if len(buffer) > max(_LARGEST_PART, 2 * chunk_bytes):
            break
    try:
        document = _DECODE_DOCUMENT.decode(head + buffer)
    except msgspec.DecodeError as error:
        where = f"after {columns.total} events, in the part from byte {position} of {position + len(buffer)}"
        raise TraceError(f"{path}: cut short or not JSON {where}: {error}") from error
    columns.add(document.traceEvents)
    return document


def _head(file: BinaryIO, path: str, chunk_bytes: int) -> tuple[bytes, bytes]:
    """Return everything up to the opening bracket of the events, and what was read beyond."""
    buffer = b""
    while more := file.read(chunk_bytes):
        buffer += more
        if opening := _OPEN.search(buffer):
            return buffer[: opening.end()], buffer[opening.end() :]
        if len(buffer) > _LARGEST_PART:
            break
    raise TraceError(f"{path}: no traceEvents in the first {len(buffer)} bytes: not a Kineto trace, or cut short")


def _whole_events(buffer: bytes) -> tuple[list[_Event], int]:
    """Return the events before the last border between two events, and the bytes that they take.

    A border inside a string or a nested object leaves brackets open, which the decoder refuses: then an earlier one is
    tried. None at all (an event longer than the buffer, the end of the list): everything waits for more bytes.
    """
    borders = [border.end() for border in _CUT.finditer(buffer, max(0, len(buffer) - _CUT_BYTES))]
    for border in borders[: -_CUT_TRIES - 1 : -1]:
        try:
            return _DECODE_LIST.decode(b"[" + buffer[: border - 1] + b"]"), border
        except msgspec.DecodeError:
            continue
    return [], 0
