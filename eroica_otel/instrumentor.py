"""OpenTelemetry's zero-code door: what ``opentelemetry-instrument`` loads by entry point, and nothing else imports.

The loader runs in every Python process under it, launchers and loader workers included; attaching is inert in those.
The series do not go through the provider that the loader sets up: the helper exports them, so gRPC and push threads
stay out of a process that forks, and nothing is sent twice.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from opentelemetry.instrumentation import auto_instrumentation
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.sdk.metrics.export import MetricReader, MetricsData

from eroica_otel.plugin import LOGGER, Handle, instrument

LOADER = str(Path(auto_instrumentation.__file__).parent)
STARTUP = str(Path(__file__).parent / "startup")
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
PULL = (
    "OTEL_METRICS_EXPORTER=prometheus lets opentelemetry-instrument open one and the same port in every process, and "
    "those that come second are not instrumented: set OTEL_METRICS_EXPORTER=none and EROICA_DELIVERIES=prometheus"
)


class EroicaInstrumentor(BaseInstrumentor):
    """Attaches as ``eroica_otel.instrument()`` does, and detaches."""

    _handle: Handle | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return what must be installed for this to make sense."""
        return ("torch >= 2.4",)

    def _instrument(self, **kwargs: Any) -> None:
        given = started_with()
        restore_protocol(os.environ, given)
        hand_on(os.environ, given)
        if "prometheus" in os.environ.get("OTEL_METRICS_EXPORTER", ""):
            LOGGER.warning("eroica_otel: config: %s", PULL)
        self._handle = instrument(kwargs.get("meter_provider"))

    def _uninstrument(self, **kwargs: Any) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None


def started_with() -> dict[str, str] | None:
    """Return the environment with which this process was started; None where the system does not tell."""
    try:
        text = Path("/proc/self/environ").read_bytes().decode(errors="replace")
    except OSError:
        return None
    return {name: value for name, _, value in (item.partition("=") for item in text.split("\0"))}


def restore_protocol(environment: MutableMapping[str, str], given: Mapping[str, str] | None) -> None:
    """Take away the protocol that opentelemetry-distro has set although the user has said none.

    The loader's own exporters have been made by now. The helper would take it for the user's wish and speak gRPC to an
    endpoint for HTTP; processes started from here set it again for themselves.
    """
    if given is not None and PROTOCOL not in given:
        environment.pop(PROTOCOL, None)


def hand_on(environment: MutableMapping[str, str], given: Mapping[str, str] | None) -> None:
    """Let the Python processes started from here attach too, where the loader was handed on to this one.

    Releases of the loader differ: 0.60 takes itself out of PYTHONPATH for good, 0.66 puts itself back, and a launcher's
    ranks must be watched under both.
    """
    before = (given or {}).get("PYTHONPATH", "").split(os.pathsep)
    now = environment.get("PYTHONPATH", "").split(os.pathsep)
    if LOADER in before and LOADER not in now and STARTUP not in now:
        environment["PYTHONPATH"] = os.pathsep.join([STARTUP, *filter(None, now)])


class SentByHelper(MetricReader):
    """Stands for ``remote_write`` in OTEL_METRICS_EXPORTER inside the training process, where nothing is to be sent.

    Without it the loader would find no exporter of that name and give up before it reaches us.
    """

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        """Drop what other instrumentations measure: remote write carries our series only."""

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Nothing is held."""
