"""``eroica-otel window``: asks the trainings of this user on this machine for one window now."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError
from eroica_otel.status import REQUEST_FILE, Status, live_workers

HELP = """\
Ask a running training for a window now: all its workers profile the same iterations once, and the localizer judges
them.

Run it as the same user on any machine of the job. The request reaches all ranks through the job's own store."""

CANNOT: Mapping[str, str] = MappingProxyType(
    {
        "learning": "its iteration is not known yet, ask again in some seconds",
        "unmatched": "its loop is not recognised, so no window can begin; call eroica_otel.step() after each update",
        "finished": "it has ended",
    }
)
"""States in which no window can begin, with what to do."""
STANDING_STILL = "it stands still, the window begins when it goes on"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_whom(parser)


def add_whom(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which workers are meant."""
    parser.add_argument("--job", metavar="NAME", default="", help="only this training job (default: every one here)")
    parser.add_argument(
        "--dir",
        metavar="DIR",
        default="",
        help="folder of the workers' files (default: EROICA_DIR, else the usual one)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Leave a request with one worker of each job.

    Raises:
        ConfigError: no worker runs here, none of that job, or none that could take a window.
    """
    directory = Path(arguments.dir or WorkerConfig.from_env(os.environ).directory)
    for asked in request(directory, arguments.job):
        who = asked.identity
        begins = STANDING_STILL if asked.state in ("blocked", "paused") else "it begins within some seconds"
        print(f"asked rank {who.rank} of {who.training_job} for a window; {begins} and is judged when all delivered")
    return 0


def request(directory: Path, job: str = "") -> list[Status]:
    """Leave the request with one worker of each job; return those that were asked.

    Raises:
        ConfigError: nobody was found, or nobody whose loop is recognised.
    """
    asked: dict[tuple[str, str], Status] = {}
    refused: list[str] = []
    seen = live_workers(directory)
    for folder, status in seen:
        name = status.identity.training_job
        if job not in ("", name):
            continue
        if status.state in CANNOT:
            refused.append(f"rank {status.identity.rank} of {name} is {status.state}: {CANNOT[status.state]}")
        elif (status.identity.team, name) not in asked:
            (folder / REQUEST_FILE).touch(mode=0o600)
            asked[status.identity.team, name] = status
    if asked:
        return list(asked.values())
    if refused:
        raise ConfigError(refused[0])
    raise ConfigError(nobody(directory, [status for _, status in seen]))


def nobody(directory: Path, seen: Iterable[Status]) -> str:
    """Say that no worker is meant, which jobs run, and what to do."""
    running = sorted({status.identity.training_job for status in seen})
    here = f"running here: {', '.join(running)}" if running else "no training that eroica_otel watches runs here"
    return (
        f"nobody to ask under {directory}: {here}; run this as the training's user on one of its machines, "
        "or give --dir or --job"
    )
