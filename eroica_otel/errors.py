"""The package's own errors: raised early, with the value that was wrong and what to do about it."""

from __future__ import annotations


class EroicaError(Exception):
    """Base of every error that eroica_otel raises on purpose; commands print it as one line."""

    exit_code = 3


class ConfigError(EroicaError):
    """A variable, argument or file holds a value that cannot be used."""

    exit_code = 2


class CaptureError(EroicaError):
    """A window could not be profiled on this worker."""


class TraceError(EroicaError):
    """A trace or sample file cannot be read."""


class DeliveryError(EroicaError):
    """Series cannot leave this process (a port is taken, an endpoint refuses)."""


class QueryError(EroicaError):
    """Series cannot be read back from where they were sent."""
