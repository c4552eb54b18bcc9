"""Kineto's JSON trace -> Events, Trace or Batches: streaming, in pieces that end between two events.

Memory is bounded by some pieces, and by the columns (24 to 40 bytes an event) but in ``scan``, which leaves these in a
file. Only complete ("X") events are kept.
"""

from __future__ import annotations

import multiprocessing
import os
from typing import NamedTuple

import msgspec

from eroica_otel import kinds
from eroica_otel.errors import TraceError
from eroica_otel.model import Events
from eroica_otel.summarize.readers import collectives, pythonstacks, steps
from eroica_otel.summarize.readers.batches import Batches
from eroica_otel.summarize.readers.clock import Clock, clock_of
from eroica_otel.summarize.readers.columns import Joined, Part, join
from eroica_otel.summarize.readers.cut import LARGEST_BYTES, Piece, cut, head_of
from eroica_otel.summarize.readers.decode import Decoder
from eroica_otel.summarize.readers.header import Header, header_of
from eroica_otel.summarize.readers.ranges import ranges, read_range
from eroica_otel.summarize.readers.second import MOST_PARTS, Second, SecondFailedError, Sharer
from eroica_otel.summarize.readers.source import GZIP, first_bytes, pieces
from eroica_otel.summarize.readers.watch import NOBODY, Watch
from eroica_otel.summarize.spill import Spill
from eroica_otel.traces import Trace

CHUNK_BYTES = 8 << 20
"""Bytes read at a time by two processes, which hand one another little then."""
ALONE_BYTES = 1 << 20
"""Bytes read at a time by one: what was unpacked is still in the processor's cache when it is decoded."""
NO_LIMIT = 1 << 62
LARGE_BYTES = 64 << 20
"""From this size on a second process saves more time than its start takes."""
PACKED = 16
"""Traces shrink to about a twentieth."""


class Read(NamedTuple):
    """All that a file holds: what each process has read, with the place of its columns."""

    parts: list[tuple[Part, Spill]]
    header: Header


def read(
    path: str, realtime_offset_ns: tuple[int, int], chunk_bytes: int = CHUNK_BYTES, watch: Watch = NOBODY
) -> Events:
    """Read the events of a trace that this worker has captured, on the clock of its samples.

    Args:
        realtime_offset_ns: realtime minus monotonic clock, at the start and at the end of the trace, which carries
            realtime.
        chunk_bytes: Most bytes read at a time.
        watch: Is told how far it is; what it raises ends the reading.

    Raises:
        TraceError: the file is missing, cut short, or not a Kineto trace; the message says where.
    """
    found = _read(path, chunk_bytes, NO_LIMIT, watch=watch)
    columns = join([part for part, _ in found.parts])
    first, last = (int(columns.start[0]), int(columns.end.max())) if columns.start.size else (0, 0)
    return _events(columns, found.header, clock_of(realtime_offset_ns, found.header.base_ns, first, last))


def scan(path: str, realtime_offset_ns: tuple[int, int], spill: Spill, chunk_bytes: int = CHUNK_BYTES) -> Batches:
    """Read the same events, but leave them in ``spill``, from where they come block by block as long as it is open.

    Raises:
        TraceError: as ``read``.
    """
    found = _read(path, chunk_bytes, NO_LIMIT, spill=spill)
    return Batches(found.parts, found.header, realtime_offset_ns)


def read_whole(
    path: str, limit_bytes: int, chunk_bytes: int = CHUNK_BYTES, processes: int = 0, watch: Watch = NOBODY
) -> Trace:
    """Read a trace with all that it tells of its worker, on its own clock.

    Args:
        limit_bytes: Most bytes that are read or unpacked.
        chunk_bytes: Most bytes read at a time.
        processes: Processes that read, 1 or 2; 0: two for a large file.
        watch: Is told how far it is; what it raises ends the reading.

    Raises:
        TraceError: as ``read``, or the file unpacks to more than ``limit_bytes``.
    """
    found = _read(path, chunk_bytes, limit_bytes, processes, watch=watch)
    columns, header = join([part for part, _ in found.parts]), found.header
    events = _events(columns, header, Clock(header.base_ns))
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


def _events(columns: Joined, header: Header, clock: Clock) -> Events:
    known = collectives.launches(columns, header)
    names, name = collectives.named(columns, known)
    return Events(
        start_ns=clock.of(columns.start),
        end_ns=clock.of(columns.end),
        name=name,
        category=columns.category,
        thread=columns.thread,
        names=names,
        categories=tuple(columns.categories),
        collectives=collectives.moved(columns, known),
        total=columns.start.size,
    )


