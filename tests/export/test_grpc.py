"""OTLP by gRPC, against a real gRPC server: arrival, refusal, nobody there, TLS, and the SDK's own variables."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as service
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from eroica_otel.demo.stage import free_port
from eroica_otel.export.board import Board
from eroica_otel.export.instruments import create
from eroica_otel.export.outlet import Outlet
from eroica_otel.export.points import window_points
from factories_worker import identity, worker_window


class Receiver(service.MetricsServiceServicer):
    """Keeps requests and their metadata; refuses while ``refuse``."""

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.refuse = False
        self.requests: list[ExportMetricsServiceRequest] = []
        self.metadata: list[dict[str, str]] = []
        self.server = grpc.server(ThreadPoolExecutor(2))
        service.add_MetricsServiceServicer_to_server(self, self.server)  # type: ignore[no-untyped-call]
        if credentials is None:
            self.port = self.server.add_insecure_port("127.0.0.1:0")
        else:
            self.port = self.server.add_secure_port("localhost:0", credentials)
        self.server.start()

    def Export(
        self, request: ExportMetricsServiceRequest, context: grpc.ServicerContext
    ) -> ExportMetricsServiceResponse:
        if self.refuse:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not this")
        self.requests.append(request)
        self.metadata.append({key: str(value) for key, value in context.invocation_metadata()})
        return ExportMetricsServiceResponse()

    def series(self) -> set[str]:
        return {m.name for r in self.requests[-1].resource_metrics for s in r.scope_metrics for m in s.metrics}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.stop(None).wait()


class Shop:
    """An outlet that speaks gRPC."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
        for name in [name for name in os.environ if name.startswith("OTEL_")]:
            monkeypatch.delenv(name)
        environment = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TIMEOUT": "2", **more}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        self.failures: list[str] = []
        self.outlet = Outlet(environment, identity(), 1, lambda stage, text: self.failures.append(text))
        board = Board()
        create(self.outlet.meter(), board)
        board.show(window_points(worker_window()))

    def push(self) -> tuple[int, int]:
        (delivery,) = self.outlet._deliveries
        delivery.push()
        counts = self.outlet.counts()
        return counts["otlp", "sent"], counts["otlp", "failed"]


def test_a_delivery_arrives_with_the_headers_of_the_standard_variable(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = f"http://127.0.0.1:{receiver.port}"
    shop = Shop(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_EXPORTER_OTLP_HEADERS="x-tenant=vision")
    assert shop.push() == (1, 0)
    assert "eroica.pattern_beta_ratio" in receiver.series()
    assert receiver.metadata[-1]["x-tenant"] == "vision"
    assert shop.failures == []


def test_an_endpoint_without_a_scheme_is_plain_where_insecure_says_so(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = f"127.0.0.1:{receiver.port}"
    shop = Shop(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_EXPORTER_OTLP_INSECURE="true")
    assert shop.push() == (1, 0)


def test_a_refusal_is_counted_and_told_once(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{receiver.port}")
    receiver.refuse = True
    assert shop.push() == (0, 1)
    assert shop.push() == (0, 2)
    receiver.refuse = False
    assert shop.push() == (1, 2)
    assert len(shop.failures) == 1


def test_nobody_there_is_counted_with_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    shop = Shop(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
    assert shop.push() == (0, 1)
    assert shop.failures[0].startswith(f"cannot deliver to {endpoint} (")


def test_without_an_endpoint_it_is_port_4317(monkeypatch: pytest.MonkeyPatch) -> None:
    (delivery,) = Shop(monkeypatch).outlet._deliveries
    exporter = delivery.reader._exporter  # type: ignore[attr-defined]
    assert exporter._inner._endpoint == "localhost:4317"


def test_a_protocol_that_is_unknown_is_told_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, OTEL_EXPORTER_OTLP_PROTOCOL="http/json")
    assert "no delivery by otlp: OTEL_EXPORTER_OTLP_PROTOCOL='http/json'" in shop.failures[0]
    assert "give http/protobuf or grpc" in shop.failures[0]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Return certificate and key of localhost."""
    key, pem = tmp_path / "key.pem", tmp_path / "cert.pem"
    command: list[str | Path] = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", pem, "-days", "2", "-subj",
        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return pem, key


def test_tls_takes_the_certificate_of_the_standard_variable(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, key = (path.read_bytes() for path in certificate)
    receiver = Receiver(grpc.ssl_server_credentials([(key, pem)]))
    endpoint = f"https://localhost:{receiver.port}"
    trusting = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(certificate[0])}
    assert Shop(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, **trusting).push() == (1, 0)
    assert Shop(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint).push() == (0, 1)
    receiver.server.stop(None).wait()
