"""Answers of a PromQL API, one after the other as a look asks for them: deliveries, or a failure that is told."""

from __future__ import annotations

import json
from collections.abc import Mapping

from bench.fuzz import trees
from bench.fuzz.check import check_error, hold
from bench.fuzz.otlp import WORDS, take
from bench.fuzz.target import Target
from bench.fuzz.windows import points_of, window
from eroica_otel import names
from eroica_otel.errors import QueryError
from eroica_otel.model import Point
from eroica_otel.query.client import Backend, Client
from eroica_otel.query.look import Asker
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.prometheus import PrometheusSource

_QUESTIONS = (names.ITERATIONS, names.WORKER_INFO, names.WORLD_SIZE, names.WORKER_STATE, names.WINDOW_ID)
_NOW = 1_764_430_020.0
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
WORDS = (*_OWN, *WORDS, "exported_rank", "exported_training_job", "instance", "replica", "isPartial")


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
    return Target(run, [_seed(reason) for reason in ("degraded", "blocked")], WORDS)


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
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}
