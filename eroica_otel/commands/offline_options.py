"""Options that the commands on trace files share, and the progress that they show; options in, load.Options out."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from typing import TextIO

from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError
from eroica_otel.offline.load import Options
from eroica_otel.publish.report.words import visible
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
        "--limit", type=_positive, default=0, metavar="GB",
        help="largest trace, unpacked, however little memory is free "
        f"(default: {LIMIT_BYTES // _GIGABYTE}, and what fits into free memory)",
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
        limit_bytes=arguments.limit * _GIGABYTE or LIMIT_BYTES,
        guarded=not arguments.limit,
        jobs=arguments.jobs,
    )


def worker_config() -> WorkerConfig:
    """Return the options of a worker, of which those of the redaction count here; what is wrong with one is said."""
    config = WorkerConfig.from_env(os.environ)
    for wrong in config.problems:
        if "EROICA_REDACT" in wrong:
            say(wrong)
    return config


def say(text: str) -> None:
    """Print a line on standard error."""
    print(f"eroica-otel: {visible(text)}", file=sys.stderr, flush=True)


class Progress:
    """Shows how much is read on one line that renews itself; shows nothing where nobody looks on."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._shown = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._first: tuple[float, float] | None = None

    def __call__(self, done: int, count: int, path: str, share: float) -> None:
        """Show that ``done`` of ``count`` files, ``share`` of all bytes, are read; the line goes after the last."""
        if not self._shown:
            return
        left = self._left(share)
        text = ""
        if done < count:
            far = f"{done} of {count} traces" if count > 1 else f"{share:.0%}".replace("%", " %")
            name = visible(os.path.basename(path))
            text = f"[{'#' * round(20 * share):<20}] {far}{left}   {name}"
        else:
            self._first = None
        width = shutil.get_terminal_size((80, 24)).columns - 1
        self._stream.write(f"\r\x1b[K{text[:width]}")
        self._stream.flush()

    def _left(self, share: float) -> str:
        """Return the time left, by the pace since the first news; "" while there is none to go by."""
        now = self._clock()
        if self._first is None or share < self._first[1]:
            self._first = now, share
        since, at_first = self._first
        if share >= 1:
            return ", summing up"
        if share <= at_first:
            return ""
        seconds = round((now - since) * (1 - share) / (share - at_first))
        return f", {seconds} s left" if seconds < 120 else f", {round(seconds / 60)} min left"


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
