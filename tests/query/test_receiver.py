from __future__ import annotations

import gzip
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from eroica_otel.errors import ConfigError, DeliveryError, QueryError
from eroica_otel.model import Point
from eroica_otel.query import receiver as module
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.receiver import OUTCOMES, Receiver
from eroica_otel.webserver import Address, Handler
from factories_central import LOOPBACK, collect, export, identity, request, send, status_points, window


class Inbox(list[Delivery]):
    """Deliveries as they come; those of rank 13 are refused."""

    def take(self, delivery: Delivery) -> None:
        if delivery.points[0].labels["rank"] == "13":
            raise QueryError("rank 13 is unlucky")
        self.append(delivery)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def receiver(inbox: Inbox) -> Iterator[Receiver]:
    server = Receiver(LOOPBACK, inbox.take, threads=4)
    server.start("receiver")
    yield server
    server.stop()


def outcomes(server: Receiver) -> dict[str, int]:
    return {outcome: count for outcome, count in server.requests().items() if count}


BODY = request(status_points(identity())).SerializeToString()


def test_a_real_exporter_delivers_every_point(receiver: Receiver, inbox: Inbox) -> None:
    points = collect(window(slow=True))
    assert export(points, receiver.url)
    assert inbox[0].process["process.pid"] == "17"
    assert {_row(point) for point in inbox[0].points} == {_row(point) for point in points}


def _row(point: Point) -> tuple[str, frozenset[tuple[str, str]], float]:
    return point.name, frozenset(point.labels.items()), point.value


@pytest.mark.parametrize("zipped", [False, True])
def test_protobuf_is_accepted_plain_and_gzip(receiver: Receiver, inbox: Inbox, zipped: bool) -> None:
    headers = {"Content-Encoding": "gzip" if zipped else "identity"}
    status, answer = send(receiver.url, gzip.compress(BODY) if zipped else BODY, headers)
    assert (status, ExportMetricsServiceResponse.FromString(answer)) == (200, ExportMetricsServiceResponse())
    assert len(inbox) == 1
    assert outcomes(receiver) == {"accepted": 1}


def test_json_is_accepted(receiver: Receiver, inbox: Inbox) -> None:
    body = json_format.MessageToJson(request(status_points(identity()))).encode()
    assert send(receiver.url, body, {"Content-Type": "application/json; charset=utf-8"}) == (200, b"{}")
    assert len(inbox) == 1


def test_points_that_are_refused_are_told_to_the_sender(receiver: Receiver, inbox: Inbox) -> None:
    unlucky, fine = status_points(identity(13)), status_points(identity(1))
    status, answer = send(receiver.url, request(unlucky + fine).SerializeToString())
    partial = ExportMetricsServiceResponse.FromString(answer).partial_success
    assert status == 200
    assert partial.rejected_data_points == len(unlucky)
    assert "unlucky" in partial.error_message
    assert len(inbox) == 1
    assert receiver.rejected_points == len(unlucky)


def test_a_request_of_which_nothing_is_taken_is_a_bad_request(receiver: Receiver, inbox: Inbox) -> None:
    status, answer = send(receiver.url, request(status_points(identity(13))).SerializeToString())
    assert status == 400
    assert b"unlucky" in answer
    assert inbox == []
    assert outcomes(receiver) == {"malformed": 1}


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b"\xff\xff\xff\xff", {}, 400),
        (b"{", {"Content-Type": "application/json"}, 400),
        (b"not gzip", {"Content-Encoding": "gzip"}, 400),
        (gzip.compress(BODY)[:-9], {"Content-Encoding": "gzip"}, 400),
        (gzip.compress(BODY) + b"more", {"Content-Encoding": "gzip"}, 400),
        (BODY, {"Content-Type": "text/plain"}, 415),
        (BODY, {"Content-Type": ""}, 415),
        (BODY, {"Content-Encoding": "br"}, 415),
        (b"\0" * (module.BODY_BYTES + 1), {}, 413),
        (gzip.compress(b"\0" * (module.PLAIN_BYTES + 1)), {"Content-Encoding": "gzip"}, 413),
    ],
    ids=["protobuf", "json", "gzip", "cut", "tail", "type", "no type", "encoding", "oversized", "bomb"],
)
def test_bad_requests_are_answered_and_counted(
    receiver: Receiver, inbox: Inbox, body: bytes, headers: dict[str, str], code: int
) -> None:
    status, answer = send(receiver.url, body, headers)
    assert status == code
    assert len(answer) > 10
    assert outcomes(receiver) == {OUTCOMES[code]: 1}
    assert send(receiver.url, BODY)[0] == 200
    assert len(inbox) == 1


