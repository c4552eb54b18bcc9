"""Pieces of a trace's JSON -> columns, with a typed decoder. This is where reading spends its time.

Names, categories and threads become numbers of this decoder's own tables, so that several decoders can share a file.
"""

from __future__ import annotations

import re
from collections import Counter

import msgspec
import numpy as np
from numpy.typing import NDArray

from eroica_otel import kinds
from eroica_otel.summarize.intervals import Times
from eroica_otel.summarize.readers import arguments
from eroica_otel.summarize.readers.columns import Columns, Numbers, Part, Thread
from eroica_otel.summarize.readers.cut import spans
from eroica_otel.summarize.readers.decimals import LARGEST, from_floats, held_exactly, nanoseconds

SMALL_BYTES = 512 << 10
"""Decoded at a time: larger parts fall out of the processor's cache before their events are read."""
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


_NO_TIMES = np.zeros(0, np.int64)
_EVENTS = msgspec.json.Decoder(list[_Event])
_TIMES = msgspec.json.Decoder(list[_Times])
_DOCUMENT = msgspec.json.Decoder(Document)


class _Strings(dict[str, int]):
    """Numbers strings in the order in which they are first asked for; ``fresh`` are those since it was last emptied."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh: list[str] = []

    def __missing__(self, key: str) -> int:
        number = self[key] = len(self)
        self.fresh.append(key)
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
        self._moving: list[int] = []
        self._pieces: list[Columns] = []
        self.total = 0

    def add(self, place: int, text: bytes) -> None:
        """Decode events with commas between them, as piece number ``place`` of the file.

        They are decoded some at a time, which stays in the processor's cache.

        Raises:
            msgspec.MsgspecError: they are not JSON, or no events.
        """
        before, total = len(self._pieces), self.total
        try:
            for begin, end in spans(text, SMALL_BYTES):
                self._add(place, b"[" + text[begin:end] + b"]", Counter())
        except msgspec.DecodeError:
            # One of the likely cuts was none, or the text is damaged: as a whole it tells.
            del self._pieces[before:]
            self.total = total
            self._add(place, b"[" + text + b"]", Counter())

    def add_document(self, place: int, text: bytes) -> Document:
        """Decode the head, the last events and what follows them; return the keys around the events.

        Raises:
            msgspec.MsgspecError: it is not JSON, or no events.
        """
        skipped: Counter[str] = Counter()
        try:
            document = _DOCUMENT.decode(text)
        except msgspec.DecodeError:
            document = _DOCUMENT.decode(_repaired(text, skipped))
        self._add(place, bytes(document.traceEvents) or b"[]", skipped)
        return document

    def part(self) -> Part:
        """Return all that was read."""
        return Part(
            names=list(self._names),
            categories=list(self._categories),
            threads=list(self._threads),
            stacks=list(self._stacks),
            pieces=self._pieces,
        )

    def _add(self, place: int, text: bytes, skipped: Counter[str]) -> None:
        try:
            events = _EVENTS.decode(text)
        except msgspec.DecodeError:
            text = _repaired(text, skipped)
            events = _EVENTS.decode(text)
        kept = [event for event in events if event.ph == "X"]
        if len(kept) < len(events):
            skipped["begin or end alone (ph B, E)"] += sum(event.ph in UNPAIRED for event in events)
        category = _numbers(self._categories, [event.cat for event in kept])
        start = np.array([event.ts for event in kept], np.float64)
        length = np.array([event.dur for event in kept], np.float64)
        good = _usable(start, length, skipped)
        if WHOLE in self._categories:
            good &= category != self._categories[WHOLE]
        if held_exactly(start[good]) or not _FINE.search(text):
            begin, size = from_floats(start[good]), from_floats(length[good])
        else:
            begin, size = _from_text(text, good)
        if not good.all():
            kept = [event for event, fine in zip(kept, good.tolist(), strict=True) if fine]
        columns = self._columns(place, kept, category[good], _STACK in text)
        self._pieces.append(columns._replace(start=begin, end=begin + size, skipped=skipped))
        self.total += len(kept)

    def _columns(self, place: int, kept: list[_Event], category: Numbers, stacked: bool) -> Columns:
        """Return all columns but the times."""
        name = _numbers(self._names, [event.name for event in kept])
        self._moving += [self._names[new] for new in self._names.fresh if new == COMMS or kinds.is_collective(new)]
        self._names.fresh.clear()
        moving = np.flatnonzero(np.isin(name, self._moving)).tolist() if self._moving else []
        calls = np.flatnonzero(category == self._categories.get(PYTHON, -1)).tolist()
        return Columns(
            place=place,
            start=_NO_TIMES,
            end=_NO_TIMES,
            name=name,
            category=category,
            thread=np.array([self._threads[event.tid] for event in kept], np.int32),
            comms=[(row, arguments.decode(kept[row].args)) for row in moving],
            python=_python(kept, calls),
            stacks=self._call_stacks(kept) if stacked else np.zeros((0, 2), np.int64),
            skipped=Counter(),
        )

    def _call_stacks(self, kept: list[_Event]) -> Times:
        texts = [(row, arguments.decode(event.args).stack) for row, event in enumerate(kept)]
        return np.array([(row, self._stacks[stack]) for row, stack in texts if stack], np.int64).reshape(-1, 2)


def _repaired(text: bytes, skipped: Counter[str]) -> bytes:
    """Return the text without what torch has written and JSON does not allow: nan, inf, bytes that are no UTF-8."""
    whole = _NO_NUMBER.sub(rb"\1null", text)
    try:
        whole.decode()
    except UnicodeDecodeError:
        decoded = whole.decode("utf-8", "replace")
        broken = decoded.count("\ufffd") - whole.count("\ufffd".encode())
        skipped["bytes that are not UTF-8, replaced"] += broken
        return decoded.encode()
    return whole


def _usable(start: NDArray[np.float64], length: NDArray[np.float64], skipped: Counter[str]) -> NDArray[np.bool_]:
    """Return which times can be used, and count the others by reason."""
    known = np.isfinite(start) & np.isfinite(length)
    near = known & (np.abs(start) < LARGEST) & (np.abs(length) < LARGEST)
    forward = near & ~(length < 0)
    if not forward.all():
        skipped["no time"] += int((~known).sum())
        skipped["time out of range"] += int((known & ~near).sum())
        skipped["negative duration"] += int((near & ~forward).sum())
    return forward


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
