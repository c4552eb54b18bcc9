from __future__ import annotations

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from eroica_otel import names
from eroica_otel.errors import QueryError
from eroica_otel.model import Point
from eroica_otel.query.otlp import deliveries, parse
from factories_central import collect, identity, request, status_points, window


def test_points_come_back_under_their_prometheus_names() -> None:
    points = collect(window(slow=True))
    decoded = deliveries(request(points, {"process.pid": "17"}))
    (delivery,) = decoded.deliveries
    assert decoded.rejected == 0
    assert delivery.process["process.pid"] == "17"
    order = {point.name: index for index, point in reversed(list(enumerate(points)))}
    assert list(delivery.points) == sorted(points, key=lambda point: order[point.name])


def test_json_and_protobuf_say_the_same() -> None:
    message = request(collect(window()))
    assert (
        parse(json_format.MessageToJson(message).encode(), json=True) == parse(message.SerializeToString()) == message
    )


def test_one_request_may_carry_several_workers() -> None:
    points = [point for rank in range(3) for point in status_points(identity(rank))]
    decoded = deliveries(request(points))
    assert [delivery.points[0].labels["rank"] for delivery in decoded.deliveries] == ["0", "1", "2"]


def test_foreign_instruments_are_ignored_and_points_of_nobody_are_counted() -> None:
    message = request(status_points(identity()))
    foreign = message.resource_metrics[0].scope_metrics[0].metrics.add(name="http.server.duration")
    foreign.gauge.data_points.add(as_double=1.0)
    own = message.resource_metrics[0].scope_metrics[0].metrics.add(name=names.ITERATION_LAST.instrument)
    own.gauge.data_points.add(as_double=1.0).attributes.add(key="otel.metric.overflow").value.bool_value = True
    decoded = deliveries(message)
    assert decoded.rejected == 1
    assert len(decoded.deliveries[0].points) == len(status_points(identity()))


def test_series_of_the_localizer_are_not_taken_from_workers() -> None:
    message = ExportMetricsServiceRequest()
    scope = message.resource_metrics.add().scope_metrics.add()
    scope.metrics.add(name=names.ANOMALIES.instrument).gauge.data_points.add(as_double=9.0)
    assert deliveries(message).deliveries == ()


def test_histograms_give_count_and_sum_and_a_gap_gives_nothing() -> None:
    message = ExportMetricsServiceRequest()
    scope = message.resource_metrics.add().scope_metrics.add()
    period = scope.metrics.add(name=names.ITERATION_PERIOD.instrument).histogram.data_points.add(count=4, sum=0.8)
    gap = scope.metrics.add(name=names.WORLD_SIZE.instrument).gauge.data_points.add(flags=1)
    for point in (period, gap):
        for key, value in identity().labels().items():
            point.attributes.add(key=key).value.string_value = value
    (delivery,) = deliveries(message).deliveries
    base = names.ITERATION_PERIOD.name
    assert {point.name: point.value for point in delivery.points} == {f"{base}_count": 4.0, f"{base}_sum": 0.8}


def test_whole_numbers_and_other_attribute_types_are_read() -> None:
    message = ExportMetricsServiceRequest()
    metric = message.resource_metrics.add().scope_metrics.add().metrics.add(name=names.WORLD_SIZE.instrument)
    point = metric.gauge.data_points.add(as_int=8)
    point.attributes.add(key="training_job").value.string_value = "job"
    point.attributes.add(key="rank").value.int_value = 3
    (delivery,) = deliveries(message).deliveries
    assert delivery.points[0].value == 8.0
    assert delivery.points[0].labels == identity(3, training_job="job", host="", team="", role="").labels()


@pytest.mark.parametrize(
    ("body", "as_json"),
    [
        (b"\xff\xff\xff", False),
        (b"{", True),
        (b"[" * 100_000, True),
        (b"\xff\xfe", True),
        (b'{"resourceMetrics": 3}', True),
    ],
)
def test_what_is_no_request_is_refused(body: bytes, as_json: bool) -> None:
    with pytest.raises(QueryError, match="not an OTLP metrics request"):
        parse(body, json=as_json)


def test_a_refusal_is_one_short_line() -> None:
    body = (
        b'{"resourceMetrics": [{"resource": {"attributes": [{"key": "'
        + b"k\\n" * 5000
        + b'", "value": {"x": 1}}]}}, 1]}'
    )
    with pytest.raises(QueryError, match="send what an OTLP exporter makes") as refused:
        parse(body, json=True)
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


def test_labels_have_a_longest() -> None:
    who = identity(training_job="j" * 10_000, host="h" * 10_000)
    info = Point(
        names.FUNCTION_INFO.name, who.labels() | {"function_id": "a", "family": "f", "stack": "s" * 10_000}, 1.0
    )
    (delivery,) = deliveries(request([info])).deliveries
    labels = delivery.points[0].labels
    assert (len(labels["training_job"]), len(labels["host"]), len(labels["stack"])) == (256, 256, 4096)
