"""How series leave the helper: pushed by OTLP, scraped by Prometheus, or through both. One set of instruments for all.

The SDK hides failed deliveries (``force_flush`` returns True on a 404), so the exporter is wrapped and counts them
itself.
"""

from __future__ import annotations

import errno
import inspect
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, start_http_server

from eroica_otel import names
from eroica_otel.errors import ConfigError, DeliveryError
from eroica_otel.model import Identity
from eroica_otel.ports import holder, runs_module

DEFAULT_INTERVAL_SECONDS = 10.0
_OTHER_PORT = "set OTEL_EXPORTER_PROMETHEUS_PORT to a free range"
MOST_POINTS = 5000
"""Points per instrument; the SDK's own limit of 2,000 cuts silently."""


class CountingExporter(MetricExporter):
    """Passes everything on to ``inner``, counts the outcomes and tells ``failed`` when deliveries begin to fail."""

    def __init__(self, inner: MetricExporter, name: str, failed: Callable[[str], None]) -> None:
        super().__init__(
            preferred_temporality=inner._preferred_temporality, preferred_aggregation=inner._preferred_aggregation
        )
        self._inner = inner
        self._name = name
        self._failed = failed
        self._down = False
        self.counts: Counter[tuple[str, str]] = Counter({(name, "sent"): 0, (name, "failed"): 0})
        self.last_sent_ns = 0

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        begin = time.perf_counter_ns()
        try:
            result = self._inner.export(metrics_data, timeout_millis=timeout_millis, **kwargs)
        except (OSError, RuntimeError, ValueError) as error:
            result = MetricExportResult.FAILURE
            self._report(str(error))
        if result is MetricExportResult.SUCCESS:
            self.counts[self._name, "sent"] += 1
            self.last_sent_ns = begin
            self._down = False
        else:
            self.counts[self._name, "failed"] += 1
            self._report("the endpoint refused or did not answer")
        return result

    def _report(self, why: str) -> None:
        if not self._down:
            self._down = True
            self._failed(why)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._inner.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._inner.shutdown(timeout_millis, **kwargs)


def wanted_deliveries(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what OTEL_METRICS_EXPORTER asks for: otlp (default), prometheus, both or none.

    Raises:
        ConfigError: it names something else.
    """
    text = environment.get("OTEL_METRICS_EXPORTER", "otlp")
    wanted = tuple(part.strip() for part in text.split(",") if part.strip() not in ("", "none"))
    unknown = [part for part in wanted if part not in ("otlp", "prometheus")]
    if unknown:
        raise ConfigError(
            f"OTEL_METRICS_EXPORTER={text!r}: {unknown[0]} is unknown; give otlp, prometheus, both or none"
        )
    return wanted


def interval_seconds(environment: Mapping[str, str]) -> float:
    """Return OTEL_METRIC_EXPORT_INTERVAL (milliseconds) in seconds; 10 s where it is unset or no positive number."""
    try:
        value = float(environment.get("OTEL_METRIC_EXPORT_INTERVAL", "")) / 1000
    except ValueError:
        return DEFAULT_INTERVAL_SECONDS
    return value if 0 < value < math.inf else DEFAULT_INTERVAL_SECONDS


def resource(identity: Identity, pid: int) -> Resource:
    """Return the OpenTelemetry resource of a worker; a stable instance id, else every restart makes new series."""
    attributes: dict[str, str | int] = {
        "service.name": identity.training_job,
        "service.instance.id": f"rank-{identity.rank}",
        "host.name": identity.host,
        "process.pid": pid,
    }
    if identity.team:
        attributes["service.namespace"] = identity.team
    return Resource.create(attributes)


def provider(readers: list[MetricReader], of: Resource) -> MeterProvider:
    """Return a MeterProvider with our buckets and a cardinality limit that cannot bite."""
    views = []
    for metric in names.ALL:
        if metric.component == names.WORKER:
            arguments: dict[str, Any] = {"instrument_name": metric.instrument}
            if metric.type == names.HISTOGRAM:
                arguments["aggregation"] = ExplicitBucketHistogramAggregation(names.ITERATION_BUCKETS_SECONDS)
            if "aggregation_cardinality_limit" in inspect.signature(View).parameters:
                arguments["aggregation_cardinality_limit"] = MOST_POINTS
            views.append(View(**arguments))
    return MeterProvider(metric_readers=readers, resource=of, views=views, shutdown_on_exit=False)


def otlp_reader(failed: Callable[[str], None]) -> tuple[PeriodicExportingMetricReader, CountingExporter]:
    """Return a reader that pushes when ``collect`` is called (no thread of its own), and its counting exporter.

    Endpoint, headers, certificates, compression and time-out are the exporter's own OTEL_EXPORTER_OTLP_* variables.
    """
    exporter = CountingExporter(OTLPMetricExporter(), "otlp", failed)
    return PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf), exporter


def prometheus_reader(environment: Mapping[str, str], local_rank: int) -> tuple[MetricReader, Callable[[], None], str]:
    """Serve /metrics on OTEL_EXPORTER_PROMETHEUS_PORT (9464) + local rank; return reader, closer and address.

    Raises:
        ConfigError: the port is no number.
        DeliveryError: the port is taken; names the holder where the system tells.
    """
    text = environment.get("OTEL_EXPORTER_PROMETHEUS_PORT", "9464")
    if not text.isdigit() or not 0 < int(text) + local_rank < 65536:
        raise ConfigError(f"OTEL_EXPORTER_PROMETHEUS_PORT={text!r} is not usable: give a port from 1 to 65535")
    host, port = environment.get("OTEL_EXPORTER_PROMETHEUS_HOST", "localhost"), int(text) + local_rank
    registry = CollectorRegistry()
    known = inspect.signature(PrometheusMetricReader).parameters
    wanted: dict[str, Any] = {"disable_target_info": True, "scope_info_enabled": False, "registry": registry}
    reader = PrometheusMetricReader(**{name: value for name, value in wanted.items() if name in known})
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        why = _taken(port) if error.errno == errno.EADDRINUSE else f"{error}; {_OTHER_PORT}"
        raise DeliveryError(f"port {port} on {host} (9464 + local rank by default) {why}") from error

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join(timeout=2)

    return reader, close, f"http://{host}:{port}/metrics"


def _taken(port: int) -> str:
    """Say who holds the port and what helps: beside another rank of this job the ranks' places, else another port."""
    by = holder(port)
    if runs_module(port, "eroica_otel.helper"):
        return (
            f"is taken by another worker's helper, {by}: set LOCAL_RANK to this rank's place on the machine, or, for "
            "a second job here, OTEL_EXPORTER_PROMETHEUS_PORT to another range"
        )
    return f"is taken{f' by {by}' if by else ''}; {_OTHER_PORT}"


class Pusher:
    """A thread that collects and pushes every interval, and at once when a window is there."""

    def __init__(self, push: Callable[[], None], interval: float) -> None:
        self._push = push
        self._interval = interval
        self._now = threading.Event()
        self._stopping = False
        self._runner = threading.Thread(target=self._run, name="eroica-push", daemon=True)

    def start(self) -> None:
        self._runner.start()

    def push_now(self) -> None:
        self._now.set()

    def stop(self, timeout_seconds: float) -> None:
        """Push once more and end; waits at most ``timeout_seconds``."""
        self._stopping = True
        self._now.set()
        self._runner.join(timeout=timeout_seconds)

    def _run(self) -> None:
        while True:
            self._now.wait(self._interval)
            self._now.clear()
            last = self._stopping
            self._push()
            if last:
                return
