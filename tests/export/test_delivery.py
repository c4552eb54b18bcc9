"""How series leave: outcomes counted against a real server, ports, variables, and an end that is bounded."""

from __future__ import annotations

import math
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MetricsTimeoutError
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from eroica_otel.demo.stage import free_port
from eroica_otel.export.board import Board
from eroica_otel.export.delivery import (
    DEFAULT_INTERVAL_SECONDS,
    CountingExporter,
    Pusher,
    Tally,
    interval_seconds,
    provider,
    resource,
)
from eroica_otel.export.instruments import create
from eroica_otel.export.outlet import Outlet
from eroica_otel.export.points import window_points
from factories_worker import Endpoint, identity, worker_window


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


class Push:
    """A counting exporter to an endpoint, with one gauge behind it."""

    def __init__(self, url: str) -> None:
        self.failures: list[str] = []
        self.tally = Tally("otlp", self.failures.append)
        self.exporter = CountingExporter(OTLPMetricExporter(endpoint=f"{url}/v1/metrics", timeout=1), self.tally)
        self.reader = PeriodicExportingMetricReader(self.exporter, export_interval_millis=math.inf)
        self.provider = provider([self.reader], resource(identity(), 1))
        self.board = Board()
        create(self.provider.get_meter("eroica_otel"), self.board)
        self.board.show(window_points(worker_window()))

    def counts(self) -> tuple[int, int]:
        return self.tally.counts["otlp", "sent"], self.tally.counts["otlp", "failed"]


def test_a_delivery_that_arrives_is_sent(endpoint: Endpoint) -> None:
    push = Push(endpoint.url)
    assert push.counts() == (0, 0)
    assert push.tally.last_sent_ns == 0
    push.reader.collect()
    assert push.counts() == (1, 0)
    assert push.tally.last_sent_ns > 0
    assert "eroica.pattern_beta_ratio" in endpoint.series()
    assert push.failures == []


def test_a_refusal_that_the_sdk_hides_is_counted_and_told_once_until_it_works_again(endpoint: Endpoint) -> None:
    push = Push(endpoint.url)
    endpoint.answer = 404
    for _ in range(3):
        push.reader.collect()
    assert push.counts() == (0, 3)
    assert len(push.failures) == 1
    endpoint.answer = 200
    push.reader.collect()
    assert push.counts() == (1, 3)
    endpoint.answer = 400
    push.reader.collect()
    assert push.counts() == (1, 4)
    assert len(push.failures) == 2


def test_nobody_there_is_counted() -> None:
    push = Push(f"http://127.0.0.1:{free_port()}")
    push.reader.collect()
    assert push.counts() == (0, 1)
    assert len(push.failures) == 1


def test_an_exporter_that_raises_is_counted_with_its_reason() -> None:
    class Broken(OTLPMetricExporter):
        def export(self, *arguments: Any, **options: Any) -> Any:
            raise OSError("could not find the certificate")

    failures: list[str] = []
    exporter = CountingExporter(Broken(), Tally("otlp", failures.append))
    exporter.export(None)  # type: ignore[arg-type]
    assert exporter.tally.counts["otlp", "failed"] == 1
    assert failures == ["could not find the certificate"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500", 0.5), ("0", 10.0), ("-1", 10.0), ("nan", 10.0), ("inf", 10.0), ("1m", 10.0), ("", 10.0)],
)
def test_the_interval_is_what_is_given_where_that_makes_sense(text: str, seconds: float) -> None:
    assert interval_seconds({"OTEL_METRIC_EXPORT_INTERVAL": text}) == seconds
    assert interval_seconds({}) == DEFAULT_INTERVAL_SECONDS


def test_the_resource_is_the_worker_and_stays_over_restarts() -> None:
    attributes = resource(identity(3), 77).attributes
    wanted = {
        "service.name": "llm-7b", "service.namespace": "vision", "service.instance.id": "rank-3",
        "host.name": "host-0", "process.pid": 77,
    }  # fmt: skip
    assert wanted.items() <= dict(attributes).items()
    assert "service.namespace" not in resource(identity(team=""), 1).attributes


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        text: str = answer.read().decode()
        return text


def test_the_push_thread_pushes_at_once_when_asked_and_once_more_at_the_end() -> None:
    pushed = threading.Semaphore(0)
    pusher = Pusher(pushed.release, 3600)
    pusher.start()
    pusher.push_now()
    assert pushed.acquire(timeout=20)
    pusher.finish()
    pusher.join(20)
    assert pushed.acquire(blocking=False)
    assert not pusher._runner.is_alive()


def test_the_push_thread_pushes_every_interval() -> None:
    pushed = threading.Semaphore(0)
    pusher = Pusher(pushed.release, 0.01)
    pusher.start()
    assert all(pushed.acquire(timeout=20) for _ in range(3))
    pusher.finish()
    pusher.join(20)


def test_a_push_that_hangs_does_not_hold_up_the_end() -> None:
    inside, release = threading.Event(), threading.Event()

    def hang() -> None:
        inside.set()
        release.wait(60)

    pusher = Pusher(hang, 3600)
    pusher.start()
    pusher.push_now()
    assert inside.wait(20)
    pusher.finish()
    pusher.join(0.05)
    assert pusher._runner.is_alive()
    release.set()


