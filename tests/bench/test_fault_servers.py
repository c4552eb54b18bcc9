"""The servers of the fault board's samples: what they send, and to whom they are slow."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from faultboard import board

SERVERS = board("servers")


@pytest.fixture(params=["samples", "objects"])
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = SERVERS.Server(request.param, "127.0.0.1")
    yield made
    made.close()


def asked(server: Any, rank: int, size: int) -> int:
    """Ask for so many bytes; return how many come."""
    scheme, _, address = server.url.partition("://")
    host, port = address.split(":")
    if scheme == "http":
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        connection.request("GET", f"/{rank}/{size}")
        return len(connection.getresponse().read())
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(json.dumps([rank, size]).encode() + b"\n")
        line.shutdown(socket.SHUT_WR)
        return sum(len(part) for part in iter(lambda: line.recv(1 << 16), b""))


def test_an_answer_has_the_size_that_was_asked_for(server: Any) -> None:
    assert asked(server, 0, 100_000) == 100_000
    assert asked(server, 3, 1) == 1


def test_only_the_ranks_that_are_named_wait(server: Any) -> None:
    slept: list[float] = []
    server.throttle = SERVERS.Throttle(slept.append)
    server.throttle.slow({1, 2}, delay_seconds=0.5)
    for rank in range(4):
        assert asked(server, rank, 10) == 10
    assert slept == [0.5, 0.5]
    server.throttle.fair()
    asked(server, 1, 10)
    assert slept == [0.5, 0.5]


def test_a_throttle_takes_time_for_each_byte() -> None:
    slept: list[float] = []
    throttle = SERVERS.Throttle(slept.append)
    throttle.slow([1], delay_seconds=0.1, bytes_per_second=1000.0)
    throttle.wait(1, 500)
    assert slept == [pytest.approx(0.6)]


def test_a_rank_may_wait_for_each_third_answer_alone() -> None:
    slept: list[float] = []
    throttle = SERVERS.Throttle(slept.append)
    throttle.slow([1], delay_seconds=0.1, every=3)
    for _ in range(7):
        throttle.wait(1, 1)
    assert len(slept) == 2
