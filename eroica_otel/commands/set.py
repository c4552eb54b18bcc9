"""``eroica-otel set``: gives options of the trainings on this machine another value while they run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from eroica_otel.commands.window import add_whom, nobody
from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError, EroicaError
from eroica_otel.orders import CHANGEABLE, Order, parse
from eroica_otel.status import live_workers

HELP = f"""\
Give options another value while a training runs, until it is started again:

  eroica-otel set window_seconds=10 degraded_ratio=0.1

These can change: {", ".join(CHANGEABLE)}.
It reaches the workers of this user on this machine; run it on each machine of the job. A window that is agreed on
already stays as it is."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_whom(parser)
    parser.add_argument("options", nargs="+", metavar="OPTION=VALUE", help="what is to change")


def run(arguments: argparse.Namespace) -> int:
    """Order it, and print what each worker says.

    Raises:
        ConfigError: an option or value is not usable, or nobody was found.
        EroicaError: a worker refused or did not answer.
    """
    return give(Order(options=parse(arguments.options)), arguments.dir, arguments.job)


def give(order: Order, given: str, job: str) -> int:
    """Give ``order`` to the workers of ``job`` ("" = all) under the folder ``given``; return the exit code.

    Raises:
        ConfigError: nobody was found.
        EroicaError: a worker refused or did not answer.
    """
    directory = Path(given or WorkerConfig.from_env(os.environ).directory)
    seen = live_workers(directory)
    workers = [(folder, status.identity) for folder, status in seen if job in ("", status.identity.training_job)]
    if not workers:
        raise ConfigError(nobody(directory, [status for _, status in seen]))
    for folder, _ in workers:
        order.give(folder)
    said = {f"rank {who.rank} of {who.training_job}": order.answer(folder) for folder, who in workers}
    for whom, answer in said.items():
        print(f"{whom}: {answer or 'no answer; is its process stopped or stuck?'}")
    deaf = [whom for whom, answer in said.items() if answer is None or answer.startswith("refused")]
    if deaf:
        raise EroicaError(f"not done by {', '.join(deaf)}")
    return 0
