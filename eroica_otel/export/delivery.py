"""What all deliveries have in common, and the one by OTLP: outcomes, interval, resource, provider, push thread.

The SDK hides failed deliveries (``force_flush`` returns True on a 404), so the exporter is wrapped and counts them
itself.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider, MetricsTimeoutError
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

from eroica_otel import names
from eroica_otel.model import Identity
from eroica_otel.wanted import GRPC, OTLP, otlp_protocol

DEFAULT_INTERVAL_SECONDS = 10.0
LAST_RETRY_SECONDS = 1.0
_METRICS_PATH = "/v1/metrics"
MOST_POINTS = 100_000
"""Points per instrument, also of a localizer of 200 jobs; the SDK's own limit of 2,000 cuts silently."""


class Tally:
    """Outcomes of one delivery; tells ``failed`` when deliveries begin to fail, not each time."""

    def __init__(self, name: str, failed: Callable[[str], None]) -> None:
        self._name = name
        self._failed = failed
        self._down = False
        self.counts: Counter[tuple[str, str]] = Counter({(name, "sent"): 0, (name, "failed"): 0})
        self.last_sent_ns = 0

    def sent(self, begin_ns: int) -> None:
        """Count a delivery of what stood there at ``begin_ns`` (monotonic)."""
        self.counts[self._name, "sent"] += 1
        self.last_sent_ns = begin_ns
        self._down = False

    def failed(self, why: str) -> None:
        """Count a delivery that failed."""
        self.counts[self._name, "failed"] += 1
        self.say(why)

    def say(self, why: str) -> None:
        """Tell why, unless that has been told since the latest success."""
        if not self._down:
            self._down = True
            self._failed(why)


class Delivery(Protocol):
    """One way out that pushes."""

    @property
    def tally(self) -> Tally: ...

    @property
    def reader(self) -> MetricReader: ...

    def push(self) -> None:
        """Deliver what there is now; returns when it is done or has failed."""

    def close(self) -> None:
        """Say that nothing more will come."""


class CountingExporter(MetricExporter):
    """Passes everything on to ``inner`` and counts the outcomes."""

    def __init__(self, inner: MetricExporter, tally: Tally) -> None:
        super().__init__(
            preferred_temporality=inner._preferred_temporality, preferred_aggregation=inner._preferred_aggregation
        )
        self._inner = inner
        self.tally = tally

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        begin = time.perf_counter_ns()
        why = "the endpoint refused or did not answer"
        try:
            result = self._inner.export(metrics_data, timeout_millis=timeout_millis, **kwargs)
        except (OSError, RuntimeError, ValueError) as error:
            result, why = MetricExportResult.FAILURE, str(error)
        if result is MetricExportResult.SUCCESS:
            self.tally.sent(begin)
        else:
            self.tally.failed(why)
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._inner.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._inner.shutdown(timeout_millis, **kwargs)


class OtlpDelivery:
    """Pushes by OTLP; headers, certificates, compression and time-out are the exporter's own variables."""

    def __init__(self, environment: Mapping[str, str], failed: Callable[[str], None], endpoint: str = "") -> None:
        """Make the exporter; without an ``endpoint`` that is its own variables', too.

        Raises:
            ConfigError: the protocol is unknown.
            ValueError, OSError: the exporter cannot be made.
        """
        self.tally = Tally(OTLP, failed)
        exporter = CountingExporter(_exporter(environment, endpoint), self.tally)
        # Without a thread of its own: ours also pushes at the end of a window.
        self.reader = PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf)

    def push(self) -> None:
        try:
            self.reader.collect()
        except MetricsTimeoutError as error:  # a machine so busy that 10 s do not suffice; the next try may
            self.tally.say(str(error))

    def close(self) -> None:
        """Nothing: whoever receives sees by its own clock that no more comes."""


def _exporter(environment: Mapping[str, str], endpoint: str) -> MetricExporter:
    if otlp_protocol(environment) != GRPC:
        # What is given in code is taken as it is, where a variable's path would be completed.
        base = endpoint.rstrip("/").removesuffix(_METRICS_PATH)
        return OTLPMetricExporter(base + _METRICS_PATH if endpoint else None)
    # Imported here: whoever sends by HTTP need not load gRPC's library.
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter

    return GrpcExporter(endpoint or None)


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


def provider(
    readers: list[MetricReader], of: Resource, metrics: Iterable[names.Metric] = names.OF_WORKER
) -> MeterProvider:
    """Return a MeterProvider for these series, with our buckets and a limit that cannot bite."""
    views = []
    for metric in metrics:
        arguments: dict[str, Any] = {"instrument_name": metric.instrument}
        if metric.type == names.HISTOGRAM:
            arguments["aggregation"] = ExplicitBucketHistogramAggregation(names.ITERATION_BUCKETS_SECONDS)
        if "aggregation_cardinality_limit" in inspect.signature(View).parameters:
            arguments["aggregation_cardinality_limit"] = MOST_POINTS
        views.append(View(**arguments))
    return MeterProvider(metric_readers=readers, resource=of, views=views, shutdown_on_exit=False)


class Pusher:
    """A thread that collects and pushes every interval, at once when a window is there, and closes after the last."""

    def __init__(self, push: Callable[[], None], interval: float, close: Callable[[], None] = lambda: None) -> None:
        self._push = push
        self._interval = interval
        self._close = close
        self._now = threading.Event()
        self._stopping = False
        self._done: Callable[[], bool] = lambda: True
        self._until = 0.0
        self._runner = threading.Thread(target=self._run, name="eroica-push", daemon=True)

    def start(self) -> None:
        self._runner.start()

    def push_now(self) -> None:
        self._now.set()

    def finish(self, done: Callable[[], bool] = lambda: True, until: float = 0.0) -> None:
        """Ask for the last push, which is tried again until it is ``done`` or the monotonic time is ``until``."""
        self._done, self._until = done, until
        self._stopping = True
        self._now.set()

    def join(self, timeout_seconds: float) -> None:
        """Wait for the last push, at most ``timeout_seconds``."""
        self._runner.join(timeout=timeout_seconds)

    def _run(self) -> None:
        while True:
            self._now.wait(self._interval)
            self._now.clear()
            last = self._stopping
            self._push()
            while last and not self._done() and time.monotonic() + LAST_RETRY_SECONDS < self._until:
                time.sleep(LAST_RETRY_SECONDS)
                self._push()
            if last:
                self._close()
                return
