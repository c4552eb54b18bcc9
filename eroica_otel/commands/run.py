"""``eroica-otel run -- COMMAND``: starts a training so that each of its Python processes is watched."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from eroica_otel.errors import ConfigError

HELP = """\
Watch a training without touching its code: run any command, and each Python process under it that trains is watched.

  eroica-otel run -- python train.py
  eroica-otel run -- torchrun --nproc-per-node 8 train.py

Options of EROICA_* and OTEL_* variables apply. The command takes this process' place: signals, output and exit code are
its own. Processes that do not train (launchers, loader workers) stay as they are."""

STARTUP = Path(__file__).parent.parent / "startup"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--job", metavar="NAME", default="", help="name of the training job (EROICA_TRAINING_JOB)")
    parser.add_argument("--endpoint", metavar="URL", default="", help="where series go (OTEL_EXPORTER_OTLP_ENDPOINT)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what to run")


def run(arguments: argparse.Namespace) -> int:
    """Replace this process by the command.

    Raises:
        ConfigError: there is no command, or it cannot be started.
    """
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not words:
        raise ConfigError("nothing to run: give the command after --, as in eroica-otel run -- python train.py")
    program = shutil.which(words[0])
    if program is None:
        raise ConfigError(f"{words[0]!r} cannot be started: it is not on PATH, or not executable")
    os.execve(program, words, environment(os.environ, arguments.job, arguments.endpoint))


def environment(inherited: Mapping[str, str], job: str = "", endpoint: str = "") -> dict[str, str]:
    """Return the environment in which every Python attaches eroica_otel by itself."""
    made = dict(inherited)
    made["PYTHONPATH"] = os.pathsep.join([str(STARTUP), *filter(None, [inherited.get("PYTHONPATH", "")])])
    if job:
        made["EROICA_TRAINING_JOB"] = job
    if endpoint:
        made["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
    return made
