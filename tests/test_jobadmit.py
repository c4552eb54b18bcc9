from __future__ import annotations

import pytest

from eroica_otel import names
from eroica_otel.errors import QueryError
from eroica_otel.jobadmit import FUTURE_SECONDS, Admission, admit
from eroica_otel.model import SCHEMA, Point
from factories_central import WINDOW, collect, identity, window

NOW = WINDOW + 60.0


def build(schema: str, version: str = "0.9.1") -> list[Point]:
    labels = identity(3).labels() | {"version": version, "schema": schema, "component": "worker"}
    return [Point(names.BUILD_INFO.name, labels, 1.0)]


@pytest.mark.parametrize("schema", ["7", "6", ""])
def test_this_schema_the_one_before_and_none_are_read(schema: str) -> None:
    admit(build(schema) + collect(window()), NOW, schema=7)


@pytest.mark.parametrize("schema", ["8", "70", "7.1", "x", "²", "-7"])
def test_a_newer_schema_is_refused_by_name_with_the_remedy(schema: str) -> None:
    with pytest.raises(QueryError) as raised:
        admit(build(schema), NOW, schema=7)
    assert str(raised.value) == (
        f"rank 3 of llm-7b sends schema {schema} (eroica_otel 0.9.1), this localizer reads 6 and 7; install that "
        "version for the localizer too"
    )


def test_a_schema_older_than_the_one_before_is_refused_with_the_other_remedy() -> None:
    with pytest.raises(QueryError, match=r"schema 5 .* reads 6 and 7; install this version for the workers too"):
        admit(build("5"), NOW, schema=7)


def test_what_is_told_of_a_version_is_one_short_line() -> None:
    with pytest.raises(QueryError) as raised:
        admit(build("8\nx" + "y" * 1000, "\x1b[2J"), NOW, schema=7)
    text = str(raised.value)
    assert text.isprintable()
    assert len(text) < 300


def test_a_window_of_the_future_is_refused_beyond_a_day() -> None:
    admit(collect(window(window_id=int(NOW + FUTURE_SECONDS))), NOW)
    with pytest.raises(QueryError, match="lies in the future; set the clock of the worker"):
        admit(collect(window(window_id=int(NOW + FUTURE_SECONDS) + 1)), NOW)


def test_what_is_refused_is_said_once_and_not_by_the_thousand() -> None:
    lines: list[str] = []
    admission = Admission(lines.append, lambda: NOW)
    for rank in (*range(100), 0, 1):
        (point,) = build(str(SCHEMA + 1))
        with pytest.raises(QueryError):
            admission([point._replace(labels={**point.labels, "rank": str(rank)})])
    assert len(lines) == len(set(lines)) == 16
    assert lines[0].startswith(f"left out: rank 0 of llm-7b sends schema {SCHEMA + 1} ")
    admission(build(str(SCHEMA)))
