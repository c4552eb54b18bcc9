"""Answers of a PromQL API, one after the other as they are asked for: deliveries, or a failure that is told.

First as the localizer's look asks, then as ``eroica-otel query`` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from bench.fuzz import trees
from bench.fuzz.check import check_error, hold
from bench.fuzz.otlp import WORDS, check, take
from bench.fuzz.target import Target
from bench.fuzz.windows import points_of, window
from eroica_otel import names
from eroica_otel.commands.query import _list
from eroica_otel.errors import QueryError
from eroica_otel.model import Point
from eroica_otel.query.backend import BackendReader
from eroica_otel.query.client import Backend, Client, QueryFailed
from eroica_otel.query.decode import WORKERS_MOST
from eroica_otel.query.look import Asker
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.prometheus import PrometheusSource
from eroica_otel.query.reading import Wanted

_QUESTIONS = (names.ITERATIONS, names.WORKER_INFO, names.WORLD_SIZE, names.WORKER_STATE, names.WINDOW_ID)
_NOW = 1_764_430_020.0
_NO_WINDOWS = ("NaN", "+Inf", "1e300", "-1", "")
_OWN = (
    "status",
    "success",
    "error",
    "data",
    "resultType",
    "matrix",
    "vector",
    "result",
    "metric",
    "values",
    "__name__",
)
WORDS = (*_OWN, *WORDS, "exported_rank", "exported_training_job", "instance", "replica", "isPartial", *_NO_WINDOWS)


class Answers(Client):
    """Stands where a backend would be asked: gives the next answer, the last one for ever."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers, self._asked = answers, 0

    def post(self, path: str, fields: Mapping[str, str]) -> bytes:
        at = min(self._asked, len(self._answers) - 1)
        self._asked += 1
        return self._answers[at]


def target() -> Target:
    """Return the reader of Prometheus' answers."""
    queries = [_seed_of_query(reason) for reason in ("degraded", "blocked", "manual")]
    return Target(run, [_seed("degraded"), _seed("blocked"), *queries], WORDS)


def run(data: bytes) -> None:
    """Look twice, so that windows have settled, and hand on what is delivered."""
    answers = trees.items(data)
    delivered: list[Delivery] = []
    said: list[str] = []
    now = iter((0.0, 0.0, 0.0, 10.0, 10.0, 10.0, *[20.0] * 99))
    source = PrometheusSource(Backend("http://localhost"), delivered.append, say=said.append, clock=lambda: next(now))
    source._asker = Asker(Answers(answers), "")
    source.look()
    source._asker = Asker(Answers(answers), "")
    source.look()
    for line in said:
        hold(len(line) < 900, "a line for people is too long")
        check_error(QueryError(line))
    take(tuple(delivered))

    for wanted in (Wanted(), Wanted(ranks=frozenset({3}))):
        _read(answers, wanted)


def _read(answers: list[bytes], wanted: Wanted) -> None:
    """List the windows, read them worker by worker, and as tables."""
    reader = BackendReader(Backend("http://localhost"))
    try:
        reader._asker = Asker(Answers(answers), "")
        lines = _list(reader.shown(wanted)).split("\n")
        hold(all(line.isprintable() for line in lines), "a list that a terminal cannot be given")
        reader._asker = Asker(Answers(answers), "")
        for found in reader.windows(wanted):
            check(found)
        reader._asker = Asker(Answers(answers), "")
        for tabled in reader.tables(wanted):
            hold(len(tabled.table.workers) <= WORKERS_MOST, "more workers than a job has")
    except QueryFailed as error:
        check_error(QueryError(f"{error}; give another address"))


def _seed_of_query(reason: str) -> bytes:
    """Return answers about a window among ids that are none, of a backend that does not tell its time if "manual"."""
    points = points_of(window(reason))
    ids = [point for point in points if point.name == names.WINDOW_ID.name]
    labels = {name: value for name, value in ids[0].labels.items() if name in ("training_job", "team", "reason")}
    shown = (*_NO_WINDOWS, f"{ids[0].value:.0f}")
    counts = [{"metric": labels | {"window": one}, "values": [[_NOW, "1"]]} for one in shown]
    clock = _answer([]) if reason == "manual" else _success([{"metric": {}, "value": [_NOW, f"{_NOW}"]}])
    return json.dumps([clock, _success(counts), _answer(ids), _answer(points)]).encode()


def _seed(reason: str) -> bytes:
    points = points_of(window(reason))
    by_name = {metric.name: [point for point in points if point.name == metric.name] for metric in _QUESTIONS}
    shown = [point for point in points if point.name not in (names.ITERATIONS.name, names.WORKER_STATE.name)]
    answers = [_answer(by_name[metric.name]) for metric in _QUESTIONS] + [_answer(shown)]
    return json.dumps(answers).encode()


def _answer(points: list[Point]) -> object:
    added = {"instance": "10.0.0.1:9464", "job": "train"}
    result = [
        {
            "metric": {"__name__": point.name} | added | dict(point.labels),
            "values": [[_NOW - 15, f"{point.value:g}"], [_NOW - 10, f"{point.value:g}"], [_NOW, f"{point.value:g}"]],
        }
        for point in points
    ]
    return _success(result)


def _success(result: Sequence[object]) -> object:
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}
