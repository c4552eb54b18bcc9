"""``eroica-otel patterns``: one worker's trace in, the table of its patterns out."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from eroica_otel.commands import offline_options
from eroica_otel.commands.report import show
from eroica_otel.errors import ConfigError
from eroica_otel.offline.load import load
from eroica_otel.offline.redacted import redacted
from eroica_otel.publish.report import patterns
from eroica_otel.uncharged import uncharged

HELP = "show where the time of one worker goes: its trace as a table of patterns"

_EPILOG = """\
beta is the share of the window in which the function was on the critical path; mu and sigma are mean and deviation of
the use of its resource meanwhile (a trace alone does not tell them, a capture folder does). EROICA_REDACT holds here
as for a worker.

exit codes: 0 shown, 2 wrong usage, 3 failure
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to ``parser``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Show where the time of one worker goes, function by function."
    parser.epilog = _EPILOG
    parser.add_argument("file", type=Path, metavar="FILE", help="trace of one worker, or a folder that holds one")
    offline_options.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table.

    Raises:
        ConfigError: an option cannot be used, or FILE is not the trace of one worker.
        TraceError: the trace cannot be read.
    """
    loaded = load([arguments.file], offline_options.options(arguments), told=offline_options.Progress(sys.stderr))
    if len(loaded.windows) > 1:
        some = ", ".join(member.path for member in list(loaded.members.values())[:3])
        raise ConfigError(
            f"{arguments.file} holds the traces of {len(loaded.windows)} workers; give one of them ({some}), or "
            f"compare them by eroica-otel analyze {arguments.file}"
        )
    config = offline_options.worker_config()
    shown = redacted(loaded, config, os.environ, arguments.job, offline_options.say)
    width = shutil.get_terminal_size((100, 24)).columns
    notes = [*shown.notes, *uncharged(shown.windows), *(f"left out: {one.text}" for one in shown.problems)]
    show(patterns.render(shown.windows[0], width, notes))
    return 0
