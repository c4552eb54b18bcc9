"""Reads remote write requests, a server that answers them as it is told, and a worker that writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from eroica_otel.export import pull
from eroica_otel.export.board import Board
from eroica_otel.export.delivery import provider, resource
from eroica_otel.export.instruments import create, record
from eroica_otel.export.points import window_points
from eroica_otel.export.remotewrite import RemoteWrite, Target, job_and_instance
from eroica_otel.export.standing import standing_points
from factories_worker import FakeClock, identity, status, worker_window

Sample = tuple[dict[str, str], int, int]
"""Labels, bits of the value, milliseconds."""


def decompressed(block: bytes) -> bytes:
    """Return what a snappy block of literals holds."""
    size, at = _varint(block, 0)
    out = bytearray()
    while at < len(block):
        tag, at = block[at], at + 1
        assert tag & 3 == 0, "literals only"
        length = tag >> 2
        if length >= 60:
            extra = length - 59
            length, at = int.from_bytes(block[at : at + extra], "little"), at + extra
        out += block[at : at + length + 1]
        at += length + 1
    assert len(out) == size
    return bytes(out)


def series(body: bytes) -> list[Sample]:
    """Return the samples of a request, by the protobuf wire format."""
    found = []
    for number, one in _fields(decompressed(body)):
        assert number == 1
        labels: dict[str, str] = {}
        for field, value in _fields(one):
            if field == 1:
                pair = dict(_fields(value))
                labels[pair[1].decode()] = pair[2].decode()
            else:
                sample = dict(_fields(value))
        assert list(labels) == sorted(labels)
        found.append((labels, int.from_bytes(sample[1], "little"), int.from_bytes(sample[2], "little")))
    return found


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 2:
            length, at = _varint(data, at)
            yield key >> 3, data[at : at + length]
            at += length
        elif key & 7 == 1:
            yield key >> 3, data[at : at + 8]
            at += 8
        else:
            assert key & 7 == 0
            value, at = _varint(data, at)
            yield key >> 3, value.to_bytes(8, "little")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


class WriteServer:
    """Takes requests; answers with ``answers`` one after the other, then with 204, and with no Date of its own."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.answer_headers: dict[str, str] = {}
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.asked = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                server.headers.append(dict(self.headers))
                self._answer(server.answers.pop(0) if server.answers else 204)

            def do_HEAD(self) -> None:
                server.asked += 1
                self._answer(405)

            def _answer(self, code: int) -> None:
                self.send_response_only(code)
                for name, value in server.answer_headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/api/v1/write"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Writer:
    """A full worker behind remote write."""

    def __init__(self, url: str, team: str = "vision", wall: Any = None, **target: Any) -> None:
        who = identity(team=team)
        self.failures: list[str] = []
        self.odd: list[str] = []
        self.pauses: list[float] = []
        self.wall = wall or FakeClock(1_764_430_000.0)
        self.write = RemoteWrite(
            Target(url, **target), job_and_instance(who), self.failures.append, self.wall, self._pause, self.odd.append
        )
        self.scraped, self.registry = pull.page()
        meter = provider([self.write.reader, self.scraped], resource(who, 1)).get_meter("eroica_otel")
        self.board = Board()
        record(create(meter, self.board), who.labels(), np.array([[0.1, 0.2], [np.nan, 0.3]]))
        self.board.stand(
            standing_points(
                status(identity=who), deliveries={("remote_write", "sent"): 0}, failures={}, windows={}, dropped=0,
                missing={}, helper_cpu_seconds=1.0, device={},
            )
        )  # fmt: skip
        self.board.show(window_points(worker_window(identity=who)))

    def _pause(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return False

    def counts(self) -> tuple[int, int]:
        return self.write.tally.counts["remote_write", "sent"], self.write.tally.counts["remote_write", "failed"]
