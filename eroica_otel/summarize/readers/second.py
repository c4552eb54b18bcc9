"""A second process that decodes pieces of a large trace while this one decodes the others.

``python -m eroica_otel.summarize.readers.second`` reads pieces from its standard input, each behind its number and its
size, and writes what it has read at the end. With an argument it leaves columns in the file of that descriptor (-1: in
none) and does without the Python of the trace. It is a plain subprocess: a fork would copy the caller's threads, and
multiprocessing would run the caller's script again.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO, cast

import msgspec

from eroica_otel.summarize.readers.columns import Part
from eroica_otel.summarize.readers.decode import Decoder
from eroica_otel.summarize.spill import Spill

_HEADER = struct.Struct("<QQ")
_COMMAND = (sys.executable, "-m", "eroica_otel.summarize.readers.second")
_Item = tuple[int, bytes] | None


class SecondFailedError(Exception):
    """The second process could not read what it was given: whoever gave it has to read all of it."""


class Second:
    """Takes pieces as long as it has nothing to do; use as a context manager, which ends the process."""

    def __init__(self, spill: Spill | None = None) -> None:
        """Start it; it fills the file of ``spill``, and reads all of the trace where that is left out."""
        environment = {**os.environ, "EROICA_DISABLED": "1"}
        file = None if spill is None else spill.descriptor()
        self._process = subprocess.Popen(
            _COMMAND if file is None else (*_COMMAND, str(file)),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=() if file is None or file < 0 else (file,),
        )
        self._waiting: queue.Queue[_Item] = queue.Queue(maxsize=1)
        self._writer = threading.Thread(target=self._write, name="eroica-second", daemon=True)
        self._writer.start()

    def __enter__(self) -> Second:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        while self._writer.is_alive():  # it may hold a piece, and wait for the next one
            with suppress(queue.Full):
                self._waiting.put(None, timeout=0.01)
            self._writer.join(0.01)
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                cast("BinaryIO", pipe).close()
        self._process.wait()

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
        answer = cast("BinaryIO", self._process.stdout).read()
        self._writer.join()
        try:
            part = pickle.loads(answer)
        except (pickle.UnpicklingError, EOFError) as error:
            raise SecondFailedError("no answer") from error
        if not isinstance(part, Part):
            raise SecondFailedError(str(part))
        return part

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


def serve(source: BinaryIO, sink: BinaryIO, spill: Spill | None = None) -> None:
    """Read pieces until the source ends, then write the Part, or the words of what went wrong."""
    decoder = Decoder(spill)
    answer: Part | str
    try:
        while len(header := source.read(_HEADER.size)) == _HEADER.size:
            place, size = _HEADER.unpack(header)
            decoder.add(place, source.read(size))
        answer = decoder.part()
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        answer = str(error)
    pickle.dump(answer, sink, protocol=pickle.HIGHEST_PROTOCOL)
    sink.flush()


def _spill(arguments: list[str]) -> Spill | None:
    if not arguments:
        return None
    return Spill(file=int(arguments[0]))


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer, _spill(sys.argv[1:]))
