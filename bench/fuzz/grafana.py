"""Answers of Grafana's API, one after the other as a push asks for them: pushed, or refused with a remedy."""

from __future__ import annotations

import io
import json
from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse

from bench.fuzz import trees
from bench.fuzz.check import check_error, hold
from bench.fuzz.target import Target
from eroica_otel.boards.access import Access
from eroica_otel.boards.api import Grafana
from eroica_otel.boards.board import Board
from eroica_otel.boards.push import Wish, push
from eroica_otel.errors import EroicaError

WORDS = (
    "version", "uid", "title", "type", "prometheus", "url", "name", "dashboard", "meta", "folderUid", "provisioned",
    "versions", "message", "created", "createdBy", "id", "eroica", "EROICA",
)  # fmt: skip
_BOARD = Board("one", "One", {"uid": "one", "title": "One", "panels": []})


class _Answering(BaseAdapter):
    """Stands where a Grafana would be asked: gives the next answer, the last one for ever."""

    def __init__(self, answers: list[bytes]) -> None:
        super().__init__()
        self._answers, self._asked = answers, 0

    def send(self, request: PreparedRequest, *_: Any, **__: Any) -> Response:
        answer = Response()
        answer.status_code, answer.request, answer.url = 200, request, request.url or ""
        answer.headers["Content-Type"] = "application/json"
        body = io.BytesIO(self._answers[min(self._asked, len(self._answers) - 1)])
        answer.raw = HTTPResponse(body, preload_content=False)
        self._asked += 1
        return answer

    def close(self) -> None:
        """Close nothing."""


def _grafana(answers: list[bytes]) -> Grafana:
    asked = Grafana(Access("http://localhost", "token"))
    asked._api.client.s.mount("http://", _Answering(answers))
    return asked


def target() -> Target:
    """Return the reader of Grafana's answers."""
    return Target(run, [_seed({"message": "eroica-otel 0.1.0 0"}), _seed({"message": ""})], WORDS)


def run(data: bytes) -> None:
    """Push one dashboard, which is there already, in a dry run."""
    said: list[str] = []
    try:
        push(_grafana(trees.items(data)), [_BOARD], Wish(dry_run=True), said.append)
    except EroicaError as error:
        check_error(error)
    hold(all("\n" not in line for line in said), "a line for people is several")


def _seed(version: dict[str, str]) -> bytes:
    held = {"dashboard": {"id": 1, "uid": "one", "version": 2, "title": "One"}, "meta": {"folderUid": "eroica"}}
    return json.dumps(
        [
            {"database": "ok", "version": "11.6.0"},
            [{"uid": "prom", "name": "Prometheus", "type": "prometheus", "url": "http://prom:9090"}],
            {"uid": "eroica", "title": "EROICA"},
            held,
            {"versions": [{"version": 2, "createdBy": "alice", "created": "2026-05-01T09:30:00Z", **version}]},
        ]
    ).encode()
