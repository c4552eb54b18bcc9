"""Options that the commands on trace files share, and the progress that they show; options in, load.Options out."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterable
from typing import TextIO

from eroica_otel.errors import ConfigError
from eroica_otel.offline.load import Options
from eroica_otel.summarize.readers.any import LIMIT_BYTES

_GIGABYTE = 1 << 30


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    how = parser.add_argument_group("what the traces do not tell")
    how.add_argument(
        "--rank", action="append", default=[], metavar="FILE=N",
        help="rank of a file; else what the trace says, else its name (rank0, rank-0, worker0, trace_0, trace.0); "
        "may be repeated",
    )  # fmt: skip
    how.add_argument(
        "--role", action="append", default=[], metavar="NAME=RANKS",
        help="ranks of one role, which are compared with one another: last=6,7 or pp0=0-3; may be repeated",
    )  # fmt: skip
    how.add_argument(
        "--iterations", type=_positive, default=0, metavar="N",
        help="iterations in each trace that marks none (by profiler.step() or its optimizer)",
    )  # fmt: skip
    how.add_argument("--job", default="", metavar="NAME", help="name of the training (default: that of the folder)")
    limits = parser.add_argument_group("limits")
    limits.add_argument("--top", type=_positive, default=50, metavar="N", help="functions kept of each worker (50)")
    limits.add_argument("--jobs", type=_positive, default=0, metavar="N", help="files read at a time (default: cores)")
    limits.add_argument(
        "--limit", type=_positive, default=LIMIT_BYTES // _GIGABYTE, metavar="GB",
        help="largest trace, unpacked (default: %(default)s)",
    )  # fmt: skip


def options(arguments: argparse.Namespace) -> Options:
    """Return what a person said.

    Raises:
        ConfigError: an option has another form, or contradicts another.
    """
    return Options(
        job=arguments.job,
        ranks=dict(map(_rank, arguments.rank)),
        roles=_roles(arguments.role),
        iterations=arguments.iterations,
        top=arguments.top,
        limit_bytes=arguments.limit * _GIGABYTE,
        jobs=arguments.jobs,
    )


class Progress:
    """Shows how many files are read on one line that renews itself; shows nothing where nobody looks on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = stream.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, done: int, count: int, path: str) -> None:
        """Show that ``done`` of ``count`` files are read; the line goes away after the last."""
        if not self._shown or count < 2:
            return
        width = shutil.get_terminal_size((80, 24)).columns - 1
        bar = "#" * round(20 * done / count)
        text = f"[{bar:<20}] {done} of {count} traces   {os.path.basename(path)}"[:width]
        self._stream.write(f"\r\x1b[K{text if done < count else ''}")
        self._stream.flush()


def _rank(text: str) -> tuple[str, int]:
    file, equals, number = text.rpartition("=")
    if not equals or not file or not (number.isascii() and number.isdecimal()) or len(number) > 7:
        raise ConfigError(f"--rank {text!r} is none; give FILE=N, for example worker_a.json=0")
    return file, int(number)


def _roles(texts: Iterable[str]) -> dict[int, str]:
    roles: dict[int, str] = {}
    for text in texts:
        name, equals, ranks = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"--role {text!r} is none; give NAME=RANKS, for example last=6,7")
        for rank in _numbers(ranks, text):
            if roles.setdefault(rank, name) != name:
                raise ConfigError(f"--role gives rank {rank} two roles, {roles[rank]} and {name}; give one")
    return roles


def _numbers(text: str, whole: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        ends = [end for end in (low, high if dash else low) if end.isascii() and end.isdecimal() and len(end) < 7]
        if len(ends) != 2 or int(ends[0]) > int(ends[1]):
            raise ConfigError(
                f"--role {whole!r}: {part!r} is no rank; give NAME=RANKS, for example last=6,7 or pp0=0-3"
            )
        found += range(int(ends[0]), int(ends[1]) + 1)
    return found


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)
