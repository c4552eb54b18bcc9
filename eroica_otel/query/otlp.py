"""Body of an OTLP metrics request -> deliveries: the points of each worker in it, under their Prometheus names. Pure.

Instruments that names.py does not know are ignored: a user's own metrics may share the exporter. A data point without
the labels ``training_job`` and ``rank`` belongs to no worker and is counted as rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint, NumberDataPoint
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as OtlpMetric

from eroica_otel import names
from eroica_otel.errors import QueryError, one_line
from eroica_otel.model import Point

PROCESS_ATTRIBUTES = ("service.instance.id", "process.pid")
"""Resource attributes that tell two live processes apart."""
_NO_RECORDED_VALUE = 1
LABEL_CHARACTERS = 256
"""Longest label that is kept: twice the longest name of a function."""
_STACK_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one request says about one worker, or one look at a backend.

    Attributes:
        process: What tells this process from another with the same identity; an empty value is not known.
        points: Its data points.
        spacing_seconds: Time between two samples of the worker in the backend; 0 = its deliveries tell.
    """

    process: Mapping[str, str]
    points: tuple[Point, ...]
    spacing_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Decoded:
    """One request: a delivery for each worker in it, and how many data points belong to no worker."""

    deliveries: tuple[Delivery, ...]
    rejected: int


def parse(body: bytes, *, json: bool = False) -> ExportMetricsServiceRequest:
    """Return the request that ``body`` holds, protobuf or OTLP's JSON.

    Raises:
        QueryError: the body is neither.
    """
    request = ExportMetricsServiceRequest()
    try:
        if json:
            json_format.Parse(body, request, ignore_unknown_fields=True)
        else:
            request.ParseFromString(body)
    except (DecodeError, json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        kind = "JSON" if json else "protobuf"
        why = one_line(str(error), 200)
        raise QueryError(
            f"the body is not an OTLP metrics request in {kind}; send what an OTLP exporter makes ({why})"
        ) from error
    return request


def deliveries(request: ExportMetricsServiceRequest) -> Decoded:
    """Return the known points of each worker (training_job, team, rank, host) of the request, in its order."""
    found: dict[tuple[str, ...], tuple[dict[str, str], list[Point]]] = {}
    rejected = 0
    for resource in request.resource_metrics:
        attributes = _attributes(resource.resource.attributes)
        process = {name: attributes.get(name.replace(".", "_"), "") for name in PROCESS_ATTRIBUTES}
        for point in _points(scope.metrics for scope in resource.scope_metrics):
            if not point.labels["training_job"] or not point.labels["rank"]:
                rejected += 1
                continue
            worker = tuple(point.labels[name] for name in ("training_job", "team", "rank", "host"))
            key = (*worker, *process.values())
            found.setdefault(key, (process, []))[1].append(point)
    return Decoded(tuple(Delivery(process, tuple(points)) for process, points in found.values()), rejected)


def _points(scopes: Iterator[Sequence[OtlpMetric]]) -> Iterator[Point]:
    for metrics in scopes:
        for metric in metrics:
            known = names.BY_INSTRUMENT.get(metric.name)
            if known is not None and known.component == names.WORKER:
                yield from _translate(known, metric)


def _translate(known: names.Metric, metric: OtlpMetric) -> Iterator[Point]:
    kind = metric.WhichOneof("data")
    if kind == "histogram":
        for point in metric.histogram.data_points:
            yield from _histogram(known, point)
    elif kind in ("gauge", "sum"):
        for number in metric.gauge.data_points if kind == "gauge" else metric.sum.data_points:
            if not number.flags & _NO_RECORDED_VALUE:
                yield Point(known.name, _labels(known, number.attributes), _number(number))


def _histogram(known: names.Metric, point: HistogramDataPoint) -> Iterator[Point]:
    # Buckets are for dashboards, which read the backend; the localizer needs the mean at most.
    if not point.flags & _NO_RECORDED_VALUE:
        labels = _labels(known, point.attributes)
        yield Point(f"{known.name}_count", labels, float(point.count))
        yield Point(f"{known.name}_sum", labels, float(point.sum))


def _number(point: NumberDataPoint) -> float:
    return float(point.as_int) if point.WhichOneof("value") == "as_int" else point.as_double


def _labels(known: names.Metric, attributes: Sequence[KeyValue]) -> dict[str, str]:
    given = _attributes(attributes)
    return {name: cut(name, given.get(name, "")) for name in known.labels}


def cut(name: str, value: str) -> str:
    """Return the value of a label, at most as long as it is kept."""
    return value[: _STACK_CHARACTERS if name == "stack" else LABEL_CHARACTERS]


def _attributes(pairs: Sequence[KeyValue]) -> dict[str, str]:
    return {pair.key.replace(".", "_"): _text(pair.value) for pair in pairs}


def _text(value: AnyValue) -> str:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value[:_STACK_CHARACTERS]
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind == "int_value":
        return str(value.int_value)
    return f"{value.double_value:g}" if kind == "double_value" else ""
