"""Options of the node agent, from the command line and the environment; flag > variable > default.

A value that cannot be used ends the agent before it begins, with what would be right: nobody watches it later.
"""

from __future__ import annotations

import argparse
import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from eroica_hardware.catalog import FAMILIES, USUAL
from eroica_hardware.nsys import HERTZ
from eroica_otel.config import HARDWARE_DIRECTORY, HARDWARE_VARIABLE
from eroica_otel.errors import ConfigError
from eroica_otel.identity import resource_attributes
from eroica_otel.webserver import Address, parse_address

LISTEN = "127.0.0.1:9466"
NOWHERE = "none"


def _option(flag: str, variable: str, default: str, metavar: str, text: str) -> Any:
    return field(default=default, metadata={"flag": flag, "variable": variable, "metavar": metavar, "help": text})


@dataclass(frozen=True, slots=True)
class Given:
    """The options as text, each with its flag and variable."""

    directory: str = _option(
        "--dir",
        HARDWARE_VARIABLE,
        HARDWARE_DIRECTORY,
        "DIR",
        "folder shared with workers; made where it is missing",
    )
    sources: str = _option(
        "--sources", "EROICA_HARDWARE_SOURCES", ",".join(USUAL), "LIST", f"sources to read, of {', '.join(FAMILIES)}"
    )
    skip: str = _option("--skip", "EROICA_HARDWARE_SKIP", "", "LIST", "sources not to read")
    dcgm: str = _option(
        "--dcgm", "EROICA_HARDWARE_DCGM", "", "URL", "a running dcgm-exporter to read, http://localhost:9400/metrics"
    )
    nsys_hertz: str = _option(
        "--nsys-hertz", "EROICA_HARDWARE_NSYS_HERTZ", str(HERTZ), "HERTZ", "samples per second of source nsys"
    )
    nic_mbit: str = _option(
        "--nic-mbit", "EROICA_NIC_MBIT", "0", "MBIT", "speed of the interfaces where their drivers do not tell it"
    )
    listen: str = _option(
        "--listen", "EROICA_HARDWARE_LISTEN", LISTEN, "HOST:PORT", "address of /metrics; none serves none"
    )
    tls_certificate: str = _option(
        "--tls-certificate", "EROICA_HARDWARE_TLS_CERTIFICATE", "", "FILE", "PEM certificate; serves HTTPS"
    )
    tls_key: str = _option("--tls-key", "EROICA_HARDWARE_TLS_KEY", "", "FILE", "PEM key of the certificate")
    password_file: str = _option(
        "--password-file",
        "EROICA_HARDWARE_PASSWORD_FILE",
        "",
        "FILE",
        "users of basic authentication, a line each of eroica-hardware password",
    )
    users: str = _option(
        "--users", "EROICA_HARDWARE_USERS", "", "LIST", "users who may announce a window, names or numbers; else all"
    )
    host: str = _option(
        "--host",
        "EROICA_HARDWARE_HOST",
        "",
        "NAME",
        "label host; else host.name of OTEL_RESOURCE_ATTRIBUTES or the name of this machine",
    )


OPTIONS = {item.name: item for item in fields(Given)}


@dataclass(frozen=True, slots=True)
class Options:
    """What the agent does.

    Attributes:
        folder: The shared folder.
        sources: Families that are read.
        required: Those that were asked for by name.
        dcgm: Address of a dcgm-exporter, "" for none.
        nsys_hertz: Samples per second of source nsys.
        nic_mbit: Speed of all interfaces, 0 for what they say.
        address: Where /metrics is served; None for nowhere.
        password_file: File with the users of /metrics, "" for anybody.
        users: Numbers of the users who may announce, None for all.
        host: The label.
    """

    folder: Path
    sources: tuple[str, ...]
    required: frozenset[str]
    dcgm: str
    nsys_hertz: int
    nic_mbit: float
    address: Address | None
    password_file: str
    users: frozenset[int] | None
    host: str


def configure(parser: argparse.ArgumentParser) -> None:
    """Add all options; where one is not given, its variable and then its default holds."""
    for name, option in OPTIONS.items():
        told = option.metadata
        default = f"; default: {option.default}" if option.default not in ("", "0") else ""
        text = f"{told['help']} ({told['variable']}{default})"
        parser.add_argument(told["flag"], dest=name, metavar=told["metavar"], default=None, help=text)


def resolve(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Options:
    """Return what the agent does; raises ConfigError for what it cannot do."""
    given = Given(**{name: _text(name, option, arguments, environment) for name, option in OPTIONS.items()})
    return Options(
        folder=Path(os.path.abspath(os.path.expanduser(given.directory or HARDWARE_DIRECTORY))),
        sources=_sources(given),
        required=frozenset(_words(given.sources)) if given.sources != OPTIONS["sources"].default else frozenset(),
        dcgm=_web(given.dcgm),
        nsys_hertz=_hertz(given.nsys_hertz),
        nic_mbit=_mbit(given.nic_mbit),
        address=_address(given),
        password_file=given.password_file,
        users=_users(given.users),
        host=given.host or resource_attributes(environment).get("host.name") or socket.gethostname(),
    )


def _text(name: str, option: Any, arguments: argparse.Namespace, environment: Mapping[str, str]) -> str:
    """Return the option as it was given; a variable that is empty is one that is not set."""
    flag: str | None = getattr(arguments, name, None)
    variable = environment.get(option.metadata["variable"], "").strip()
    return (variable or str(option.default)) if flag is None else flag.strip()


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _sources(given: Given) -> tuple[str, ...]:
    wanted, skipped = _words(given.sources), set(_words(given.skip))
    unknown = sorted({*wanted, *skipped} - set(FAMILIES))
    if unknown:
        raise ConfigError(f"there is no source {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    if "dcgm" in wanted and not given.dcgm:
        raise ConfigError("source dcgm needs the address of a dcgm-exporter; give --dcgm http://localhost:9400/metrics")
    if given.dcgm:
        wanted.append("dcgm")
    found = tuple(family for family in FAMILIES if family in wanted and family not in skipped)
    if not found:
        raise ConfigError("no source is left to read; name some by --sources, or give fewer to --skip")
    return found


def _web(text: str) -> str:
    if text and not text.startswith(("http://", "https://")):
        raise ConfigError(f"--dcgm {text!r} is no address; it begins with http:// or https://")
    return text


def _hertz(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 10 <= int(text) <= 200_000):
        raise ConfigError(f"--nsys-hertz {text!r} is no rate; give a whole number from 10 to 200000")
    return int(text)


def _mbit(text: str) -> float:
    try:
        value = float(text or 0)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e7:
        raise ConfigError(f"--nic-mbit {text!r} is no speed; give a number of Mbit/s up to 10000000, or 0")
    return value


def _address(given: Given) -> Address | None:
    if given.tls_key and not given.tls_certificate:
        raise ConfigError(f"--tls-key {given.tls_key} has no certificate; give --tls-certificate too")
    if given.listen == NOWHERE:
        return None
    host, port = parse_address(given.listen, "--listen")
    return Address(host, port, "--listen", given.tls_certificate, given.tls_key)


def _users(text: str) -> frozenset[int] | None:
    names: Sequence[str] = _words(text)
    return frozenset(_user(name) for name in names) if names else None


def _user(name: str) -> int:
    if name.isascii() and name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError as error:
        raise ConfigError(f"--users: there is no user {name!r} on this machine; give the number") from error
