"""How far the readers of several files are: each writes its place in one small file, from whatever process it runs in.

A file passes through a spawned process by its name, which a shared counter does not.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Container, Sequence
from contextlib import suppress
from types import TracebackType

_SIZE = struct.Struct("<Q")


class Tally:
    """The file of one reading; a context manager, which deletes it.

    Attributes:
        path: Its name; "" where none can be written, then nobody knows how far the readers are.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        """Take the bytes of each file that is read."""
        self._sizes = sizes
        self.path = ""
        with suppress(OSError):
            descriptor, self.path = tempfile.mkstemp(prefix="eroica-")
            os.close(descriptor)

    def __enter__(self) -> Tally:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            os.unlink(self.path)

    def share(self, done: Container[int]) -> float:
        """Return the share of all bytes that is gone through, 0 to 1; those of the places in ``done`` are."""
        read = self._read()
        whole = sum(self._sizes)
        gone = (size if place in done else min(read[place], size) for place, size in enumerate(self._sizes))
        return sum(gone) / whole if whole else 0.0

    def _read(self) -> list[int]:
        text = b""
        with suppress(OSError), open(self.path, "rb") as file:
            text = file.read()
        text = text.ljust(len(self._sizes) * _SIZE.size, b"\0")
        return [size for (size,) in _SIZE.iter_unpack(text[: len(self._sizes) * _SIZE.size])]


def note(path: str, place: int, size: int) -> bool:
    """Write that the reader of file number ``place`` has gone through ``size`` bytes; False where the file is gone,
    since whoever looked on has given up.
    """
    try:
        file = os.open(path, os.O_WRONLY)  # never made anew
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        with suppress(OSError):
            os.pwrite(file, _SIZE.pack(size), place * _SIZE.size)
    finally:
        os.close(file)
    return True
