"""The localizer's series to an OTLP endpoint and a remote write server that answer as they are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from email.utils import formatdate

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from eroica_otel import names
from eroica_otel.errors import ConfigError
from eroica_otel.export.remotewire import STALE_BITS, value_bits
from eroica_otel.export.remotewrite import Target
from eroica_otel.jobsend import Destinations, Sender
from eroica_otel.model import Point
from factories_worker import Endpoint
from jobs import wait_until
from remote_write import WriteServer, series

JOB = {"training_job": "llm-7b", "team": "vision"}
SELDOM = {"OTEL_METRIC_EXPORT_INTERVAL": "3600000"}


def points(window_id: float = 1.0, *, finding: bool = False) -> list[Point]:
    shown = [
        Point(names.ANOMALIES.name, JOB, float(finding)),
        Point(names.LOCALIZER_WINDOW.name, JOB | {"reason": "degraded"}, window_id),
        Point(names.LOCALIZER_FAILURES.name, {"stage": "judge"}, 2.0),
    ]
    labels = dict.fromkeys(names.IMPACT.labels, "x") | JOB | {"rank": "", "host": ""}
    info = dict.fromkeys(names.FUNCTION_INFO.labels, "x") | JOB
    found = [Point(names.IMPACT.name, labels, 0.3), Point(names.FUNCTION_INFO.name, info, 1.0)]
    return [*shown, *found] if finding else shown


class Bench:
    """One sender, where it sends to, and what it said."""

    def __init__(self, stack: ExitStack, **environment: str) -> None:
        self.otlp, self.write = stack.enter_context(closing(Endpoint())), stack.enter_context(closing(WriteServer()))
        self.said: list[str] = []
        to = Destinations(self.otlp.url, Target(self.write.url), SELDOM | environment)
        self.sender = Sender(to, "box", 9465, self.said.append)
        stack.callback(self.sender.stop)

    def written(self, number: int = -1) -> dict[str, tuple[dict[str, str], int]]:
        return {labels["__name__"]: (labels, value) for labels, value, _ in series(self.write.bodies[number])}


@pytest.fixture
def bench() -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(stack)


def show(bench: Bench, given: list[Point]) -> None:
    """Show and wait until both have it."""
    before = len(bench.otlp.bodies), len(bench.write.bodies)
    bench.sender.show(given)
    wait_until(lambda: len(bench.otlp.bodies) > before[0] and len(bench.write.bodies) > before[1], "both deliveries")


def test_without_a_destination_nothing_is_made_and_no_thread_started() -> None:
    threads = threading.active_count()
    sender = Sender(Destinations(), "box", 9465, print)
    sender.show(points())
    assert (threading.active_count(), sender.counts()) == (threads, {})
    sender.stop()


def test_what_is_shown_arrives_with_names_values_and_labels_of_a_scrape() -> None:
    """The interval is short, so that nothing has to have changed for a push."""
    with ExitStack() as stack:
        bench = Bench(stack, OTEL_METRIC_EXPORT_INTERVAL="50")
        show(bench, points(finding=True))
        found = bench.written(0)
        added = {"job": "eroica-localizer", "instance": "box:9465"}
        assert found[names.ANOMALIES.name] == ({"__name__": names.ANOMALIES.name, **JOB, **added}, value_bits(1.0))
        assert found[names.LOCALIZER_FAILURES.name][1] == value_bits(2.0)
        # A label without a value is none; so it is of a scrape.
        assert {"rank", "host"}.isdisjoint(found[names.IMPACT.name][0])
        (resource,) = ExportMetricsServiceRequest.FromString(bench.otlp.bodies[0]).resource_metrics
        about = {item.key: item.value.string_value for item in resource.resource.attributes}
        assert (about["service.name"], about["service.instance.id"]) == ("eroica-localizer", "box:9465")
        sent = {metric.name for scope in resource.scope_metrics for metric in scope.metrics}
        assert sent == {names.BY_NAME[point.name].instrument for point in points(finding=True)}
        assert set(found) == {point.name for point in points(finding=True)}


def test_a_finding_is_sent_at_once_and_its_end_ends_its_series(bench: Bench) -> None:
    show(bench, points())
    assert names.IMPACT.name not in bench.written()
    show(bench, points(finding=True))
    assert bench.written()[names.IMPACT.name][1] == value_bits(0.3)
    show(bench, points())
    assert bench.written()[names.IMPACT.name][1] == STALE_BITS
    assert bench.written()[names.ANOMALIES.name][1] == value_bits(0.0)


def test_a_clock_that_is_far_from_the_servers_is_said_once(bench: Bench) -> None:
    bench.write.answer_headers = {"Date": formatdate(time.time() + 7200, usegmt=True)}
    show(bench, points())
    show(bench, points(finding=True))
    (said,) = bench.said
    assert said.startswith(f"{bench.write.url}: the clock of this machine is 2.0 h behind that of the server")


def test_counts_alone_are_no_reason_to_hurry(bench: Bench) -> None:
    show(bench, points())
    sent = len(bench.write.bodies)
    bench.sender.show([*points()[:2], Point(names.LOCALIZER_FAILURES.name, {"stage": "judge"}, 3.0)])
    show(bench, points(2.0))
    assert len(bench.write.bodies) == sent + 1


def test_at_the_end_all_series_end(bench: Bench) -> None:
    show(bench, points())
    bench.sender.stop()
    assert {value for _, value in bench.written().values()} == {STALE_BITS}
    assert bench.sender.counts() == {
        ("otlp", "sent"): 2, ("otlp", "failed"): 0, ("remote_write", "sent"): 3, ("remote_write", "failed"): 0,
    }  # fmt: skip


def test_what_refuses_is_counted_said_once_and_tried_again(bench: Bench) -> None:
    bench.write.answers = [400, 400]
    for number in range(4):
        bench.sender.show(points(number))
        wait_until(lambda: len(bench.write.bodies) > number, "a delivery")  # noqa: B023
    wait_until(lambda: bench.sender.counts()["remote_write", "sent"] == 2, "two that are taken")
    assert bench.sender.counts()["remote_write", "failed"] == 2
    (said,) = bench.said
    assert said == f"cannot send the series to {bench.write.url} (answered 400: ); trying again every 3600 s"


def test_a_protocol_that_is_not_spoken_is_refused() -> None:
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_PROTOCOL='http/json' is not spoken here"):
        Sender(Destinations("http://h", None, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}), "box", 1, print)