def test_the_last_push_is_tried_again_until_it_is_done_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eroica_otel.export.delivery.LAST_RETRY_SECONDS", 0.01)
    pushes: list[str] = []
    pusher = Pusher(lambda: pushes.append(""), 3600)
    pusher.start()
    pusher.finish(lambda: len(pushes) == 3, time.monotonic() + 20)
    pusher.join(20)
    assert len(pushes) == 3
    bounded = Pusher(lambda: None, 3600)
    bounded.start()
    bounded.finish(lambda: False, time.monotonic() + 0.1)
    bounded.join(20)
    assert not bounded._runner.is_alive()


class Shop:
    """An outlet with its failures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **environment: str) -> None:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)  # the exporter reads its own variables
        self.failures: list[tuple[str, str]] = []
        self.outlet = Outlet(environment, identity(local_rank=0), 1, lambda *failure: self.failures.append(failure))
        board = Board()
        create(self.outlet.meter(), board)
        board.show(window_points(worker_window()))  # with nothing to show nothing is sent


def test_an_outlet_pushes_and_serves_from_one_set_of_instruments(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    shop = Shop(
        monkeypatch, OTEL_METRICS_EXPORTER="otlp,prometheus", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint.url,
        OTEL_EXPORTER_PROMETHEUS_PORT=str(port), OTEL_EXPORTER_PROMETHEUS_HOST="127.0.0.1",
    )  # fmt: skip
    shop.outlet.start()
    assert not shop.outlet.delivered_since(0)
    assert "eroica_pattern_beta_ratio{" in get(f"http://127.0.0.1:{port}/metrics")
    shop.outlet.stop(20)
    assert shop.outlet.delivered_since(0)
    assert shop.outlet.counts() == {("otlp", "sent"): 1, ("otlp", "failed"): 0}
    assert "eroica.pattern_beta_ratio" in endpoint.series()
    assert shop.failures == []
    with pytest.raises(OSError, match="refused"):
        get(f"http://127.0.0.1:{port}/metrics")


def test_an_outlet_without_any_delivery_has_delivered_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, OTEL_METRICS_EXPORTER="none")
    shop.outlet.start()
    shop.outlet.push_now()
    assert shop.outlet.delivered_since(10**18)
    assert shop.outlet.counts() == {}
    shop.outlet.stop(1)


def test_what_cannot_be_opened_is_told_and_the_rest_goes_on(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(
        monkeypatch, OTEL_METRICS_EXPORTER="otlp,prometheus", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint.url,
        OTEL_EXPORTER_PROMETHEUS_PORT="no port",
    )  # fmt: skip
    ((stage, text),) = shop.failures
    assert stage == "delivery"
    assert text.startswith("no delivery by prometheus: OTEL_EXPORTER_PROMETHEUS_PORT='no port'")
    shop.outlet.start()
    shop.outlet.stop(20)
    assert shop.outlet.counts()["otlp", "sent"] == 1


def test_a_window_that_an_endpoint_refuses_at_first_arrives_before_the_end(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eroica_otel.export.delivery.LAST_RETRY_SECONDS", 0.05)
    shop = Shop(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint.url)
    endpoint.answer = 404
    shop.outlet.start()
    mending = threading.Timer(0.3, lambda: setattr(endpoint, "answer", 200))
    mending.start()
    shop.outlet.stop(20, unsent_ns=time.perf_counter_ns())
    assert shop.outlet.counts()["otlp", "sent"] == 1
    assert "eroica.pattern_beta_ratio" in endpoint.series()


def test_an_unknown_exporter_falls_back_to_otlp_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, OTEL_METRICS_EXPORTER="graphite")
    ((stage, text),) = shop.failures
    assert stage == "delivery"
    assert "graphite is unknown" in text
    assert text.endswith("otlp is used")
    assert set(shop.outlet.counts()) == {("otlp", "sent"), ("otlp", "failed")}


def test_an_endpoint_that_fails_is_named_with_what_happens_next(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    shop = Shop(
        monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_EXPORTER_OTLP_TIMEOUT="1",
        OTEL_METRIC_EXPORT_INTERVAL="7000",
    )  # fmt: skip
    shop.outlet._deliveries[0].push()
    ((_, text),) = shop.failures
    assert text.startswith(f"cannot deliver to {url} (")
    assert text.endswith("; the latest window is kept, trying again every 7 s")


def test_a_collect_that_times_out_is_told_and_the_push_thread_lives_on(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint.url)
    (delivery,) = shop.outlet._deliveries
    reader = delivery.reader
    tries: list[str] = []
    collect: Callable[[], None] = reader.collect

    def slow() -> None:
        tries.append("")
        if len(tries) == 1:
            raise MetricsTimeoutError("Timed out while executing callback")
        collect()

    monkeypatch.setattr(reader, "collect", slow)
    delivery.push()
    ((_, text),) = shop.failures
    assert "(Timed out while executing callback)" in text
    shop.outlet.start()
    shop.outlet.stop(20)
    assert shop.outlet.counts()["otlp", "sent"] == 1
