"""All deliveries of one worker behind one object: readers, provider, push thread, counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MetricsTimeoutError
from opentelemetry.sdk.metrics.export import MetricReader

from eroica_otel import __version__
from eroica_otel.errors import ConfigError, DeliveryError
from eroica_otel.export.delivery import (
    CountingExporter,
    Pusher,
    interval_seconds,
    otlp_reader,
    prometheus_reader,
    provider,
    resource,
    wanted_deliveries,
)
from eroica_otel.model import Identity


class Outlet:
    """Opens what OTEL_METRICS_EXPORTER asks for; what cannot be opened is told to ``failed`` and left out."""

    def __init__(
        self, environment: Mapping[str, str], identity: Identity, pid: int, failed: Callable[[str, str], None]
    ) -> None:
        self._environment = environment
        self._failed = failed
        self._exporters: list[CountingExporter] = []
        self._closers: list[Callable[[], None]] = []
        self._pushed: list[MetricReader] = []
        readers = [reader for name in self._wanted() if (reader := self._reader(name, identity)) is not None]
        self._provider = provider(readers, resource(identity, pid))
        self._pusher = Pusher(self._push, interval_seconds(environment))

    def _wanted(self) -> tuple[str, ...]:
        try:
            return wanted_deliveries(self._environment)
        except ConfigError as error:
            self._failed("delivery", f"{error}; otlp is used")
            return ("otlp",)

    def _reader(self, name: str, identity: Identity) -> MetricReader | None:
        try:
            if name == "otlp":
                push, exporter = otlp_reader(lambda why: self._failed("delivery", self._undelivered(why)))
                self._exporters.append(exporter)
                self._pushed.append(push)
                return push
            reader, close, _ = prometheus_reader(self._environment, identity.local_rank)
            self._closers.append(close)
            return reader
        except (DeliveryError, ConfigError, ValueError) as error:
            self._failed("delivery", f"no delivery by {name}: {error}")
            return None

    def _undelivered(self, why: str) -> str:
        endpoint = self._environment.get(
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
            self._environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318"),
        )
        seconds = interval_seconds(self._environment)
        return f"cannot deliver to {endpoint} ({why}); the latest window is kept, trying again every {seconds:.0f} s"

    def meter(self) -> Meter:
        return self._provider.get_meter("eroica_otel", __version__)

    def start(self) -> None:
        if self._pushed:
            self._pusher.start()

    def _push(self) -> None:
        for reader in self._pushed:
            try:
                reader.collect()
            except MetricsTimeoutError as error:  # a machine so busy that 10 s do not suffice; the next try may
                self._failed("delivery", f"no delivery this time: {error}")

    def push_now(self) -> None:
        """Deliver without waiting for the interval; returns at once."""
        self._pusher.push_now()

    def counts(self) -> dict[tuple[str, str], int]:
        """Return deliveries by (delivery, outcome)."""
        total: Counter[tuple[str, str]] = Counter()
        for exporter in self._exporters:
            total.update(exporter.counts)
        return dict(total)

    def delivered_since(self, monotonic_ns: int) -> bool:
        """Whether every pushing delivery has succeeded since; True when nothing pushes."""
        return all(exporter.last_sent_ns > monotonic_ns for exporter in self._exporters)

    def stop(self, timeout_seconds: float) -> None:
        """Push a last time, close ports; waits at most ``timeout_seconds`` for the push."""
        if self._pushed:
            self._pusher.stop(timeout_seconds)
        for close in self._closers:
            close()
