from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from backends import NOW, BackendServer, backend
from eroica_otel.query import export
from eroica_otel.query.client import Backend, Client, QueryFailed
from eroica_otel.query.promql import Series

LINE = b'{"metric":{"__name__":"x","f":"a,\\"b"},"values":[1,null,"Infinity",0.5],"timestamps":[1000,2000,3000,4130]}'


@pytest.fixture
def server() -> Iterator[BackendServer]:
    with backend() as running:
        running.exports = True
        yield running


def test_a_line_is_a_series_of_its_finite_samples() -> None:
    assert export.parse(LINE) == Series({"__name__": "x", "f": 'a,"b'}, ((1.0, 1.0), (4.13, 0.5)))


@pytest.mark.parametrize(
    ("values", "samples"),
    [("1,NaN", ((1.0, 1.0),)), ("+Inf,2", ((2.0, 2.0),)), ("-Inf,null", ()), ("1,Infinity", ((1.0, 1.0),))],
)
def test_what_victoriametrics_writes_for_samples_that_are_not_finite_is_no_sample(
    values: str, samples: tuple[tuple[float, float], ...]
) -> None:
    label = '\\"values\\":[NaN'
    line = f'{{"metric":{{"__name__":"x","f":"{label}"}},"values":[{values}],"timestamps":[1000,2000]}}'.encode()
    assert export.parse(line) == Series({"__name__": "x", "f": '"values":[NaN'}, samples)


def test_times_are_those_that_a_question_gives() -> None:
    """What was found by a question is asked for by the stream: both must read one number from the same milliseconds."""
    for millis in range(1_796_058_789_000, 1_796_058_789_999, 7):
        line = b'{"metric":{},"values":[1],"timestamps":[%d]}' % millis
        assert export.parse(line).samples[0][0] == float(f"{millis // 1000}.{millis % 1000:03d}")


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"<html>",
        b'{"metric":{},"values":[1],"timestamps":[]}',
        b'{"metric":{},"values":1,"timestamps":[]}',
    ],
)
def test_what_is_no_series_is_said_so(line: bytes) -> None:
    with pytest.raises(QueryFailed, match="a line of the export is no series") as failed:
        export.parse(line)
    assert failed.value.outcome == "malformed"


def test_a_backend_is_asked_whether_it_has_the_stream(server: BackendServer) -> None:
    client = Client(Backend(server.url))
    assert export.is_there(client)
    server.exports = False
    assert not export.is_there(client)
    server.exports = True
    server.reply = lambda request: request.send(200, b"<html>everything is fine</html>")
    assert not export.is_there(client)
    server.reply = lambda request: request.send(401, b"")
    with pytest.raises(QueryFailed, match="credentials"):
        export.is_there(client)


def test_samples_from_begin_to_end_are_read_a_series_at_a_time(server: BackendServer) -> None:
    for when in (NOW - 1, NOW, NOW + 1.5, NOW + 2):
        server.samples.rows.setdefault((("__name__", "x"),), []).append((when, when))
    server.samples.rows[("__name__", "y"),] = [(NOW, math.pi)]
    found = export.between(Client(Backend(server.url)), '{__name__="x"}', NOW, NOW + 1.5)
    assert list(found) == [Series({"__name__": "x"}, ((NOW, NOW), (NOW + 1.5, NOW + 1.5)))]
    assert server.samples.questions == ['{__name__="x"}']


VECTOR = b'{"metric":{"dict":"d"},"values":[0.5,-1,2,null],"timestamps":[1000,1001,1002,1003]}'


def test_a_vector_is_read_as_a_row_without_the_mark_of_its_end() -> None:
    assert export.row_of(VECTOR) == export.Row({"dict": "d"}, 1000, 1002, [0.5, -1.0, 2.0])
    assert export.row_of(VECTOR.replace(b",null", b"").replace(b",1003", b"")) == export.row_of(VECTOR)


@pytest.mark.parametrize(
    "line", [b'{"metric":{},"values":[1,null,2],"timestamps":[1,2,3]}', b'{"metric":{},"values":[],"timestamps":[]}',
             b'{"metric":{},"values":[1,2],"timestamps":[1]}', b'{"metric":{},"values":[null],"timestamps":[1]}']
)  # fmt: skip
def test_a_row_with_a_hole_is_none(line: bytes) -> None:
    assert export.row_of(line) is None


@pytest.mark.parametrize("line", [b"{}", b"x", b'{"metric":{},"values":[1],"timestamps":["a"]}'])
def test_what_is_no_row_is_said_so(line: bytes) -> None:
    with pytest.raises(QueryFailed, match="no series"):
        export.row_of(line)
