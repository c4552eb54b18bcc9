"""``eroica-otel grafana push``: puts the dashboards into a Grafana."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from eroica_otel import assets
from eroica_otel.boards import board as boards
from eroica_otel.boards.api import Access, Grafana
from eroica_otel.boards.push import FOLDER_TITLE, FOLDER_UID, Wish, push
from eroica_otel.errors import ConfigError
from eroica_otel.query.client import checked_url

HELP = """\
Put the dashboards into a Grafana: data source, folder, dashboards, each found by its uid.

  export GRAFANA_TOKEN=...     (a service account with the role Editor; Admin, to make the data source)
  eroica-otel grafana push --url https://grafana.example --dry-run
  eroica-otel grafana push --url https://grafana.example

A second push changes nothing, a later release updates what the last one wrote. A dashboard that was edited by hand
is left as it is, and the command ends with 3; --force overwrites it."""

TOKEN = "GRAFANA_TOKEN"
_EXAMPLE = "http://127.0.0.1:3000"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("what", choices=["push"], help="what is to be done")
    parser.add_argument("--url", required=True, help="address of Grafana, with the path where it is served below one; "
                        "http://USER:PASSWORD@HOST asks as that user")  # fmt: skip
    parser.add_argument("--token-file", metavar="FILE", default="", help=f"file with the token of a service account "
                        f"(default: the variable {TOKEN})")  # fmt: skip
    parser.add_argument("--ca", metavar="FILE", default="", help="PEM file with the authority that signed its "
                        "certificate (default: the usual authorities)")  # fmt: skip
    parser.add_argument("--folder", metavar="TITLE", default=FOLDER_TITLE, help="title of the folder, where it "
                        "has to be made (default: %(default)s)")  # fmt: skip
    parser.add_argument("--folder-uid", metavar="UID", default=FOLDER_UID, help="folder for new dashboards "
                        "(default: %(default)s)")  # fmt: skip
    parser.add_argument("--data-source-url", metavar="URL", default="", help="make a data source for the Prometheus "
                        "that Grafana reaches at this address (default: use those there are)")  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="write nothing; show what would be written, as a diff")
    parser.add_argument("--force", action="store_true", help="overwrite dashboards that were edited by hand too")


def run(arguments: argparse.Namespace) -> int:
    """Push and say what was done.

    Raises:
        ConfigError: an option cannot be used, or Grafana lacks what the dashboards need.
        DeliveryError: Grafana cannot be asked or refuses, or a dashboard was left as it is.
    """
    shipped = boards.read(assets.path("grafana") / "dashboards")
    source = arguments.data_source_url
    wish = Wish(
        folder_uid=arguments.folder_uid,
        folder_title=arguments.folder,
        source_url=checked_url(source, "--data-source-url") if source else "",
        dry_run=arguments.dry_run,
        force=arguments.force,
    )
    push(Grafana(_access(arguments, os.environ)), shipped, wish, print)
    return 0


def _access(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Access:
    url = checked_url(arguments.url, "--url", _EXAMPLE)
    token = _token(arguments.token_file) if arguments.token_file else environment.get(TOKEN, "").strip()
    if not token and not urlsplit(url).username:
        raise ConfigError(f"no token: set {TOKEN} or give --token-file, with the token of a service account")
    return Access(url, token, arguments.ca)


def _token(file: str) -> str:
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file {file} cannot be read: {error}; write one line with the token") from error
    if not token.isprintable() or not token:
        raise ConfigError(f"--token-file {file} holds no token; write one line with it")
    return token
