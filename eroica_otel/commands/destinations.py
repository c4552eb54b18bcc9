"""Options of ``eroica-otel localize`` that say where its own series are pushed to, where nobody scrapes them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError
from eroica_otel.export.remotewrite import Target
from eroica_otel.jobsend import Destinations
from eroica_otel.jobsources import leads_to
from eroica_otel.query.client import checked_url, shown_url
from eroica_otel.wanted import REMOTE_WRITE
from eroica_otel.webserver import Address


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    where = parser.add_argument_group("where its own series are pushed to, beside /metrics")
    where.add_argument("--send-otlp", metavar="URL", default="", help="endpoint of an OTLP receiver, as a worker's "
                       "OTEL_EXPORTER_OTLP_ENDPOINT; the other OTEL_EXPORTER_OTLP_* count too")  # fmt: skip
    where.add_argument("--send-remote-write", metavar="URL", default="", help="address of remote write, for example "
                       "http://prometheus:9090/api/v1/write; EROICA_REMOTE_WRITE_* give credentials and "
                       "headers")  # fmt: skip


def destinations(arguments: argparse.Namespace, environment: Mapping[str, str], *own: Address | None) -> Destinations:
    """Return where to push to; ``own`` are the addresses of this localizer.

    Raises:
        ConfigError: an address is none, or the localizer's own.
    """
    otlp, write = (
        checked_url(url, flag, example) if url else ""
        for url, flag, example in (
            (arguments.send_otlp, "--send-otlp", "http://127.0.0.1:4318"),
            (arguments.send_remote_write, "--send-remote-write", "http://127.0.0.1:9090/api/v1/write"),
        )
    )
    for url, flag in ((otlp, "--send-otlp"), (write, "--send-remote-write")):
        for address in own:
            if url and address is not None and leads_to(url, address):
                raise ConfigError(
                    f"{flag} {shown_url(url)} is this localizer's own {address.flag}; give the address of what is to "
                    "store its series"
                )
    target = None
    if write:
        target = _target(environment, write)
    return Destinations(otlp, target, environment)


def _target(environment: Mapping[str, str], url: str) -> Target:
    config = WorkerConfig.from_env(environment, remote_write_url=url, deliveries=REMOTE_WRITE)
    for problem in config.problems:
        if problem.upper().removeprefix("EROICA_").startswith("REMOTE_WRITE"):
            raise ConfigError(problem)
    return Target.of(config)
