"""The helper's way out where the series go by a meter provider of the training's: one bounded file, read over there.

A check sum of what was written makes a torn read detectable, so neither side waits for the other.
"""

from __future__ import annotations

import json
import os
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eroica_otel.export.board import Board
from eroica_otel.model import Point
from eroica_otel.status import POINTS_FILE

MAGIC = b"EROICAP\x01"
_HEADER = struct.Struct("<8sII")
"""Magic, bytes of JSON, their CRC-32."""
MOST_BYTES = 512 * 1024
"""Of the file: 320 series with the longest labels take less (a test)."""
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Handed:
    """What the helper has handed over: all points there are, and when (perf_counter_ns: one clock for both sides)."""

    points: tuple[Point, ...]
    written_ns: int


class HandBack:
    """In the place of an Outlet: writes what the board shows each time that it is renewed."""

    def __init__(self, folder: Path, board: Board, failed: Callable[[str, str], None]) -> None:
        """Args: folder: The worker's private one. failed: Takes stage and text."""
        self._path = folder / POINTS_FILE
        self._board = board
        self._failed = failed

    def start(self) -> None:
        self.renewed()

    def renewed(self) -> None:
        """Write the points; a failure is told, and the file keeps what it had."""
        try:
            write(self._path, self._board.everything())
        except (OSError, ValueError) as error:
            self._failed("meter", f"the series cannot be handed to the training's meter provider: {error}")

    def push_now(self) -> None:
        self.renewed()

    def counts(self) -> dict[tuple[str, str], int]:
        """Return nothing: whether what was collected arrives is known to the training's exporters alone."""
        return {}

    def delivered_since(self, monotonic_ns: int) -> bool:
        """Return True: a window stays for ``hold_seconds``, whoever collects it."""
        return True

    def stop(self, timeout_seconds: float, unsent_ns: int = -1) -> None:
        self.renewed()


def write(path: Path, points: tuple[Point, ...]) -> None:
    """Replace what ``path`` holds, in place: a new file each second would be written to the disk each second.

    Raises:
        OSError: it cannot be written.
        ValueError: the points take more than MOST_BYTES.
    """
    content = {"written_ns": time.perf_counter_ns(), "points": points}
    body = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    if len(body) > MOST_BYTES - _HEADER.size:
        raise ValueError(f"they take {len(body)} bytes, {MOST_BYTES} is the most")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, _HEADER.pack(MAGIC, len(body), zlib.crc32(body)) + body, 0)
    finally:
        os.close(descriptor)


def read(path: Path) -> Handed | None:
    """Return what ``path`` holds; None where there is nothing, nothing whole, or nothing of this version."""
    for _ in range(_TRIES):
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES)
        except OSError:
            return None
        body = _body(data)
        if body is not None:
            content = json.loads(body)
            return Handed(tuple(Point(*point) for point in content["points"]), content["written_ns"])
    return None


def _body(data: bytes) -> bytes | None:
    if len(data) < _HEADER.size:
        return None
    magic, length, sum_ = _HEADER.unpack_from(data)
    body = data[_HEADER.size : _HEADER.size + length]
    return body if magic == MAGIC and len(body) == length and zlib.crc32(body) == sum_ else None
