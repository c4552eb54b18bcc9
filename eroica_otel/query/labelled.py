"""One window of a large job in the layout of labels, as columns: series of a backend in, facts of wide.py out.

A series differs from that of another worker by the rank, the host and the target alone, so that what the other labels
say is understood once: a series costs some 3 us instead of 17. No object is made for a worker or a number.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from eroica_otel import names
from eroica_otel.errors import one_line
from eroica_otel.query.client import QueryFailed
from eroica_otel.query.promql import Raw
from eroica_otel.query.scraped import Added, Stream, own_labels, stream_of
from eroica_otel.query.wide import Part
from eroica_otel.table import Ints, Words
from eroica_otel.vectors import Slot

_MARKS = (b',"rank":"', b',"host":"', b',"instance":"')
_EXPORTED = b'"exported_'
_labels = msgspec.json.Decoder(dict[str, str])

Who = tuple[bytes, ...]
"""Values of _MARKS as they stand in the text, () where they were not cut out."""


@dataclass(slots=True, eq=False)
class _Kind:
    """What series are that differ by the worker alone; rows and numbers of those that were read.

    Kinds of one ``group`` are of the same worker where the rank, host and target are the same.
    """

    name: str
    labels: Mapping[str, str]
    slot: Slot | None
    group: int = 0
    rows: array[int] = field(default_factory=lambda: array("i"))
    values: array[float] = field(default_factory=lambda: array("d"))


class Labelled:
    """Facts of series: the first sample of each inside its worker's span, as scraped.points_in takes them.

    Attributes:
        ranks: Of the rows, [W]; every member is one.
        hosts, roles: Of the rows, [W].
    """

    def __init__(self, members: Mapping[Stream, tuple[float, float]]) -> None:
        """Take who is read, from when on and until when (exclusive)."""
        self._rows = {stream: at for at, stream in enumerate(members)}
        self._spans = list(members.values())
        self.ranks: Ints = np.array([int(stream.process.rank) for stream in members], np.int64)
        self.hosts = Words.of(stream.process.host for stream in members)
        self._roles: list[str] = [""] * len(members)
        self._kinds: dict[bytes, _Kind] = {}
        self._groups: dict[tuple[tuple[str, ...], Added], int] = {}
        self._seen: dict[tuple[int, Who], int] = {}

    @property
    def roles(self) -> Words:
        """Role of each row."""
        return Words.of(self._roles)

    def take(self, series: Iterable[Raw]) -> None:
        """Take series in, those of others too, which are left out.

        Raises:
            QueryFailed: labels are none.
        """
        for metric, samples in series:
            text, who = _parted(metric)
            kind = self._kinds.get(text)
            if kind is None:
                kind = self._kinds[text] = self._kind(text)
            if kind.slot is None:
                continue
            row = self._seen.get((kind.group, who))
            if row is None:
                row = self._seen[kind.group, who] = self._row(kind, who)
            if row >= 0:
                begin, end = self._spans[row]
                for when, value in samples:
                    if begin <= when < end:
                        kind.rows.append(row)
                        kind.values.append(value)
                        break

    def _kind(self, text: bytes) -> _Kind:
        try:
            labels = _labels.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise QueryFailed("malformed", f"labels of a series are none ({one_line(str(error), 200)})") from error
        name = labels.get("__name__", "")
        known = names.BY_NAME.get(name)
        if known is None:
            return _Kind(name, labels, None)
        own, added = own_labels(labels, known)
        pairs = sorted((key, value) for key, value in own.items() if value and key not in names.IDENTITY)
        whose = (tuple(own.get(key, "") for key in names.IDENTITY), added)
        group = self._groups.setdefault(whose, len(self._groups))
        return _Kind(name, labels, Slot(name, tuple(pairs)), group)

    def _row(self, kind: _Kind, who: Who) -> int:
        """Return whose series it is, -1 for nobody's that is read."""
        more = {mark[2:-3].decode(): value.decode() for mark, value in zip(_MARKS, who, strict=False) if value}
        own, added = own_labels({**kind.labels, **more}, names.BY_NAME[kind.name])
        stream = stream_of(own, added)
        row = -1 if stream is None else self._rows.get(stream, -1)
        if row >= 0:
            self._roles[row] = own.get("role", "")
        return row

    def slots(self, metric: names.Metric) -> Iterator[Part]:
        """Yield all of a series."""
        for kind in self._kinds.values():
            if kind.name == metric.name and kind.slot is not None and kind.rows:
                yield kind.slot, np.frombuffer(kind.rows, np.int32), np.frombuffer(kind.values, np.float64)


def _parted(metric: bytes) -> tuple[bytes, Who]:
    """Return the labels without what tells workers apart, and that; () where it has to be read with care."""
    if _EXPORTED in metric:
        return metric, ()
    text, who = metric, []
    for mark in _MARKS:
        begin = text.find(mark)
        if begin < 0:
            who.append(b"")
            continue
        end = text.find(b'"', begin + len(mark))
        value = text[begin + len(mark) : end]
        if b"\\" in value:
            return metric, ()
        who.append(value)
        text = text[:begin] + text[end + 1 :]
    return text, tuple(who)
