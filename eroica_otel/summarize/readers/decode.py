"""Pieces of a trace's JSON -> columns, with a typed decoder. This is where reading spends its time.

Names, categories and threads become numbers of this decoder's own tables, so that several decoders can share a file.
"""

from __future__ import annotations

import re
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from eroica_otel import kinds
from eroica_otel.summarize.intervals import Times
from eroica_otel.summarize.readers import arguments
from eroica_otel.summarize.readers.columns import Columns, Numbers, Part, Thread
from eroica_otel.summarize.readers.decimals import LARGEST, from_floats, held_exactly, nanoseconds

COMMS = "record_param_comms"
"""Operator that torch runs for each collective: its arguments say what the kernel's name does not."""
PYTHON = "python_function"
WHOLE = "Trace"
"""Category of the event that spans the whole trace."""
UNPAIRED = frozenset({"B", "E", "b", "n", "e"})
_NOTHING = msgspec.Raw(b"")
_NO_NUMBER = re.compile(rb"(?<=[:\[,])(\s*)-?(?:nan|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
_FINE = re.compile(rb'"ts"\s*:\s*[0-9]{13,}\.[0-9]*[1-9]')
"""Epoch microseconds with decimals, which a double does not hold."""
_STACK = b'"Call stack"'


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    cat: str = ""
    tid: int | str | None = None
    ts: float | None = None
    dur: float | None = 0.0
    args: msgspec.Raw = _NOTHING


class _Times(msgspec.Struct, gc=False):
    ph: str = ""
    ts: msgspec.Raw = _NOTHING
    dur: msgspec.Raw = _NOTHING


class Document(msgspec.Struct):
    """The keys around the events."""

    baseTimeNanoseconds: int = 0
    distributedInfo: msgspec.Raw = _NOTHING
    deviceProperties: msgspec.Raw = _NOTHING
    computeProperties: msgspec.Raw = _NOTHING
    host_name: str = ""
    hostname: str = ""
    traceEvents: msgspec.Raw = _NOTHING


_EVENTS = msgspec.json.Decoder(list[_Event])
_TIMES = msgspec.json.Decoder(list[_Times])
_DOCUMENT = msgspec.json.Decoder(Document)


class _Strings(dict[str, int]):
    def __missing__(self, key: str) -> int:
        number = self[key] = len(self)
        return number


class _Threads(dict[Thread, int]):
    def __missing__(self, key: Thread) -> int:
        number = self[key] = len(self)
        return number


class Decoder:
    """Turns pieces into columns; ``total`` counts the events that were kept."""

    def __init__(self) -> None:
        self._names, self._categories, self._stacks = _Strings(), _Strings(), _Strings()
        self._threads = _Threads()
        self._moves: list[bool] = []
        self._part = Part()
        self.total = 0

    def add(self, place: int, text: bytes) -> None:
        """Decode events with commas between them, as piece number ``place`` of the file.

        Raises:
            msgspec.MsgspecError: they are not JSON, or no events.
        """
        self._add(place, b"[" + text + b"]")

    def add_document(self, place: int, text: bytes) -> Document:
        """Decode the head, the last events and what follows them; return the keys around the events.

        Raises:
            msgspec.MsgspecError: it is not JSON, or no events.
        """
        try:
            document = _DOCUMENT.decode(text)
        except msgspec.DecodeError:
            document = _DOCUMENT.decode(self._repaired(text))
        self._add(place, bytes(document.traceEvents) or b"[]")
        return document

    def part(self) -> Part:
        """Return all that was read."""
        part = self._part
        part.names, part.categories, part.stacks = list(self._names), list(self._categories), list(self._stacks)
        part.threads = list(self._threads)
        return part

    def _repaired(self, text: bytes) -> bytes:
        """Return the text without what torch has written and JSON does not allow: nan, inf, bytes that are no UTF-8."""
        whole = _NO_NUMBER.sub(rb"\1null", text)
        try:
            whole.decode()
        except UnicodeDecodeError:
            decoded = whole.decode("utf-8", "replace")
            broken = decoded.count("\ufffd") - whole.count("\ufffd".encode())
            self._part.skipped["bytes that are not UTF-8, replaced"] += broken
            return decoded.encode()
        return whole

    def _add(self, place: int, text: bytes) -> None:
        try:
            events = _EVENTS.decode(text)
        except msgspec.DecodeError:
            text = self._repaired(text)
            events = _EVENTS.decode(text)
        kept = [event for event in events if event.ph == "X"]
        if len(kept) < len(events):
            self._count("begin or end alone (ph B, E)", sum(event.ph in UNPAIRED for event in events))
        category = _numbers(self._categories, [event.cat for event in kept])
        start = np.array([event.ts for event in kept], np.float64)
        length = np.array([event.dur for event in kept], np.float64)
        good = self._usable(start, length, category)
        if held_exactly(start[good]) or not _FINE.search(text):
            begin, size = from_floats(start[good]), from_floats(length[good])
        else:
            begin, size = _from_text(text, good)
        if not good.all():
            kept = [event for event, fine in zip(kept, good.tolist(), strict=True) if fine]
        self._keep(place, kept, category[good], (begin, begin + size), text)

    def _usable(self, start: NDArray[np.float64], length: NDArray[np.float64], category: Numbers) -> NDArray[np.bool_]:
        known = np.isfinite(start) & np.isfinite(length)
        near = known & (np.abs(start) < LARGEST) & (np.abs(length) < LARGEST)
        forward = near & ~(length < 0)
        self._count("no time", int((~known).sum()))
        self._count("time out of range", int((known & ~near).sum()))
        self._count("negative duration", int((near & ~forward).sum()))
        if WHOLE in self._categories:
            forward &= category != self._categories[WHOLE]
        return forward

    def _count(self, reason: str, count: int) -> None:
        if count:
            self._part.skipped[reason] += count

    def _keep(self, place: int, kept: list[_Event], category: Numbers, span: tuple[Times, Times], text: bytes) -> None:
        name = _numbers(self._names, [event.name for event in kept])
        for new in islice(self._names, len(self._moves), None):
            self._moves.append(new == COMMS or kinds.is_collective(new))
        moving = np.flatnonzero(np.array(self._moves, bool)[name]).tolist()
        calls = np.flatnonzero(category == self._categories.get(PYTHON, -1)).tolist()
        columns = Columns(
            place=place,
            start=span[0],
            end=span[1],
            name=name,
            category=category,
            thread=np.array([self._threads[event.tid] for event in kept], np.int32),
            comms=[(row, arguments.decode(kept[row].args)) for row in moving],
            python=_python(kept, calls),
            stacks=self._call_stacks(kept) if _STACK in text else np.zeros((0, 2), np.int64),
        )
        self._part.pieces.append(columns)
        self.total += len(kept)

    def _call_stacks(self, kept: list[_Event]) -> Times:
        texts = [(row, arguments.decode(event.args).stack) for row, event in enumerate(kept)]
        return np.array([(row, self._stacks[stack]) for row, stack in texts if stack], np.int64).reshape(-1, 2)


def _numbers(table: _Strings, keys: list[str]) -> Numbers:
    return np.array([table[key] for key in keys], np.int32)


def _from_text(text: bytes, good: NDArray[np.bool_]) -> tuple[Times, Times]:
    """Return start and length of the usable events, from their digits."""
    events = [event for event in _TIMES.decode(text) if event.ph == "X"]
    kept = [event for event, fine in zip(events, good.tolist(), strict=True) if fine]
    start = nanoseconds([bytes(event.ts) for event in kept])
    return start, nanoseconds([bytes(event.dur) or b"0" for event in kept])


def _python(kept: list[_Event], rows: list[int]) -> Times:
    found = [(row, arguments.decode(kept[row].args)) for row in rows]
    table = [(row, _id(known.python), _id(known.parent)) for row, known in found]
    return np.array(table, np.int64).reshape(-1, 3)


def _id(number: int | None) -> int:
    return -1 if number is None or not 0 <= number < 1 << 63 else number
