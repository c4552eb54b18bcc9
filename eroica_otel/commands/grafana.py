"""``eroica-otel grafana push``: puts the dashboards into a Grafana."""

from __future__ import annotations

import argparse
import os
import re

from eroica_otel import assets
from eroica_otel.boards import board as boards
from eroica_otel.boards.api import Grafana
from eroica_otel.boards.push import FOLDER_TITLE, FOLDER_UID, Wish, push
from eroica_otel.commands import access
from eroica_otel.errors import ConfigError
from eroica_otel.query.client import checked_url

HELP = """\
Put the dashboards into a Grafana: data source, folder, dashboards, each found by its uid.

  pip install 'eroica-otel[grafana]'
  export GRAFANA_TOKEN=...     (a service account with the role Editor; Admin, to make the data source)
  eroica-otel grafana push --url https://grafana.example --dry-run
  eroica-otel grafana push --url https://grafana.example

A second push changes nothing, a later release updates what the last one wrote. A dashboard that was edited by hand
is left as it is, and the command ends with 3; --force overwrites it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("what", choices=["push"], help="what is to be done")
    parser.add_argument("--url", required=True, help="address of Grafana, with the path where it is served below one; "
                        "http://USER:PASSWORD@HOST asks as that user")  # fmt: skip
    access.add(parser)
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
    if re.fullmatch(r"[A-Za-z0-9_-]{1,40}", arguments.folder_uid) is None:
        raise ConfigError(f"--folder-uid {arguments.folder_uid!r} is no uid; give at most 40 letters, digits, - and _")
    if not arguments.folder.strip():
        raise ConfigError("--folder is empty; give a title")
    shipped = boards.read(assets.path("grafana") / "dashboards")
    source = arguments.data_source_url
    wish = Wish(
        folder_uid=arguments.folder_uid,
        folder_title=arguments.folder,
        source_url=checked_url(source, "--data-source-url") if source else "",
        dry_run=arguments.dry_run,
        force=arguments.force,
    )
    push(Grafana(access.access(arguments.url, arguments, os.environ)), shipped, wish, print)
    return 0
