"""A small PromQL backend for tests: holds series, answers the questions that the localizer asks, or misbehaves."""

from __future__ import annotations

import gzip
import json
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from eroica_otel.model import Point, WorkerWindow
from factories_central import collect

NOW = 5000.0
COMPACT = (",", ":")
"""As servers write JSON."""
"""The backend's clock; no other has anything to do with it."""
_MATCHER = re.compile(r'(\w+)(=~|!~|=)"((?:[^"\\]|\\.)*)"')

Rows = dict[tuple[tuple[str, str], ...], list[tuple[float, float]]]


class Samples:
    """Series with their samples, as a scrape would leave them."""

    def __init__(self) -> None:
        self.rows: Rows = {}
        self.now = NOW
        self.questions: list[str] = []

    def add(self, when: float, points: Sequence[Point], **added: str) -> None:
        """Store one scrape; ``added`` are the labels of the scrape configuration, which win over a page's."""
        for point in points:
            own = {(f"exported_{name}" if name in added else name): value for name, value in point.labels.items()}
            labels = {"__name__": point.name} | own | added
            key = tuple(sorted((name, value) for name, value in labels.items() if value))
            self.rows.setdefault(key, []).append((when, point.value))

    def scrape(
        self,
        begin: float,
        end: float,
        windows: Sequence[WorkerWindow],
        step: float = 5.0,
        state: str = "degraded",
        **added: str,
    ) -> None:
        """Store scrapes of workers that show their windows, each of its own target."""
        for number in range(math.ceil((end - begin) / step)):
            for window in windows:
                target = {"instance": f"10.0.0.{window.identity.rank}:9464", "job": "training"} | added
                self.add(begin + number * step, collect(window, state), **target)

    def answer(self, fields: Mapping[str, str]) -> bytes:
        """Answer an instant question: one selector, with a range in ms, or compared with 1."""
        question = fields["query"]
        self.questions.append(question)
        at = float(fields.get("time", self.now))
        inside = question[question.index("{") + 1 : question.rindex("}")]
        back = re.search(r"\[(\d+)ms\]$", question)
        found: list[Any] = []
        for key, samples in self.rows.items():
            if not all(_fits(dict(key).get(name, ""), sign, text) for name, sign, text in _MATCHER.findall(inside)):
                continue
            reach = int(back.group(1)) / 1000 if back else 300.0
            values: list[Any] = [[when, f"{value!r}"] for when, value in samples if at - reach <= when <= at]
            if back and values:
                found.append({"metric": dict(key), "values": values})
            elif values and ("== 1" not in question or float(str(values[-1][1])) == 1):
                found.append({"metric": dict(key), "value": [at, values[-1][1]]})
        return success(found)

    def export(self, fields: Mapping[str, str]) -> bytes:
        """Answer /api/v1/export: the samples of a selector from start to end, a line a series."""
        inside = fields["match[]"][1:-1]
        self.questions.append(fields["match[]"])
        begin, end = float(fields.get("start", 0)), float(fields.get("end", math.inf))
        lines = []
        for key, samples in self.rows.items():
            if all(_fits(dict(key).get(name, ""), sign, text) for name, sign, text in _MATCHER.findall(inside)):
                kept = [(when, value) for when, value in samples if begin <= when <= end]
                line = {"metric": dict(key), "values": [value for _, value in kept]}
                lines.append(
                    json.dumps(line | {"timestamps": [round(when * 1000) for when, _ in kept]}, separators=COMPACT)
                )
        return "\n".join(lines).encode()


def _fits(value: str, sign: str, text: str) -> bool:
    plain = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)
    return value == plain if sign == "=" else (re.fullmatch(plain, value) is not None) == (sign == "=~")


def success(result: Sequence[Any]) -> bytes:
    data = {"resultType": "matrix", "result": list(result)}
    return json.dumps({"status": "success", "data": data}, separators=COMPACT).encode()


Reply = Callable[["Request"], None]


class Request(BaseHTTPRequestHandler):
    """One question; a reply writes whatever it wants."""

    protocol_version = "HTTP/1.1"
    server: BackendServer

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        self.fields = {name: values[0] for name, values in parse_qs(self.rfile.read(length).decode()).items()}
        if self.path.endswith("/api/v1/export") and not self.server.exports:
            self.send(404, b"404 page not found")  # as Prometheus answers
            return
        self.server.requests.append((self.path, dict(self.headers.items())))
        self.server.reply(self)

    def send(self, code: int, body: bytes, **headers: str) -> None:
        packed = "gzip" in self.headers.get("Accept-Encoding", "") and code == 200
        body = gzip.compress(body, 1) if packed else body
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class BackendServer(ThreadingHTTPServer):
    """Answers from its samples until ``reply`` is replaced."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.samples = Samples()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.exports = False
        self.reply: Reply = self.good

    def good(self, request: Request) -> None:
        answer = self.samples.export if request.path.endswith("/api/v1/export") else self.samples.answer
        request.send(200, answer(request.fields))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is expected."""


@contextmanager
def backend() -> Iterator[BackendServer]:
    server = BackendServer()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
