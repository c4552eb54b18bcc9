"""Bytes of a Kineto trace -> its head, pieces that end between two events, and its tail.

A cut is only likely: "}, {" with an event's first key behind it may stand in a name or in an argument. Whoever decodes
a piece finds out, since a wrong cut leaves a string or a bracket open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from eroica_otel.errors import TraceError

LARGEST_BYTES = 64 << 20
"""Most bytes without any cut, and most of the head: more is not a trace."""
_CUT = re.compile(rb"\}\s*,(?=\s*\{\s*\"(?:ph|name|cat|args|pid|tid|ts|dur|id)\")")
LOOK_BYTES = 1 << 16
OPEN = re.compile(rb'"traceEvents"\s*:\s*\[')
"""What stands before the events."""


class Piece(NamedTuple):
    """Some events.

    Attributes:
        text: Events with commas between them, no brackets; of the last piece all that follows the opening bracket.
        position: Bytes of the file before it.
        last: Whether the file ends here.
    """

    text: bytes
    position: int
    last: bool


def head_of(path: str, source: Iterator[bytes]) -> tuple[bytes, bytes]:
    """Return everything up to the opening bracket of the events, and what was read beyond.

    Raises:
        TraceError: there is no such bracket.
    """
    buffer = b""
    for more in source:
        buffer += more
        if opening := OPEN.search(buffer):
            return buffer[: opening.end()], buffer[opening.end() :]
        if len(buffer) > LARGEST_BYTES:
            break
    raise TraceError(
        f"{path}: no traceEvents in the first {len(buffer)} bytes: not a Kineto trace, or cut short; give the file "
        "that torch.profiler's export_chrome_trace wrote"
    )


def cut(path: str, position: int, buffer: bytes, source: Iterable[bytes]) -> Iterator[Piece]:
    """Yield the events behind the head; ``buffer`` is what was read of them, ``position`` where it begins.

    Raises:
        TraceError: more than LARGEST_BYTES do not end between two events: memory would grow with the file.
    """
    for more in source:
        place = last_cut(more)
        if place:
            yield Piece(b"".join((buffer, memoryview(more)[: place - 1])), position, False)
            position += len(buffer) + place
            buffer = more[place:]
            continue
        end = buffer.rfind(b"}")
        buffer += more
        # Nothing of a border is a closing brace but its first byte.
        if end >= 0 and (found := _CUT.match(buffer, end)):
            yield Piece(buffer[: found.end() - 1], position, False)
            position += found.end()
            buffer = buffer[found.end() :]
        elif len(buffer) > LARGEST_BYTES:
            raise TraceError(
                f"{path}: {len(buffer)} bytes from byte {position} on without a border between two events: not a trace "
                "as torch writes it; export it again"
            )
    yield Piece(buffer, position, True)


def last_cut(buffer: bytes) -> int:
    """Return the place behind the last comma between two events, 0 without one."""
    for look in (LOOK_BYTES >> 4, LOOK_BYTES, len(buffer)):
        places = [found.end() for found in _CUT.finditer(buffer, max(0, len(buffer) - look))]
        if places:
            return places[-1]
    return 0


def spans(text: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of parts of a piece, each at least ``size`` long, that likely end between two events."""
    start = 0
    while len(text) - start > 2 * size:
        found = _CUT.search(text, start + size)
        if found is None:
            break
        yield start, found.end() - 1
        start = found.end()
    yield start, len(text)
