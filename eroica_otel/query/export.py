"""The stream of VictoriaMetrics, /api/v1/export: a selector and a span of time in, raw samples out, a series at a time.

One line of JSON for each series: {"metric": {...}, "values": [...], "timestamps": [milliseconds, ...]}; null is a
sample that is not finite, for which release 1.79 also writes NaN, +Inf and -Inf as they are (seen, not documented).
https://docs.victoriametrics.com/#how-to-export-data-in-json-line-format
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from eroica_otel.errors import one_line
from eroica_otel.query.client import Client, QueryFailed
from eroica_otel.query.promql import Raw, Series

PATH = "/api/v1/export"
_NOTHING = '{__name__="eroica_otel_asks_whether_this_is_there"}'


class _Line(msgspec.Struct):
    metric: dict[str, str]
    values: list[float | str | None]
    timestamps: list[int]


class _Vector(msgspec.Struct):
    metric: dict[str, str]
    values: list[float | None]
    timestamps: msgspec.Raw


class _RawLine(msgspec.Struct):
    metric: msgspec.Raw
    values: list[float | str | None]
    timestamps: list[int]


class Row(NamedTuple):
    """A series whose samples are of one vector: labels, first and last time in ms, values without the end's marker."""

    labels: Mapping[str, str]
    first: int
    last: int
    values: Sequence[float]


_NOT_FINITE = re.compile(rb"[+-]?(?:NaN|Inf(?:inity)?)")
_decoder = msgspec.json.Decoder(_Line)
_vectors = msgspec.json.Decoder(_Vector)
_raw = msgspec.json.Decoder(_RawLine)


def is_there(client: Client) -> bool:
    """Return whether the backend has this stream: it is asked for nothing.

    Raises:
        QueryFailed: nobody answers, or not in time.
    """
    try:
        return not any(line.strip() for line in client.lines(PATH, {"match[]": _NOTHING}))
    except QueryFailed as error:
        if error.outcome in ("unreachable", "timeout", "unauthorized"):
            raise
        return False


def between(client: Client, selected: str, begin: float, end: float) -> Iterator[Series]:
    """Yield the series of a selector with their samples from ``begin`` to ``end`` (unix seconds, both included).

    Raises:
        QueryFailed: the answer breaks off, or is none.
    """
    for line in _lines(client, selected, begin, end):
        series = parse(line)
        if series.samples:
            yield series


def raw_between(client: Client, selected: str, begin: float, end: float) -> Iterator[Raw]:
    """Yield the series of a selector as ``between`` does, with their labels as they stand in the line.

    Raises:
        QueryFailed: the answer breaks off, or is none.
    """
    yield from map(raw_of, _lines(client, selected, begin, end))


def _lines(client: Client, selected: str, begin: float, end: float) -> Iterator[bytes]:
    fields = {"match[]": selected, "start": f"{begin:.3f}", "end": f"{end:.3f}"}
    yield from (line for line in client.lines(PATH, fields) if line.strip())


def raw_of(line: bytes) -> Raw:
    """Return the series of one line; samples that are not finite are absent.

    Raises:
        QueryFailed: it is none.
    """
    try:
        try:
            found = _raw.decode(line)
        except msgspec.MsgspecError:
            found = _raw.decode(_as_json(line))
        samples = zip(found.timestamps, found.values, strict=True)
        return Raw(bytes(found.metric), [(when / 1000, value) for when, value in samples if type(value) is float])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        said = one_line(str(error), 200)
        raise QueryFailed("malformed", f"a line of the export is no series ({said})") from error


def rows_between(client: Client, selected: str, begin: float, end: float) -> Iterator[Row]:
    """Yield the series of a selector as ``between`` does, without an object for each sample; empty ones are left out.

    Raises:
        QueryFailed: the answer breaks off, or is none.
    """
    yield from (row for row in map(row_of, _lines(client, selected, begin, end)) if row is not None)


def row_of(line: bytes) -> Row | None:
    """Return the row of one line; None where a sample inside is not finite, or there is none.

    Raises:
        QueryFailed: it is no series.
    """
    try:
        found = _vectors.decode(_as_json(line))
        values = found.values[:-1] if found.values and found.values[-1] is None else found.values
        times = bytes(found.timestamps).strip()[1:-1].split(b",", len(values))[: len(values)]
        if not values or len(times) < len(values) or None in values:
            return None
        return Row(found.metric, int(times[0]), int(times[-1]), cast("list[float]", values))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        said = one_line(str(error), 200)
        raise QueryFailed("malformed", f"a line of the export is no series ({said})") from error


def parse(line: bytes) -> Series:
    """Return the series of one line; samples that are not finite are absent.

    Raises:
        QueryFailed: it is none.
    """
    try:
        found = _decoder.decode(_as_json(line))
        samples = zip(found.timestamps, found.values, strict=True)
        finite = [(when / 1000, value) for when, value in samples if type(value) is float and math.isfinite(value)]
        return Series(found.metric, tuple(finite))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        said = one_line(str(error), 200)
        raise QueryFailed("malformed", f"a line of the export is no series ({said})") from error


def _as_json(line: bytes) -> bytes:
    """Return the line with null for what is not finite; a label cannot hold this quote, colon and bracket unescaped."""
    begin = line.rfind(b'"values":[')
    if begin < 0 or _NOT_FINITE.search(line, begin) is None:
        return line
    return line[:begin] + _NOT_FINITE.sub(b"null", line[begin:])
