"""A file -> its bytes in order, unpacked where it is gzip, with every failure as a TraceError that says what to do."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from eroica_otel.errors import TraceError
from eroica_otel.summarize.readers.watch import NOBODY, Watch

GZIP = b"\x1f\x8b"
SQLITE = b"SQLite format 3\x00"
TAR_PLACE, TAR = 257, b"ustar"


def first_bytes(path: str, size: int = 512) -> bytes:
    """Return the beginning of a file.

    Raises:
        TraceError: it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: OSError) -> TraceError:
    """Return what a user is told about a file that the system does not give out."""
    return TraceError(f"{path}: cannot be read: {error.strerror or error}; give a file that is there and may be read")


def pieces(path: str, size: int, limit_bytes: int, watch: Watch = NOBODY) -> Iterator[bytes]:
    """Yield the bytes of a file, ``size`` at a time, unpacked; ``watch`` is told how far it is.

    Raises:
        TraceError: it cannot be read, is damaged, or unpacks to more than ``limit_bytes``.
    """
    read = 0
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == GZIP
            raw.seek(0)
            file = _unpacked(raw) if packed else raw
            while piece := file.read(size):
                if not read and piece[TAR_PLACE:].startswith(TAR):
                    raise TraceError(f"{path}: a tar archive: unpack it and give the files in it")
                read += len(piece)
                if read > limit_bytes:
                    raise TraceError(_too_large(path, packed, limit_bytes))
                watch.read(raw.tell())
                yield piece
    except EOFError as error:
        raise TraceError(
            f"{path}: gzip data ends after {read} unpacked bytes, at byte {os.path.getsize(path)} of the file: cut "
            "short? copy it again"
        ) from error
    except _damage() as error:
        raise TraceError(
            f"{path}: gzip data is damaged after {read} unpacked bytes ({error}): copy the file again"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error


def _too_large(path: str, packed: bool, limit_bytes: int) -> str:
    what = "unpacks to" if packed else "has"
    return f"{path}: {what} more than {limit_bytes} bytes: raise the limit (--limit GB) if it is a trace of that size"


def _damage() -> tuple[type[Exception], ...]:
    """Return the errors that the reader of _unpacked raises for damaged data."""
    known: tuple[type[Exception], ...] = (gzip.BadGzipFile, zlib.error)
    try:
        from isal import isal_zlib
    except ImportError:
        return known
    damaged: Any = isal_zlib.error  # without types
    return (*known, damaged)


def _unpacked(raw: BinaryIO) -> BinaryIO:
    """Return a gzip reader: isal's where it is installed (several times faster), else Python's own."""
    try:
        from isal import igzip
    except ImportError:
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw, mode="rb"))
    opened: Any = igzip.IGzipFile  # without types
    return cast("BinaryIO", opened(fileobj=raw, mode="rb"))
