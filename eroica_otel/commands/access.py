"""Options that say how to ask a Grafana: those of ``grafana push``, and of ``localize``, which annotates."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from eroica_otel.boards.access import Access, check
from eroica_otel.errors import ConfigError
from eroica_otel.query.client import checked_url

TOKEN = "GRAFANA_TOKEN"
URL, ANNOTATED = "--url", "--grafana"
_EXAMPLE = "http://127.0.0.1:3000"
_FILES = ("token_file", "ca", "certificate", "key")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``localize``."""
    where = parser.add_argument_group("where it draws windows and findings (annotations)")
    where.add_argument("--grafana", metavar="URL", default="", help="address of a Grafana; each judged window and each "
                       "finding becomes an annotation there, for all dashboards")  # fmt: skip
    add(where, "--grafana-")


def add(to: argparse.ArgumentParser | argparse._ArgumentGroup, stem: str = "--") -> None:
    """Add how to ask it; ``stem`` is how the options begin."""
    to.add_argument(f"{stem}token-file", metavar="FILE", default="", help=f"file with the token of a service account "
                    f"(default: the variable {TOKEN})")  # fmt: skip
    to.add_argument(f"{stem}ca", metavar="FILE", default="", help="PEM file with the authority that signed its "
                    "certificate (default: the usual authorities)")  # fmt: skip
    to.add_argument(f"{stem}certificate", metavar="FILE", default="", help="PEM certificate to show to it (mTLS)")
    to.add_argument(f"{stem}key", metavar="FILE", default="", help="PEM key of that certificate, where it is not in "
                    "the same file")  # fmt: skip


def annotated(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Access | None:
    """Return the Grafana that ``localize`` annotates; None for none.

    Raises:
        ConfigError: as ``access``, or an option is for a Grafana that is not given.
    """
    if arguments.grafana:
        return replace(access(arguments.grafana, arguments, environment, ANNOTATED), timeout_seconds=10.0)
    for name in _FILES:
        if getattr(arguments, f"grafana_{name}"):
            option = f"--grafana-{name.replace('_', '-')}"
            raise ConfigError(f"{option} says how to ask a Grafana; give --grafana URL too")
    return None


def access(url: str, arguments: argparse.Namespace, environment: Mapping[str, str], flag: str = URL) -> Access:
    """Return the Grafana at ``url``, which the option ``flag`` gave.

    Raises:
        ConfigError: an option or the token cannot be used, or grafana-client is missing.
    """
    url = checked_url(url, flag, _EXAMPLE)
    stem = "" if flag == URL else "grafana_"
    token_file, ca, certificate, key = (getattr(arguments, stem + name) for name in _FILES)
    option = Access(url, flag=flag).option("token-file")
    token = _token(token_file, option) if token_file else _checked(environment.get(TOKEN, ""), TOKEN)
    found = Access(url, token, ca, certificate, key, flag=flag)
    check(found)
    return found


def _token(file: str, option: str) -> str:
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option} {file} cannot be read: {error}; write one line with the token") from error
    if not token:
        raise ConfigError(f"{option} {file} holds no token; write one line with it")
    return _checked(token, f"{option} {file}")


def _checked(token: str, origin: str) -> str:
    token = token.strip()
    if token and not (token.isascii() and token.isprintable()):
        raise ConfigError(f"{origin} holds no token; write one line with it")
    return token
