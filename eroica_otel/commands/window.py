"""``eroica-otel window``: asks the trainings of this user on this machine for one window now."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError
from eroica_otel.status import REQUEST_FILE, live_workers

HELP = """\
Ask a running training for a window now: all its workers profile the same iterations once, and the localizer judges
them.

Run it as the same user on any machine of the job. The request reaches all ranks through the job's own store."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
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
        ConfigError: no worker runs here, or none of that job.
    """
    directory = Path(arguments.dir or WorkerConfig.from_env(os.environ).directory)
    asked = request(directory, arguments.job)
    for job, rank in asked.items():
        print(
            f"asked rank {rank} of {job} for a window; it begins within some seconds and is judged when all delivered"
        )
    return 0


def request(directory: Path, job: str = "") -> dict[str, int]:
    """Leave the request; return job -> rank that was asked.

    Raises:
        ConfigError: no worker was found.
    """
    asked: dict[str, int] = {}
    seen = live_workers(directory)
    for folder, status in seen:
        name = status.identity.training_job
        if name not in asked and job in ("", name) and status.state != "finished":
            (folder / REQUEST_FILE).touch(mode=0o600)
            asked[name] = status.identity.rank
    if not asked:
        running = sorted({status.identity.training_job for _, status in seen})
        here = f"running here: {', '.join(running)}" if running else "no training that eroica_otel watches runs here"
        raise ConfigError(
            f"nobody to ask under {directory}: {here}; run this as the training's user on one of its machines, "
            "or give --dir or --job"
        )
    return asked