def _read(
    path: str,
    chunk_bytes: int,
    limit_bytes: int,
    processes: int = 0,
    spill: Spill | None = None,
    watch: Watch = NOBODY,
) -> Read:
    if (processes or _processes(path)) > 1:
        try:
            return _together(path, chunk_bytes, limit_bytes, spill, watch)
        except (SecondFailedError, msgspec.MsgspecError, ValueError, OverflowError, RecursionError, OSError):
            pass  # a wrong cut, a damaged file or no second process: one alone finds out, and where
    return _alone(path, chunk_bytes, limit_bytes, spill, watch)


def _processes(path: str) -> int:
    """Return how many processes should read a file: two for a large one, where this one is not one of many."""
    try:
        size = os.path.getsize(path)
    except OSError:
        return 1
    packed = first_bytes(path, 2) == GZIP
    busy = (os.cpu_count() or 1) < 2 or multiprocessing.parent_process() is not None
    return 1 if busy or size < (LARGE_BYTES // PACKED if packed else LARGE_BYTES) else 2


def _together(path: str, chunk_bytes: int, limit_bytes: int, spill: Spill | None, watch: Watch) -> Read:
    """Read with a second process.

    Raises:
        SecondFailedError, msgspec.MsgspecError, ValueError, OverflowError, RecursionError: a piece cannot be decoded.
    """
    decoder, others = Decoder(spill), None if spill is None else spill.another()
    way = _handed if first_bytes(path, 2) == GZIP else _shared
    header, other = way(path, chunk_bytes, limit_bytes, decoder, others, watch)
    if others is not None:
        others.problem = others.problem or other.problem
    return Read([(decoder.part(), spill or Spill()), (other, others or Spill())], header)


def _handed(
    path: str, chunk_bytes: int, limit_bytes: int, decoder: Decoder, others: Spill | None, watch: Watch
) -> tuple[Header, Part]:
    """Unpack here, and hand the second process a piece whenever it has none."""
    source = pieces(path, chunk_bytes, limit_bytes, watch)
    head, buffer = head_of(path, source)
    mine = 0
    with Second(others) as second:
        for number, piece in enumerate(cut(path, len(head), buffer, source)):
            if piece.last:
                header = header_of(decoder.add_document(number, head, piece.text))
            elif not second.take(number, piece.text):
                decoder.add(number, piece.text)
                mine += len(piece.text)
                # The other process makes as many events of as many bytes.
                reached = piece.position + len(piece.text)
                watch.held(decoder.total * reached // max(mine, 1), reached)
        return header, second.part()


def _shared(
    path: str, chunk_bytes: int, limit_bytes: int, decoder: Decoder, others: Spill | None, watch: Watch
) -> tuple[Header, Part]:
    """Let each process read and decode the next part of the file whenever it has none."""
    head, _ = head_of(path, pieces(path, chunk_bytes, limit_bytes))
    size = os.path.getsize(path)
    if size > limit_bytes:
        raise ValueError("too large")
    with open(path, "rb") as file:
        *parts, (begin, end) = ranges(file.fileno(), len(head), max(chunk_bytes, size // (MOST_PARTS // 2)))
        with Sharer(file.fileno(), parts, others) as second:
            second.read(decoder, watch)
            header = header_of(decoder.add_document(len(parts), head, read_range(file.fileno(), begin, end)))
            watch.read(size)
            return header, second.part()


def _alone(path: str, chunk_bytes: int, limit_bytes: int, spill: Spill | None, watch: Watch = NOBODY) -> Read:
    source = pieces(path, min(chunk_bytes, ALONE_BYTES), limit_bytes, watch)
    head, buffer = head_of(path, source)
    decoder = Decoder(spill)
    held = Piece(b"", len(head), False)
    for number, piece in enumerate(cut(path, len(head), buffer, source)):
        held = Piece(held.text + piece.text, held.position if held.text else piece.position, piece.last)
        try:
            if piece.last:
                header = header_of(decoder.add_document(number, head, held.text))
                watch.held(decoder.total, held.position + len(held.text))
                return Read([(decoder.part(), spill or Spill())], header)
            decoder.add(number, held.text)
            held = Piece(b"", 0, False)
            watch.held(decoder.total, piece.position + len(piece.text))
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
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
