"""Pieces of a trace's JSON -> columns, with a typed decoder. This is where reading spends its time.

Labels (category and name) and threads become numbers of this decoder's own tables, so that several can share a file.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from eroica_otel import kinds
from eroica_otel.summarize.intervals import Times
from eroica_otel.summarize.readers import arguments
from eroica_otel.summarize.readers.columns import NO_TABLE, Batch, Comm, Numbers, Part, Thread
from eroica_otel.summarize.readers.cut import OPEN, spans
from eroica_otel.summarize.readers.decimals import (
    LARGEST,
    Microseconds,
    from_numbers,
    held_exactly,
    nanoseconds,
    numbers,
)
from eroica_otel.summarize.spill import Spill

SMALL_BYTES = 512 << 10
"""Decoded at a time: larger parts fall out of the processor's cache before their events are read."""
COMMS = "record_param_comms"
"""Operator that torch runs for each collective: its arguments say what the kernel's name does not."""
PYTHON = "python_function"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What some editors put before the text."""
WHOLE = "Trace"
"""Category of the event that spans the whole trace."""
UNPAIRED = frozenset({"B", "E", "b", "n", "e"})
_NOTHING = msgspec.Raw(b"")
_NO_NUMBER = re.compile(rb"(?<=[:\[,])(\s*)-?(?:nan|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
_FINE = re.compile(rb'"ts"\s*:\s*[0-9]{13,}\.[0-9]*[1-9]')
"""Epoch microseconds with decimals, which a double does not hold."""
_STACK = re.compile(rb'Call stack"\s*:\s*"[^"]')
"""A call stack that is not empty: torch of 2021 wrote the key on every operator, with stacks or without. A search for
a letter that is rare is twice as fast as one that begins with a quote."""


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    cat: str = ""
    tid: int | str | None = None
    ts: int | float | None = None
    dur: int | float | None = 0
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


_ARGUMENTS, _PHASE = attrgetter("args"), attrgetter("ph")
_EVENTS = msgspec.json.Decoder(list[_Event])
_TIMES = msgspec.json.Decoder(list[_Times])
_DOCUMENT = msgspec.json.Decoder(Document)


_MOVES, _PYTHON, _SPANS, _UNKNOWN = 1, 2, 4, 8


class _Labels(dict[tuple[str, str], int]):
    """Numbers (category, name) in the order in which they are first asked for; ``marks`` says what each is."""

    def __init__(self) -> None:
        super().__init__()
        self.marks = bytearray()

    def __missing__(self, key: tuple[str, str]) -> int:
        category, name = key
        number = self[key] = len(self)
        mark = _MOVES if name == COMMS or kinds.is_collective(name) else 0
        mark |= {PYTHON: _PYTHON, WHOLE: _SPANS}.get(category, 0)
        self.marks.append(mark | (0 if kinds.is_known(category) else _UNKNOWN))
        return number


class _Threads(dict[Thread, int]):
    def __missing__(self, key: Thread) -> int:
        number = self[key] = len(self)
        return number


class _Stacks(dict[str, int]):
    def __missing__(self, key: str) -> int:
        number = self[key] = len(self)
        return number


class _Some(NamedTuple):
    """Events that were decoded together: columns as in Part, and what their arguments say."""

    start: Times
    end: Times
    label: Numbers
    thread: Numbers
    comms: list[Comm]
    python: Times
    stacks: Times


class Decoder:
    """Turns pieces into columns; ``total`` counts the events that were kept."""

    def __init__(self, spill: Spill | None = None) -> None:
        """Keep columns in ``spill``, without the Python of the trace; where it is left out all stays in memory."""
        self._whole = spill is None
        self._spill = spill or Spill()
        self._labels, self._threads, self._stacks = _Labels(), _Threads(), _Stacks()
        self._batches: list[Batch] = []
        self._skipped: Counter[str] = Counter()
        self._unknown: dict[str, tuple[int, int]] = {}
        self.total = 0

    def add(self, place: int, text: bytes) -> None:
        """Decode events with commas between them, as piece number ``place`` of the file.

        They are decoded some at a time, which stays in the processor's cache.

        Raises:
            msgspec.MsgspecError: they are not JSON, or no events.
        """
        skipped: Counter[str] = Counter()
        try:
            found = [self._decoded(_listed(text, *span), skipped) for span in spans(text, SMALL_BYTES)]
        except (msgspec.DecodeError, UnicodeDecodeError):
            # One of the likely cuts was none, or the text is damaged: as a whole it tells.
            skipped.clear()
            found = [self._decoded(_listed(text, 0, len(text)), skipped)]
        self._keep(place, found, skipped)

    def add_document(self, place: int, head: bytes, text: bytes) -> Document:
        """Decode the head (with the opening bracket of the events), the last events and what follows them; return the
        keys around the events.

        Raises:
            msgspec.MsgspecError: it is not JSON, or no events.
            ValueError: the events behind the head are not those of the document: it has several lists of them.
        """
        skipped: Counter[str] = Counter()
        head = head.removeprefix(BYTE_ORDER_MARK)
        try:
            document = _DOCUMENT.decode(head + text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            head, text = _repaired(head, skipped), _repaired(text, skipped)
            document = _DOCUMENT.decode(head + text)
        events = bytes(document.traceEvents)
        if not events or not text.startswith(events[1:]) or OPEN.search(text, len(events) - 1):
            raise ValueError("traceEvents stands there twice, or not at the top")
        self._keep(place, [self._decoded(events, skipped)], skipped)
        return document

    def part(self) -> Part:
        """Return all that was read."""
        return Part(
            labels=list(self._labels),
            threads=list(self._threads),
            stacks=list(self._stacks),
            batches=self._batches,
            skipped=self._skipped,
            unknown=self._unknown,
            problem=self._spill.problem,
        )

    def _keep(self, place: int, found: list[_Some], skipped: Counter[str]) -> None:
        start, end, label, thread = (np.concatenate(column) for column in list(zip(*found, strict=True))[:4])
        numbered = list(zip(found, accumulate((some.start.size for some in found), initial=0), strict=False))
        self._skipped += skipped
        self.total += start.size
        if not start.size:
            return
        self._count_unknown(start, end, label)
        batch = Batch(
            place=place,
            first=int(start.min()),
            last=int(end.max()),
            slot=self._spill.put(start, end, label, thread),
            comms=[comm._replace(row=comm.row + at) for some, at in numbered for comm in some.comms],
            python=_below([(some.python, at) for some, at in numbered]),
            stacks=_below([(some.stacks, at) for some, at in numbered]),
        )
        self._batches.append(batch)

    def _count_unknown(self, start: Times, end: Times, label: Numbers) -> None:
        rows = np.flatnonzero(self._marked(label, _UNKNOWN))
        if not rows.size:
            return
        labels = list(self._labels)
        for number in np.unique(label[rows]).tolist():
            mine = rows[label[rows] == number]
            count, time = self._unknown.get(labels[number][0], (0, 0))
            time += int((end[mine] - start[mine]).sum())
            self._unknown[labels[number][0]] = (count + mine.size, time)

    def _marked(self, label: Numbers, mark: int) -> NDArray[np.bool_]:
        return (np.frombuffer(bytes(self._labels.marks), np.uint8)[label] & mark) > 0

    def _decoded(self, text: bytes, skipped: Counter[str]) -> _Some:
        try:
            events = _EVENTS.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            text = _repaired(text, skipped)
            events = _EVENTS.decode(text)
        kept = [event for event in events if event.ph == "X"]
        if len(kept) < len(events):
            skipped["begin or end alone (ph B, E)"] += sum(map(UNPAIRED.__contains__, map(_PHASE, events)))
        label = _column([self._labels[event.cat, event.name] for event in kept])
        start, length = numbers([event.ts for event in kept]), numbers([event.dur for event in kept])
        good = _usable(start, length, skipped) & ~self._marked(label, _SPANS)
        if held_exactly(start[good]) or not _FINE.search(text):
            begin, size = from_numbers(start[good]), from_numbers(length[good])
        else:
            begin, size = _from_text(text, good)
        if not good.all():
            kept = [event for event, fine in zip(kept, good.tolist(), strict=True) if fine]
            label = label[good]
        return self._told(kept, begin, begin + size, label, text)

    def _told(self, kept: list[_Event], start: Times, end: Times, label: Numbers, text: bytes) -> _Some:
        """Return the columns and what the arguments of some events say."""
        moving = np.flatnonzero(self._marked(label, _MOVES)).tolist()
        calls = np.flatnonzero(self._marked(label, _PYTHON)).tolist() if self._whole else []
        return _Some(
            start=start,
            end=end,
            label=label,
            thread=_column([self._threads[event.tid] for event in kept]),
            comms=[
                Comm(row, int(label[row]), int(start[row]), int(end[row]), arguments.decode(kept[row].args))
                for row in moving
            ],
            python=_python(kept, calls) if calls else NO_TABLE,
            stacks=self._call_stacks(kept) if self._whole and _STACK.search(text) else NO_TABLE,
        )

    def _call_stacks(self, kept: list[_Event]) -> Times:
        found = arguments.decode_all(map(_ARGUMENTS, kept))
        table = [(row, self._stacks[known.stack]) for row, known in enumerate(found) if known.stack]
        return np.array(table, np.int64).reshape(-1, 2)


def _column(values: list[int]) -> Numbers:
    return np.fromiter(values, np.int32, len(values))


def _listed(text: bytes, begin: int, end: int) -> bytes:
    return b"".join((b"[", memoryview(text)[begin:end], b"]"))


def _below(tables: list[tuple[Times, int]]) -> Times:
    """Return tables whose first column is a row as one, in which the rows of each count from the number beside it."""
    moved = [np.column_stack((table[:, 0] + at, table[:, 1:])) for table, at in tables if len(table)]
    return np.concatenate(moved) if moved else NO_TABLE


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


def _usable(start: Microseconds, length: Microseconds, skipped: Counter[str]) -> NDArray[np.bool_]:
    """Return which times can be used, and count the others by reason."""
    known = np.isfinite(start) & np.isfinite(length)
    near = known & (start > -LARGEST / 8) & (start < LARGEST) & (length > -LARGEST) & (length < LARGEST)
    forward = near & ~(length < 0)
    if not forward.all():
        skipped["no time"] += int((~known).sum())
        skipped["time out of range"] += int((known & ~near).sum())
        skipped["negative duration"] += int((near & ~forward).sum())
    return forward


def _from_text(text: bytes, good: NDArray[np.bool_]) -> tuple[Times, Times]:
    """Return start and length of the usable events, from their digits."""
    events = [event for event in _TIMES.decode(text) if event.ph == "X"]
    kept = [event for event, fine in zip(events, good.tolist(), strict=True) if fine]
    start = nanoseconds([bytes(event.ts) for event in kept])
    return start, nanoseconds([bytes(event.dur) or b"0" for event in kept])


def _python(kept: list[_Event], rows: list[int]) -> Times:
    found = arguments.decode_all([kept[row].args for row in rows])
    table = [(row, _id(known.python), _id(known.parent)) for row, known in zip(rows, found, strict=True)]
    return np.array(table, np.int64).reshape(-1, 3)


def _id(number: int | None) -> int:
    return -1 if number is None or not 0 <= number < 1 << 63 else number
