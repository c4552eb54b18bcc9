"""The package's own errors: raised early, with the value that was wrong and what to do about it."""

from __future__ import annotations

from collections.abc import Callable


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


class HardwareError(EroicaError):
    """What the node agent and the workers share (a ring, a socket, their folder) cannot be used."""


def one_line(text: str, most: int = 300) -> str:
    """Return what came from outside as a short line without control characters, fit to stand in a message."""
    return "".join(sign if sign.isprintable() else " " for sign in " ".join(text.split()))[:most]


Guard = Callable[[str, Callable[[], None]], None]
"""Runs a function of ours as the stage of that name: what it raises is counted, never let out."""


def unguarded(stage: str, call: Callable[[], None]) -> None:
    """Stand where no guard is given: what ``call`` raises is the caller's."""
    call()
