"""A worker's page of series for Prometheus to scrape, and the port of its own on which it is served."""

from __future__ import annotations

import errno
import inspect
from collections.abc import Callable
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics.export import MetricReader
from prometheus_client import CollectorRegistry, start_http_server

from eroica_otel.errors import DeliveryError
from eroica_otel.ports import holder, runs_module

HELPER = "eroica_otel.helper"
OTHER_PORT = "set OTEL_EXPORTER_PROMETHEUS_PORT to a free range"


def page() -> tuple[MetricReader, CollectorRegistry]:
    """Return a reader, and the registry that shows what it reads as Prometheus names it."""
    registry = CollectorRegistry()
    known = inspect.signature(PrometheusMetricReader).parameters
    plain: dict[str, Any] = {"scope_info_enabled": False} if "scope_info_enabled" in known else {}  # since 0.64b0
    return PrometheusMetricReader(disable_target_info=True, registry=registry, **plain), registry


def serve(registry: CollectorRegistry, host: str, port: int) -> Callable[[], None]:
    """Serve /metrics on ``host``:``port``; return what ends it.

    Raises:
        DeliveryError: the port is taken; names the holder where the system tells.
    """
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        why = _taken(port) if error.errno == errno.EADDRINUSE else f"{error}; {OTHER_PORT}"
        raise DeliveryError(f"port {port} on {host} (9464 + local rank by default) {why}") from error

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join(timeout=2)

    return close


def _taken(port: int) -> str:
    """Say who holds the port and what helps: beside another rank of this job the ranks' places, else another port."""
    by = holder(port)
    if runs_module(port, HELPER):
        return (
            f"is taken by another worker's helper, {by}: set LOCAL_RANK to this rank's place on the machine, or, for "
            "a second job here, OTEL_EXPORTER_PROMETHEUS_PORT to another range"
        )
    return f"is taken{f' by {by}' if by else ''}; {OTHER_PORT}"