def test_an_error_is_a_status_message(receiver: Receiver) -> None:
    _, answer = send(receiver.url, b"{", {"Content-Type": "application/json"})
    assert "not an OTLP metrics request in JSON" in json.loads(answer)["message"]
    _, answer = send(receiver.url, b"\xff")
    assert answer[:1] == b"\x12"
    assert answer[1] == len(answer) - 2


def raw(server: Receiver, text: bytes, *, close: bool = False) -> bytes:
    """Send bytes as they are and return everything that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(text)
        if close:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        return received


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("GET /v1/metrics", 405),
        ("PUT /v1/metrics", 405),
        ("GET /", 404),
        ("POST /v1/traces", 404),
        ("POST /v1/metrics", 411),
    ],
)
def test_other_paths_methods_and_no_length(receiver: Receiver, line: str, code: int) -> None:
    answer = raw(receiver, f"{line} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {code} ".encode())
    assert outcomes(receiver) == {OUTCOMES[code]: 1}


_START = b"POST /v1/metrics HTTP/1.1\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nabc"


def test_a_body_that_ends_early_is_malformed(receiver: Receiver) -> None:
    assert raw(receiver, _START, close=True).startswith(b"HTTP/1.1 400 ")


def test_a_body_that_never_comes_ends_at_the_deadline(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "read_seconds", 0.2)
    assert raw(receiver, _START).startswith(b"HTTP/1.1 408 ")


def test_a_request_that_never_ends_frees_its_thread(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "read_seconds", 0.2)
    idle = [socket.create_connection(("127.0.0.1", receiver.port)) for _ in range(8)]
    assert send(receiver.url, BODY)[0] == 200
    for connection in idle:
        connection.close()


def test_when_all_threads_are_busy_the_client_is_told_to_come_back(inbox: Inbox) -> None:
    release = threading.Event()

    def take(delivery: Delivery) -> None:
        release.wait(20)
        inbox.append(delivery)

    server = Receiver(LOOPBACK, take, threads=1)
    server._wait = 0.05
    server.start("receiver")
    first = threading.Thread(target=send, args=(server.url, BODY))
    first.start()
    while server._slots._value:
        time.sleep(0.01)
    assert raw(server, b"").startswith(b"HTTP/1.1 503 ")
    release.set()
    first.join()
    server.stop()
    assert (len(inbox), outcomes(server)) == (1, {"accepted": 1, "busy": 1})


def test_only_loopback_without_protection() -> None:
    for host in ("0.0.0.0", "::", ""):
        with pytest.raises(ConfigError, match="--tls-certificate"):
            Receiver(Address(host, 0, "--listen"), print)
        with pytest.raises(ConfigError, match="--tls-certificate"):
            Receiver(Address(host, 0, "--listen", token="secret"), print)


def test_a_token_is_asked_for(inbox: Inbox) -> None:
    server = Receiver(replace(LOOPBACK, token="secret"), inbox.take)
    server.start("receiver")
    assert send(server.url, BODY)[0] == 401
    assert send(server.url, BODY, {"Authorization": "Bearer wrong"})[0] == 401
    assert send(server.url, BODY, {"Authorization": "Bearer secret"})[0] == 200
    server.stop()
    assert outcomes(server) == {"accepted": 1, "unauthorized": 2}
    assert "secret" not in repr(server.address)


def test_tls_and_token_open_it_to_the_network(tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    create = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names_ = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*create, *names_, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server = Receiver(Address("0.0.0.0", 0, "--listen", certificate, key, "secret"), inbox.take)
    server.start("receiver")
    url = f"https://127.0.0.1:{server.port}"
    export(collect(window()), url, certificate_file=certificate, headers={"authorization": "Bearer secret"})
    assert raw(server, b"GET / HTTP/1.1\r\n\r\n") == b""
    server.stop()
    assert inbox


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="PEM"):
        Receiver(replace(LOOPBACK, certificate=str(tmp_path / "none.pem")), print)


def test_a_taken_port_names_its_holder_and_the_option(receiver: Receiver) -> None:
    with pytest.raises(DeliveryError, match=rf"port {receiver.port} .* taken by .*pid .*--listen"):
        Receiver(Address("127.0.0.1", receiver.port, "--listen"), print)


def test_many_workers_at_once(receiver: Receiver, inbox: Inbox) -> None:
    senders = [threading.Thread(target=send, args=(receiver.url, BODY)) for _ in range(40)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert len(inbox) == 40
