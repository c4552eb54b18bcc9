"""Which deliveries of series the standard OTEL_* variables and our options ask for, and what in them contradicts. Pure.

The trainer says it in its greeting, the helper opens it; both must read the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from eroica_otel.errors import ConfigError

OTLP, PROMETHEUS, REMOTE_WRITE = "otlp", "prometheus", "remote_write"
DELIVERIES = (OTLP, PROMETHEUS, REMOTE_WRITE)
GRPC, HTTP = "grpc", "http/protobuf"
DEFAULT_PORT = 9464


class Options(Protocol):
    """The part of config.WorkerConfig that is about deliveries."""

    @property
    def deliveries(self) -> str: ...
    @property
    def pull(self) -> str: ...
    @property
    def own_provider(self) -> bool: ...
    @property
    def remote_write_url(self) -> str: ...
    @property
    def remote_write_headers(self) -> str: ...
    @property
    def remote_write_user(self) -> str: ...
    @property
    def remote_write_password_file(self) -> str: ...
    @property
    def remote_write_token_file(self) -> str: ...


def _asked(environment: Mapping[str, str], chosen: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the variable that decides, its text, and its items; ``none`` is no item."""
    name, text = (
        ("EROICA_DELIVERIES", chosen)
        if chosen.strip()
        else ("OTEL_METRICS_EXPORTER", environment.get("OTEL_METRICS_EXPORTER", OTLP))
    )
    items = (part.strip() for part in text.split(","))
    return name, text, tuple(dict.fromkeys(item for item in items if item not in ("", "none")))


def wanted(environment: Mapping[str, str], chosen: str = "") -> tuple[str, ...]:
    """Return the deliveries asked for; otlp where only unknown ones are, so that a typing error costs no series.

    Args:
        environment: OTEL_METRICS_EXPORTER counts (default: otlp) ...
        chosen: ... unless this says something: the option ``deliveries``.
    """
    asked = _asked(environment, chosen)[2]
    known = tuple(item for item in asked if item in DELIVERIES)
    return known or ((OTLP,) if asked else ())


def unknown(environment: Mapping[str, str], chosen: str = "") -> str:
    """Say which delivery asked for does not exist and what is done instead; "" where all do."""
    name, text, asked = _asked(environment, chosen)
    odd = [item for item in asked if item not in DELIVERIES]
    if not odd:
        return ""
    used = ", ".join(wanted(environment, chosen))
    return (
        f"{name}={text!r}: {odd[0]} is unknown; give otlp, prometheus, remote_write, several of them with commas, "
        f"or none; {used} is used"
    )


def contradictions(environment: Mapping[str, str], options: Options) -> Iterator[str]:
    """Say what has been set and has no effect, each with its remedy."""
    asked = wanted(environment, options.deliveries)
    if asked and environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        yield "OTEL_SDK_DISABLED=true lets no series out: unset it, or set EROICA_DISABLED=1 to have nothing watched"
    if options.pull == "node" and PROMETHEUS not in asked:
        yield f"EROICA_PULL=node has no effect without pull: add prometheus to OTEL_METRICS_EXPORTER{_is(asked)}"
    if REMOTE_WRITE in asked and not options.remote_write_url:
        yield "remote_write is asked for and has no address: set EROICA_REMOTE_WRITE_URL; nothing is written"
    if options.remote_write_url and REMOTE_WRITE not in asked:
        yield f"EROICA_REMOTE_WRITE_URL has no effect: add remote_write to OTEL_METRICS_EXPORTER{_is(asked)}"
    if options.remote_write_headers and REMOTE_WRITE not in asked and not options.remote_write_url:
        yield f"EROICA_REMOTE_WRITE_HEADERS has no effect: add remote_write to OTEL_METRICS_EXPORTER{_is(asked)}"
    if options.remote_write_token_file and options.remote_write_user:
        yield ("EROICA_REMOTE_WRITE_TOKEN_FILE and EROICA_REMOTE_WRITE_USER are both set: unset one; the token is used")
    if bool(options.remote_write_user) != bool(options.remote_write_password_file):
        yield "EROICA_REMOTE_WRITE_USER and EROICA_REMOTE_WRITE_PASSWORD_FILE belong together: set both or none"


def _is(asked: tuple[str, ...]) -> str:
    return f" (it asks for {', '.join(asked) or 'none'})"


def otlp_protocol(environment: Mapping[str, str]) -> str:
    """Return GRPC or HTTP, the default.

    Raises:
        ConfigError: the variable says something else.
    """
    for name in ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        text = environment.get(name, "").strip()
        if text in (GRPC, HTTP):
            return text
        if text:
            raise ConfigError(f"{name}={text!r} is not spoken here: give http/protobuf or grpc")
    return HTTP


def otlp_endpoint(environment: Mapping[str, str]) -> str:
    """Return the endpoint that the OTLP exporter uses for metrics."""
    for name in ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        if environment.get(name, "").strip():
            return environment[name]
    try:
        return "http://localhost:4317" if otlp_protocol(environment) == GRPC else "http://localhost:4318"
    except ConfigError:
        return "http://localhost:4318"


def prometheus_address(environment: Mapping[str, str], offset: int) -> tuple[str, int]:
    """Return host and port of pull: OTEL_EXPORTER_PROMETHEUS_HOST (localhost) and _PORT (9464) + ``offset``.

    Raises:
        ConfigError: the port is no number, or none with ``offset``.
    """
    text = environment.get("OTEL_EXPORTER_PROMETHEUS_PORT", str(DEFAULT_PORT))
    if not (text.isascii() and text.isdigit()) or not int(text) > 0 or int(text) + offset >= 65536:
        raise ConfigError(f"OTEL_EXPORTER_PROMETHEUS_PORT={text!r} is not usable: give a port from 1 to 65535")
    return environment.get("OTEL_EXPORTER_PROMETHEUS_HOST", "localhost"), int(text) + offset


def described(environment: Mapping[str, str], options: Options, local_rank: int) -> str:
    """Say where series go: "series to http://..., series on port 9464"."""
    if options.own_provider:
        return "series on the meter provider that was given"
    said = []
    for name in wanted(environment, options.deliveries):
        if name == PROMETHEUS:
            said.append(_pull(environment, options.pull, local_rank))
        elif name == OTLP:
            said.append(f"series to {otlp_endpoint(environment)}")
        elif options.remote_write_url:
            said.append(f"series written to {options.remote_write_url}")
    return ", ".join(said) or "series go nowhere (OTEL_METRICS_EXPORTER)"


def _pull(environment: Mapping[str, str], pull: str, local_rank: int) -> str:
    offset = 0 if pull == "node" else local_rank
    try:
        port = prometheus_address(environment, offset)[1]
    except ConfigError:
        return "no series on any port"
    return f"series on port {port} ({'of all ranks of the node' if pull == 'node' else 'each rank has its own'})"
