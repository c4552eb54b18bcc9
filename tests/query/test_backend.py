"""One reading of a backend into which other programs may have written anything under our names."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from backends import NOW, BackendServer, Request, backend, success
from eroica_otel import names
from eroica_otel.commands.main import main
from eroica_otel.model import Point
from eroica_otel.query.backend import BackendReader
from eroica_otel.query.client import Backend, QueryFailed
from eroica_otel.query.decode import WORKERS_MOST
from eroica_otel.query.reading import Shown, Wanted
from factories_central import WINDOW, windows

STRANGE = ("+Inf", "-Inf", "NaN", "1e300", "-5", "4294967296", "", "soon", "9" * 5000)
"""What no window has as its id."""
THERE = Shown("vision", "llm-7b", WINDOW, "degraded", 4)


@pytest.fixture
def server() -> Iterator[BackendServer]:
    with backend() as made:
        made.samples.scrape(NOW - 20, NOW, windows())
        yield made


def counted(window: str, workers: object = 4) -> dict[str, object]:
    """Return how many workers show a window."""
    labels = {"training_job": "llm-7b", "team": "vision", "reason": "degraded", "window": window}
    return {"metric": labels, "values": [[NOW - 10, str(workers)]]}


def tells(server: BackendServer, *found: dict[str, object], clocks: int = 1) -> BackendReader:
    """Let the backend tell its time and these windows, and everything else as it is."""

    def reply(request: Request) -> None:
        question = request.fields.get("query", "")
        if question == "vector(time())":
            request.send(200, success([{"metric": {}, "value": [NOW, str(NOW)]}] * clocks))
        elif question.startswith("count_values"):
            request.send(200, success(found))
        elif request.path.endswith("/export"):
            request.send(200, server.samples.export(request.fields))
        else:
            request.send(200, server.samples.answer(request.fields))

    server.reply = reply
    return BackendReader(Backend(server.url, api="auto"))


def test_windows_that_are_none_cost_nothing_but_themselves(
    server: BackendServer, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = tells(server, *map(counted, STRANGE), counted(str(WINDOW)))
    assert reader.shown(Wanted()) == [THERE]
    assert [one.identity.rank for one in reader.windows(Wanted())] == [0, 1, 2, 3]
    assert main(["query", "--prometheus", server.url]) == 0
    assert "2025-11-29" in capsys.readouterr().out


@pytest.mark.parametrize("workers", [0, -1, WORKERS_MOST + 1, "1e300"])
def test_a_window_of_a_number_of_workers_that_no_job_has_is_none(server: BackendServer, workers: object) -> None:
    reader = tells(server, counted(str(WINDOW), workers))
    assert reader.shown(Wanted()) == []
    assert list(reader.tables(Wanted())) == []


def test_workers_that_are_too_many_at_once_are_counted_in_parts(server: BackendServer) -> None:
    reader = tells(server)
    others = server.reply

    def reply(request: Request) -> None:
        question = request.fields.get("query", "")
        part = re.search(r'rank=~"([^"]*)"', question)
        if not question.startswith("count_values"):
            others(request)
        elif part is None:
            request.send(422, b'{"error":"query processing would load too many samples"}')
        else:
            some = sum(re.fullmatch(part[1], rank) is not None for rank in "0123")
            request.send(200, success([counted(str(WINDOW), some)] if some else []))

    server.reply = reply
    assert reader.shown(Wanted()) == [THERE]
    assert [one.identity.rank for one in reader.windows(Wanted())] == [0, 1, 2, 3]
    assert [one.identity.rank for one in reader.windows(Wanted(ranks=frozenset({1, 3})))] == [1, 3]


def test_in_a_stream_they_cost_nothing_either(server: BackendServer) -> None:
    server.exports = True
    labels = {"training_job": "llm-7b", "team": "vision", "rank": "1", "reason": "degraded"}
    for when, value in enumerate((float("inf"), float("nan"), 1e300, -5.0, 2.0**32)):
        server.samples.add(NOW - 9 + when, [Point(names.WINDOW_ID.name, labels, value)], instance="z")
    assert tells(server).shown(Wanted()) == [THERE]


def test_ranks_that_are_none_are_left_out(server: BackendServer) -> None:
    for rank in ("first", "9" * 900, "-1", "٣"):
        labels = {"training_job": "llm-7b", "team": "vision", "rank": rank, "reason": "degraded"}
        server.samples.add(NOW - 10, [Point(names.WINDOW_ID.name, labels, float(WINDOW))], instance="z")
    reader = tells(server, counted(str(WINDOW), 8))
    assert [one.identity.rank for one in reader.windows(Wanted())] == [0, 1, 2, 3]
    ((_, table),) = reader.tables(Wanted())
    assert table.workers.rank.tolist() == [0, 1, 2, 3]


def test_a_backend_that_does_not_tell_its_time_is_malformed(
    server: BackendServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(QueryFailed, match=r"does not tell its time.*give the address") as found:
        tells(server, clocks=0).shown(Wanted())
    assert found.value.outcome == "malformed"
    assert main(["query", "--prometheus", server.url, "--rank", "0"]) == 3
    assert "does not tell its time" in capsys.readouterr().err
