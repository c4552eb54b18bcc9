"""A second process that decodes pieces of a large trace while this one decodes the others.

``python -m eroica_otel.summarize.readers.second`` reads pieces from its standard input, each behind its number and its
size, or shares a file with its caller, and writes what it has read at the end. Its arguments are descriptors: of a file
in which it leaves columns, without the Python of the trace (-1: of none; empty: all stays in memory, Python too), of
the shared file, and of a pipe that holds its parts. It is a plain subprocess: a fork would copy the caller's threads,
and multiprocessing would run the caller's script again.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO, TypeVar, cast

import msgspec

from eroica_otel.summarize.readers.columns import Part
from eroica_otel.summarize.readers.decode import Decoder
from eroica_otel.summarize.readers.ranges import read_range
from eroica_otel.summarize.readers.watch import NOBODY, Watch
from eroica_otel.summarize.spill import Spill

_HEADER = struct.Struct("<QQ")
_PART = struct.Struct("<QQQ8x")
MOST_PARTS = 2000
"""Of 32 bytes each: what a pipe holds."""
_COMMAND = (sys.executable, "-m", "eroica_otel.summarize.readers.second")
_Item = tuple[int, bytes] | None
_Itself = TypeVar("_Itself", bound="_Other")


class SecondFailedError(Exception):
    """The second process could not read what it was given: whoever gave it has to read all of it."""


class _Other:
    """The second process; use as a context manager, which ends it."""

    def __init__(self, spill: Spill | None, *files: int) -> None:
        columns = None if spill is None else spill.descriptor()
        passed = [file for file in (*files, columns) if file is not None and file >= 0]
        self._process = subprocess.Popen(
            (*_COMMAND, "" if columns is None else str(columns), *map(str, files)),
            env={**os.environ, "EROICA_DISABLED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=passed,
        )

    def __enter__(self: _Itself) -> _Itself:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                cast("BinaryIO", pipe).close()
        self._process.wait()

    def part(self) -> Part:
        """Return what it has read.

        Raises:
            SecondFailedError: it could not read a piece, or has died.
        """
        answer = cast("BinaryIO", self._process.stdout).read()
        try:
            part = pickle.loads(answer)
        except (pickle.UnpicklingError, EOFError) as error:
            raise SecondFailedError("no answer") from error
        if not isinstance(part, Part):
            raise SecondFailedError(str(part))
        return part


class Second(_Other):
    """Takes pieces as long as it has nothing to do."""

    def __init__(self, spill: Spill | None = None) -> None:
        """Start it; it fills the file of ``spill``, and reads all of the trace where that is left out."""
        super().__init__(spill)
        self._waiting: queue.Queue[_Item] = queue.Queue(maxsize=1)
        self._writer = threading.Thread(target=self._write, name="eroica-second", daemon=True)
        self._writer.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        while self._writer.is_alive():  # it may hold a piece, and wait for the next one
            with suppress(queue.Full):
                self._waiting.put(None, timeout=0.01)
            self._writer.join(0.01)
        super().__exit__(kind, error, trace)

    def take(self, place: int, text: bytes) -> bool:
        """Hand over a piece; False where it has enough to do."""
        with suppress(queue.Full):
            self._waiting.put_nowait((place, text))
            return True
        return False

    def part(self) -> Part:
        """Return what it has read.

        Raises:
            SecondFailedError: it could not read a piece, or has died.
        """
        self._waiting.put(None)
        self._writer.join()
        return super().part()

    def _write(self) -> None:
        pipe = cast("BinaryIO", self._process.stdin)
        item = self._waiting.get()
        try:
            while item is not None:
                place, text = item
                pipe.write(_HEADER.pack(place, len(text)))
                pipe.write(text)
                item = self._waiting.get()
            pipe.close()
        except OSError:  # it has died: its answer is missing, which part() tells, and nobody may wait for it
            while item is not None:
                item = self._waiting.get()


class Sharer(_Other):
    """Reads a file beside this process: each takes the next part whenever it has none."""

    def __init__(self, file: int, parts: Sequence[tuple[int, int]], spill: Spill | None = None) -> None:
        """Start it; ``parts`` are (begin, end) in the open ``file``, ``spill`` is as for Second.

        Raises:
            ValueError: there are too many of them.
            OSError: it cannot be started.
        """
        self._file = file
        self._parts = _piped(b"".join(_PART.pack(place, *part) for place, part in enumerate(parts)))
        try:
            super().__init__(spill, file, self._parts)
        except OSError:
            os.close(self._parts)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._parts)
        super().__exit__(kind, error, trace)

    def read(self, decoder: Decoder, watch: Watch = NOBODY) -> None:
        """Decode parts until none is left.

        Raises:
            msgspec.MsgspecError, ValueError, OverflowError, RecursionError, OSError: one cannot be decoded, or read.
        """
        _shared(decoder, self._file, self._parts, watch)


def _piped(records: bytes) -> int:
    """Return the reading end of a pipe that holds all records, and that nobody will write to any more."""
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        if records and os.write(writing, records) < len(records):
            raise ValueError("more parts than the pipe holds")
    except (OSError, ValueError):
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return reading


def serve(source: BinaryIO, sink: BinaryIO, spill: Spill | None = None) -> None:
    """Read pieces until the source ends, then write the Part, or the words of what went wrong."""

    def read(decoder: Decoder) -> None:
        while len(header := source.read(_HEADER.size)) == _HEADER.size:
            place, size = _HEADER.unpack(header)
            decoder.add(place, source.read(size))

    _answer(read, sink, spill)


def share(file: int, parts: int, sink: BinaryIO, spill: Spill | None = None) -> None:
    """Read parts of a file as long as some are left in the pipe ``parts``, then answer as serve()."""
    _answer(lambda decoder: _shared(decoder, file, parts), sink, spill)


def _shared(decoder: Decoder, file: int, parts: int, watch: Watch = NOBODY) -> None:
    # Both processes read the pipe. Linux gives each a whole record, since it holds the pipe's lock for the whole read.
    mine = 0
    while len(record := os.read(parts, _PART.size)) == _PART.size:
        place, begin, end = _PART.unpack(record)
        decoder.add(place, read_range(file, begin, end))
        mine += 1
        # Parts are of one size: the other process holds as much of those that it took.
        watch.held(decoder.total * (place + 1) // mine, end)
        watch.read(end)


def _answer(read: Callable[[Decoder], None], sink: BinaryIO, spill: Spill | None) -> None:
    decoder = Decoder(spill)
    answer: Part | str
    try:
        read(decoder)
        answer = decoder.part()
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError, OSError) as error:
        answer = str(error)
    pickle.dump(answer, sink, protocol=pickle.HIGHEST_PROTOCOL)
    sink.flush()


def main(columns: str, *files: str) -> None:
    """Serve the standard input; or share ``files``: the file, and the pipe of its parts."""
    spill = Spill(file=int(columns)) if columns else None
    if files:
        share(int(files[0]), int(files[1]), sys.stdout.buffer, spill)
    else:
        serve(sys.stdin.buffer, sys.stdout.buffer, spill)


if __name__ == "__main__":
    main(*sys.argv[1:])
