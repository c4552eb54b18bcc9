"""The agent's endpoint: who sees what, over HTTP and HTTPS, and how often the series are made."""

from __future__ import annotations

import base64
import gzip
import hashlib
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from eroica_hardware.passwords import Doorkeeper, Hashed
from eroica_hardware.serve import MetricsServer
from eroica_otel.webserver import Address
from factories_hardware import Turned


class Counting(Collector):
    """One series: how often it was asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def collect(self) -> Iterator[Metric]:
        self.asked += 1
        family = Metric("asked", "How often.", "gauge")
        family.add_sample("asked", {}, self.asked)
        yield family


class Scene:
    """An endpoint, and what it answers."""

    def __init__(self, address: Address, users: dict[str, Hashed] | None = None) -> None:
        self.collector, self.clock, self.healthy = Counting(), Turned(), True
        keeper = Doorkeeper(users or {}, self.clock)
        self.server = MetricsServer(address, self.collector, keeper, lambda: self.healthy, self.clock)
        self.server.start("metrics")
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        request = urllib.request.Request(
            self.server.url + path, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        try:
            with urllib.request.urlopen(request, timeout=10, context=self.context) as answer:
                body = answer.read()
                packed = answer.headers.get("Content-Encoding") == "gzip"
                return answer.status, (gzip.decompress(body) if packed else body).decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene(Address("127.0.0.1", 0, "--listen"))
    yield made
    made.server.stop()


def test_series_are_made_at_most_once_a_second(scene: Scene) -> None:
    for _ in range(5):
        assert "asked 1.0" in scene.get("/metrics")[1]
    scene.clock.now += 1
    assert "asked 2.0" in scene.get("/metrics", Accept_Encoding="gzip")[1]
    scene.clock.now -= 500
    assert "asked 3.0" in scene.get("/metrics")[1]


def test_each_form_is_what_was_asked_for(scene: Scene) -> None:
    assert "# EOF" in scene.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")[1]
    assert "# EOF" not in scene.get("/metrics")[1]


def test_health(scene: Scene) -> None:
    assert scene.get("/-/healthy") == (200, "healthy\n")
    scene.healthy = False
    assert scene.get("/-/healthy")[0] == 503


def test_what_there_is(scene: Scene) -> None:
    assert scene.get("/")[0] == 404


def test_basic_authentication_guards_all_but_health() -> None:
    digest = hashlib.scrypt(b"right", salt=b"salt", n=2, r=1, p=1, dklen=32)
    scene = Scene(Address("127.0.0.1", 0, "--listen"), {"prom": Hashed(2, 1, 1, b"salt", digest)})
    try:
        assert scene.get("/metrics")[0] == 401
        assert scene.get("/")[0] == 401
        assert scene.get("/-/healthy")[0] == 200
        right, wrong = (base64.b64encode(f"prom:{word}".encode()).decode() for word in ("right", "wrong"))
        assert scene.get("/metrics", Authorization=f"Basic {wrong}")[0] == 401
        scene.clock.now += 2
        assert scene.get("/metrics", Authorization=f"Basic {right}")[0] == 200
    finally:
        scene.server.stop()


def test_https(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    scene = Scene(Address("127.0.0.1", 0, "--listen", str(certificate), str(key)))
    try:
        assert scene.server.url.startswith("https://")
        assert scene.get("/metrics")[0] == 200
        with pytest.raises(OSError, match=r".*"):
            urllib.request.urlopen(scene.server.url.replace("https", "http") + "/metrics", timeout=10)
    finally:
        scene.server.stop()
