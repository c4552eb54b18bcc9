"""Deliveries over OTLP, protobuf or JSON: known windows within bounds, or a QueryError that can be sent back."""

from __future__ import annotations

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from bench.fuzz.check import check_error, hold
from bench.fuzz.target import Target
from bench.fuzz.windows import points_of, window
from eroica_otel import names
from eroica_otel.errors import QueryError
from eroica_otel.model import REASONS, Point, WorkerWindow
from eroica_otel.query import journal, otlp
from eroica_otel.query.decode import PATTERNS_MOST, WINDOW_MOST, WORKERS_MOST
from eroica_otel.query.store import Store

WORDS = (
    "resourceMetrics", "scopeMetrics", "metrics", "gauge", "sum", "histogram", "dataPoints", "asDouble", "asInt",
    "flags", "attributes", "key", "value", "stringValue", "boolValue", "intValue", "doubleValue", "resource",
    "training_job", "rank", "host", "team", "role", "function_id", "function", "kind", "reason", "state", "group",
    "service.instance.id", *(metric.instrument for metric in names.ALL if metric.component == names.WORKER), *REASONS,
)  # fmt: skip


def target() -> Target:
    """Return the decoder of OTLP deliveries."""
    messages = [request(points_of(window(reason))) for reason in ("degraded", "blocked", "reference")]
    texts = [json_format.MessageToJson(message, indent=None).encode() for message in messages]
    return Target(run, [*texts, *(message.SerializeToString() for message in messages)], WORDS)


def run(data: bytes) -> None:
    """Take a request in as the receiver does."""
    try:
        decoded = otlp.deliveries(otlp.parse(data, json=data[:1] in b"{[ \n"))
    except QueryError as error:
        check_error(error)
        return
    take(decoded.deliveries)


def take(deliveries: tuple[otlp.Delivery, ...]) -> None:
    """Hand deliveries to the store, twice as senders repeat them; check every window that comes out."""
    store = Store()
    for now, delivery in enumerate([*deliveries, *deliveries]):
        try:
            found = store.add(delivery, float(now))
        except QueryError as error:
            check_error(error)
            continue
        if found is not None:
            check(found)
    store.jobs()


def check(found: WorkerWindow) -> None:
    """Check the bounds of a window, and that the journal gives it back."""
    hold(0 <= found.window_id <= WINDOW_MOST, "a window id out of bounds")
    hold(0 <= found.identity.rank < WORKERS_MOST, "a rank out of bounds")
    hold(len(found.patterns) <= PATTERNS_MOST, "too many patterns")
    hold(found.reason in REASONS, "an unknown reason")
    hold(journal._decoder.decode(journal._encoder.encode(found)) is not None, "the journal loses it")


def request(points: list[Point]) -> ExportMetricsServiceRequest:
    """Return points as an SDK would send them."""
    message = ExportMetricsServiceRequest()
    group = message.resource_metrics.add()
    group.resource.attributes.add(key="process.pid").value.int_value = 17
    scope = group.scope_metrics.add()
    for point in points:
        known = names.BY_NAME[point.name]
        metric = scope.metrics.add(name=known.instrument)
        data = (metric.sum if known.type == names.COUNTER else metric.gauge).data_points.add(as_double=point.value)
        for key, value in point.labels.items():
            data.attributes.add(key=key).value.string_value = value
    return message
