"""Kineto's JSON trace -> Events or Trace: streaming, in pieces that end between two events.

Memory is bounded by the columns (about 30 bytes an event) and some pieces. Only complete ("X") events are kept.
"""

from __future__ import annotations

import multiprocessing
import os
from typing import NamedTuple

import msgspec
import numpy as np

from eroica_otel import kinds
from eroica_otel.errors import TraceError
from eroica_otel.model import Events
from eroica_otel.summarize.intervals import Times
from eroica_otel.summarize.readers import collectives, pythonstacks, steps
from eroica_otel.summarize.readers.columns import Joined, join
from eroica_otel.summarize.readers.cut import LARGEST_BYTES, Piece, cut, head_of
from eroica_otel.summarize.readers.decode import Decoder
from eroica_otel.summarize.readers.header import Header, header_of
from eroica_otel.summarize.readers.second import Second, SecondFailedError
from eroica_otel.summarize.readers.source import GZIP, first_bytes, pieces
from eroica_otel.traces import Trace

CHUNK_BYTES = 8 << 20
NO_LIMIT = 1 << 62
LARGE_BYTES = 64 << 20
"""From this size on a second process saves more time than its start takes."""
PACKED = 16
"""Traces shrink to about a twentieth."""


class Read(NamedTuple):
    """All that a file holds."""

    columns: Joined
    header: Header


def read(path: str, realtime_offset_ns: tuple[int, int], chunk_bytes: int = CHUNK_BYTES) -> Events:
    """Read the events of a trace that this worker has captured, on the clock of its samples.

    Args:
        realtime_offset_ns: realtime minus monotonic clock, at the start and at the end of the trace, which carries
            realtime.
        chunk_bytes: Bytes read at a time.

    Raises:
        TraceError: the file is missing, cut short, or not a Kineto trace; the message says where.
    """
    found = _read(path, chunk_bytes, NO_LIMIT)
    start, end = _monotonic(found, realtime_offset_ns)
    return _events(found, start, end)


def read_whole(path: str, limit_bytes: int, chunk_bytes: int = CHUNK_BYTES, processes: int = 0) -> Trace:
    """Read a trace with all that it tells of its worker, on its own clock.

    Args:
        limit_bytes: Most bytes that are read or unpacked.
        chunk_bytes: Bytes read at a time.
        processes: Processes that read, 1 or 2; 0: two for a large file.

    Raises:
        TraceError: as ``read``, or the file unpacks to more than ``limit_bytes``.
    """
    found = _read(path, chunk_bytes, limit_bytes, processes)
    columns, header = found
    events = _events(found, columns.start + header.base_ns, columns.end + header.base_ns)
    thread = steps.training_thread(events)
    return Trace(
        path=path,
        format="kineto",
        events=events,
        rank=header.rank,
        world_size=header.world_size,
        host=header.host,
        backend=header.backend,
        devices=header.devices,
        groups=header.groups,
        steps=steps.steps_of(events),
        python=pythonstacks.python_calls(columns, events, thread),
        gpu=kinds.uses_accelerator(events.categories, events.names),
        training_thread=thread,
        skipped=dict(columns.skipped),
    )


def _events(found: Read, start: Times, end: Times) -> Events:
    columns, header = found
    names, name = collectives.named(columns)
    return Events(
        start_ns=start,
        end_ns=end,
        name=name,
        category=columns.category,
        thread=columns.thread,
        names=names,
        categories=tuple(columns.categories),
        collectives=collectives.moved(columns, tuple(header.groups)),
        total=start.size,
    )


def _monotonic(found: Read, offset: tuple[int, int]) -> tuple[Times, Times]:
    """Subtract the offset that grows evenly from the first event's to the last one's (a slewed clock)."""
    start, end, base = found.columns.start, found.columns.end, found.header.base_ns
    if not start.size or offset[0] == offset[1]:
        return start + (base - offset[0]), end + (base - offset[0])
    first, last = int(start[0]), max(int(end.max()), int(start[0]) + 1)
    slope = (offset[1] - offset[0]) / (last - first)
    moved = [x + (base - offset[0]) - np.rint((x - first) * slope).astype(np.int64) for x in (start, end)]
    return moved[0], moved[1]


def _read(path: str, chunk_bytes: int, limit_bytes: int, processes: int = 0) -> Read:
    if (processes or _processes(path)) > 1:
        try:
            return _together(path, chunk_bytes, limit_bytes)
        except (SecondFailedError, msgspec.MsgspecError, ValueError, OverflowError, OSError):
            pass  # a wrong cut, a damaged file or no second process: one alone finds out, and where
    return _alone(path, chunk_bytes, limit_bytes)


def _processes(path: str) -> int:
    """Return how many processes should read a file: two for a large one, where this one is not one of many."""
    try:
        size = os.path.getsize(path)
    except OSError:
        return 1
    packed = first_bytes(path, 2) == GZIP
    busy = (os.cpu_count() or 1) < 2 or multiprocessing.parent_process() is not None
    return 1 if busy or size < (LARGE_BYTES // PACKED if packed else LARGE_BYTES) else 2


def _together(path: str, chunk_bytes: int, limit_bytes: int) -> Read:
    """Read with a second process, which takes a piece whenever it has none to decode.

    Raises:
        SecondFailedError, msgspec.MsgspecError, ValueError, OverflowError: a piece could not be decoded.
    """
    source = pieces(path, chunk_bytes, limit_bytes)
    head, buffer = head_of(path, source)
    decoder = Decoder()
    with Second() as second:
        for number, piece in enumerate(cut(len(head), buffer, source)):
            if piece.last:
                header = header_of(decoder.add_document(number, head + piece.text))
            elif not second.take(number, piece.text):
                decoder.add(number, piece.text)
        other = second.part()
    return Read(join([decoder.part(), other]), header)


def _alone(path: str, chunk_bytes: int, limit_bytes: int) -> Read:
    source = pieces(path, chunk_bytes, limit_bytes)
    head, buffer = head_of(path, source)
    decoder = Decoder()
    held = Piece(b"", len(head), False)
    for number, piece in enumerate(cut(len(head), buffer, source)):
        held = Piece(held.text + piece.text, held.position if held.text else piece.position, piece.last)
        try:
            if piece.last:
                header = header_of(decoder.add_document(number, head + held.text))
                return Read(join([decoder.part()]), header)
            decoder.add(number, held.text)
            held = Piece(b"", 0, False)
        except (msgspec.MsgspecError, ValueError, OverflowError) as error:
            # A cut inside a string or an argument: what comes next completes it.
            if piece.last or len(held.text) > max(LARGEST_BYTES, 2 * chunk_bytes):
                raise _damaged(path, decoder.total, held, error) from error
            held = held._replace(text=held.text + b",")
    raise AssertionError("the last piece was missing")


def _damaged(path: str, total: int, held: Piece, error: Exception) -> TraceError:
    end = held.position + len(held.text)
    wrong = isinstance(error, msgspec.ValidationError)
    what = "no event as torch writes it" if wrong else "cut short or not JSON"
    return TraceError(
        f"{path}: {what} after {total} events, in the part from byte {held.position} of {end}: {error}; "
        "copy the file again, or export it again"
    )
