"""``eroica-otel disable``: takes the plugin off the trainings on this machine while they run."""

from __future__ import annotations

import argparse

from eroica_otel.commands.set import give
from eroica_otel.commands.window import add_whom
from eroica_otel.orders import Order

HELP = """\
Take the plugin off a training while it runs, as the kill switch EROICA_DISABLED=1 would have done: hooks off, threads
and helper ended, series gone. It stays off until the training calls eroica_otel.instrument() or starts again.

It reaches the workers of this user on this machine; run it on each machine of the job. A window that runs is ended
first."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_whom(parser)


def run(arguments: argparse.Namespace) -> int:
    """Order it, and print what each worker says.

    Raises:
        ConfigError: nobody was found.
        EroicaError: a worker did not answer.
    """
    return give(Order(disable=True), arguments.dir, arguments.job)
