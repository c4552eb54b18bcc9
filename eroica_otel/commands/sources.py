"""Options that say where measurements come from: what ``localize`` listens on, what it and ``query`` read."""

from __future__ import annotations

import argparse
import re
import sys
from urllib.parse import urlsplit

from eroica_otel.errors import ConfigError
from eroica_otel.jobsources import check_backend
from eroica_otel.query.client import Backend, checked_url
from eroica_otel.query.credentials import APIS
from eroica_otel.query.promql import checked_matchers
from eroica_otel.webserver import Address, is_loopback, parse_address

LISTEN = "127.0.0.1:4318"
_INTERVALS = (0.5, 600.0)
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)[ \t]*")
_OURS = ("authorization", "host", "connection", "content-length", "content-type", "accept-encoding")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``localize``."""
    what = parser.add_argument_group("what it reads, where the series are in a Prometheus already")
    what.add_argument("--prometheus", metavar="URL", default="", help="read a Prometheus, or what speaks its API "
                      "(VictoriaMetrics, Mimir, Thanos), instead of receiving; both with --listen. The address is what "
                      "comes before /api/v1, for example http://127.0.0.1:9090")  # fmt: skip
    what.add_argument("--prometheus-interval", metavar="SECONDS", default="", help="time between two looks (default: "
                      "5)")  # fmt: skip
    reading(what)
    files = parser.add_argument_group("what it reads, where workers' windows are written into files")
    files.add_argument("--files", metavar="DIR", default="", help="read the pattern files of this folder (JSON Lines "
                       "that end in .jsonl, as eroica-otel query --json writes them), also those that come and grow "
                       "later, instead of receiving; with --listen both")  # fmt: skip


def reading(what: argparse._ArgumentGroup) -> None:
    """Add the options of whoever reads a Prometheus."""
    what.add_argument("--match", metavar="MATCHERS", default="", help="only jobs that these label matchers "
                      "fit, for example 'training_job=~\"llm-.*\",team=\"vision\"'")  # fmt: skip
    what.add_argument("--prometheus-api", choices=APIS, default="", metavar="API", help="auto, prometheus or "
                      "victoriametrics: how windows are read; the stream of VictoriaMetrics is several times faster "
                      "(default: auto, which asks whether it is there)")  # fmt: skip
    what.add_argument("--prometheus-timeout", metavar="SECONDS", default="", help="longest time for one question "
                      "(default: 30)")  # fmt: skip
    what.add_argument("--prometheus-token-file", metavar="FILE", default="", help="file with the bearer token to send, "
                      "read anew each time")  # fmt: skip
    what.add_argument("--prometheus-password-file", metavar="FILE", default="", help="file with the password of the "
                      "user in the address, http://USER@HOST, read anew each time")  # fmt: skip
    what.add_argument("--prometheus-ca", metavar="FILE", default="", help="PEM file of the authority that signed its "
                      "certificate")  # fmt: skip
    what.add_argument("--prometheus-certificate", metavar="FILE", default="", help="PEM certificate to show to it "
                      "(mTLS)")  # fmt: skip
    what.add_argument("--prometheus-key", metavar="FILE", default="", help="PEM key of that certificate, where it is "
                      "not in the same file")  # fmt: skip
    what.add_argument("--prometheus-header", metavar="'NAME: VALUE'", action="append", default=[], help="a further "
                      "header to send, for example 'X-Scope-OrgID: team'; can be repeated")  # fmt: skip


def listen(arguments: argparse.Namespace, certificate: str, key: str, token: str) -> Address | None:
    """Return the address of the receiver; None where only a Prometheus or files are read.

    Raises:
        ConfigError: the address has another form.
    """
    if not arguments.listen and (arguments.prometheus or arguments.files):
        return None
    return Address(*parse_address(arguments.listen or LISTEN, "--listen"), "--listen", certificate, key, token)


def backend(arguments: argparse.Namespace, *own: Address | None) -> Backend | None:
    """Return the Prometheus that is to be read; None without one. ``own`` are the addresses of this localizer.

    Raises:
        ConfigError: an option cannot be used, or contradicts another.
    """
    if not arguments.prometheus:
        nothing_without(arguments)
        return None
    made = reader(arguments)
    check_backend(made, *(address for address in own if address is not None))
    return made


def reader(arguments: argparse.Namespace) -> Backend:
    """Return the Prometheus that --prometheus names.

    Raises:
        ConfigError: an option cannot be used, or contradicts another.
    """
    url = checked_url(arguments.prometheus, "--prometheus")
    _contradictions(arguments, url)
    made = Backend(
        url,
        token_file=arguments.prometheus_token_file,
        ca=arguments.prometheus_ca,
        headers=tuple(_header(text) for text in arguments.prometheus_header),
        match=checked_matchers(arguments.match, "--match"),
        interval_seconds=_seconds(getattr(arguments, "prometheus_interval", ""), "--prometheus-interval", 5),
        timeout_seconds=_seconds(arguments.prometheus_timeout, "--prometheus-timeout", 30),
        password_file=arguments.prometheus_password_file,
        certificate=arguments.prometheus_certificate,
        key=arguments.prometheus_key,
        api=arguments.prometheus_api or APIS[0],
    )
    _warn(made)
    return made


def _contradictions(arguments: argparse.Namespace, url: str) -> None:
    for name in ("ca", "certificate", "key"):
        file = getattr(arguments, f"prometheus_{name}")
        if file and url.startswith("http:"):
            raise ConfigError(f"--prometheus-{name} {file} is for https://, but --prometheus is http://")
    if arguments.prometheus_key and not arguments.prometheus_certificate:
        raise ConfigError("--prometheus-key is for a certificate; give --prometheus-certificate too")
    user = urlsplit(url).username
    if arguments.prometheus_password_file and not user:
        raise ConfigError("--prometheus-password-file needs a user; give --prometheus http://USER@HOST:PORT")
    if arguments.prometheus_token_file and user:
        raise ConfigError("--prometheus-token-file and the user in --prometheus cannot both be sent; leave one out")


def nothing_without(arguments: argparse.Namespace) -> None:
    """Refuse options that say how to read a Prometheus where none is given.

    Raises:
        ConfigError: there is one.
    """
    given = {name: getattr(arguments, name) for name in vars(arguments) if name.startswith("prometheus_")}
    for name, value in (given | {"match": arguments.match}).items():
        if value:
            raise ConfigError(f"--{name.replace('_', '-')} says how to read a Prometheus; give --prometheus URL too")


def _header(text: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(text)
    if found is None:
        raise ConfigError(f"--prometheus-header {text!r} is none; give NAME: VALUE, for example 'X-Scope-OrgID: team'")
    name, value = found.groups()
    if name.lower() in _OURS:
        remedy = "give --prometheus-token-file" if name.lower() == "authorization" else "leave it out"
        raise ConfigError(f"--prometheus-header {name} is set already; {remedy}")
    return name, value


def _seconds(text: str, flag: str, default: float) -> float:
    try:
        value = float(text or default)
    except ValueError:
        value = 0.0
    if not _INTERVALS[0] <= value <= _INTERVALS[1]:
        low, high = _INTERVALS
        raise ConfigError(f"{flag} {text!r}: give {low:g} to {high:g} seconds")
    return value


def _warn(made: Backend) -> None:
    host = urlsplit(made.url).hostname or ""
    secret = made.token_file or made.password_file or "@" in made.url
    if secret and made.url.startswith("http:") and not is_loopback(host):
        print(f"the credentials for {host} travel unencrypted; https:// protects them", file=sys.stderr, flush=True)
