"""``eroica-otel query``: a backend, a localizer's journal or pattern files in; any worker's patterns out."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from eroica_otel.commands import sources
from eroica_otel.commands.report import show
from eroica_otel.errors import ConfigError, EroicaError, QueryError
from eroica_otel.model import WorkerWindow
from eroica_otel.publish.report import patterns
from eroica_otel.publish.report.words import plural, visible
from eroica_otel.query import files
from eroica_otel.query.backend import BackendReader
from eroica_otel.query.reading import SINCE_SECONDS, Reader, Shown, Wanted

HELP = """\
Show what a worker measured: which windows there are, and the patterns of any worker in any of them.

  eroica-otel query --prometheus http://127.0.0.1:9090            which windows there are
  eroica-otel query --prometheus http://127.0.0.1:9090 --rank 3   the patterns of rank 3 in the newest
  eroica-otel query --rank 3 --window 1764430000                  of a window in the journal of a localizer here
  eroica-otel query --window 1764430000 --json window.jsonl       all workers of it, as a pattern file
  eroica-otel query window.jsonl --rank 3                         out of that file"""

_LONGEST_SECONDS = 30 * 86400.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    where = parser.add_argument_group("where the windows are (default: in the journal of the localizer here)")
    where.add_argument("files", nargs="*", type=Path, metavar="FILE", help="pattern files (JSON Lines, as --json "
                       "writes them), or folders of them")  # fmt: skip
    where.add_argument("--state", metavar="DIR", default="", help="folder that eroica-otel localize --state uses "
                       "(default: ~/.local/state/eroica_otel)")  # fmt: skip
    where.add_argument("--prometheus", metavar="URL", default="", help="a Prometheus, or what speaks its API "
                       "(VictoriaMetrics, Mimir, Thanos), for example http://127.0.0.1:9090")  # fmt: skip
    sources.reading(where)
    which = parser.add_argument_group("what of it")
    which.add_argument("--job", metavar="NAME", default="", help="name of the training job")
    which.add_argument("--team", metavar="NAME", default=None, help="its team")
    which.add_argument("--window", metavar="ID", type=_whole, default=None, help="id of the window (default: the "
                       "newest of each job)")  # fmt: skip
    which.add_argument("--rank", metavar="N", type=_whole, action="append", default=[], help="worker to show; can be "
                       "repeated")  # fmt: skip
    which.add_argument("--since", metavar="SECONDS", type=_since, default=SINCE_SECONDS, help="how far back a backend "
                       "is asked (default: %(default)g)")  # fmt: skip
    which.add_argument("--json", metavar="FILE", default="", help="write the windows as a pattern file instead of "
                       "tables, of all workers unless --rank is given; - writes to standard output")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Print or write what was asked for.

    Raises:
        ConfigError: an option cannot be used.
        QueryError: the place cannot be read, or holds nothing that fits.
    """
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    reader = _reader(arguments)
    wanted = Wanted(arguments.job, arguments.team, frozenset(arguments.rank), arguments.window, arguments.since)
    if arguments.json:
        _write(arguments.json, reader, wanted)
    elif wanted.ranks:
        _tables(reader, wanted)
    else:
        shown = [one for one in reader.shown(wanted) if wanted.window_id in (None, one.window_id)]
        show(_list(_some(shown, reader, wanted)))
    return 0


def _reader(arguments: argparse.Namespace) -> Reader:
    given = [name for name in ("files", "state", "prometheus") if getattr(arguments, name)]
    if len(given) > 1:
        raise ConfigError("files, --state and --prometheus are different places to read; give one of them")
    if arguments.prometheus:
        return BackendReader(sources.reader(arguments))
    sources.nothing_without(arguments)
    if arguments.files:
        return files.pattern_reader(arguments.files)
    state = arguments.state or os.path.join(
        os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "eroica_otel"
    )
    return files.journal_reader(Path(state, "localizer", "journal"))


def _tables(reader: Reader, wanted: Wanted) -> None:
    width = shutil.get_terminal_size((100, 24)).columns
    found = False
    for window in reader.windows(wanted):
        who = window.identity
        above = f"job {visible(_name(who.team, who.training_job))}   window {window.window_id}   {window.reason}\n"
        show(("\n" if found else "") + above + patterns.render(window, width))
        found = True
    if not found:
        _some([], reader, wanted)


def _write(path: str, reader: Reader, wanted: Wanted) -> None:
    windows = reader.windows(wanted)
    if path == "-":
        count = sum(_print(window) for window in windows)
    else:
        try:
            count = files.write(Path(path), windows)
        except OSError as error:
            raise EroicaError(f"--json {path}: {error.strerror or error}; give another place") from error
        print(f"{plural(count, 'window')} written to {path}", file=sys.stderr)
    if not count:
        _some([], reader, wanted)


def _print(window: WorkerWindow) -> int:
    show(files.line_of(window).decode() + "\n")
    return 1


def _some(shown: Sequence[Shown], reader: Reader, wanted: Wanted) -> Sequence[Shown]:
    """Return the windows; where there are none, say why and what helps.

    Raises:
        QueryError: there are none.
    """
    if shown:
        return shown
    there = reader.shown(wanted)
    if not there:
        job = f" of job {wanted.training_job}" if wanted.training_job else ""
        timed = isinstance(reader, BackendReader)  # the other places keep no time
        last = f" of the last {wanted.since_seconds:g} s" if timed else ""
        more = "look further back by --since, or see that --job and --match fit" if timed else "or see that --job fits"
        raise QueryError(f"{reader.url} holds no window{job}{last}; ask for one by eroica-otel window, {more}")
    ids = ", ".join(str(one.window_id) for one in there[-3:])
    if wanted.window_id is not None and wanted.window_id not in [one.window_id for one in there]:
        raise QueryError(f"{reader.url} holds no window {wanted.window_id}; the newest are {ids}")
    ranks = ", ".join(map(str, sorted(wanted.ranks)))
    raise QueryError(f"rank {ranks} is not in it; without --rank the windows and their workers are listed ({ids})")


def _list(shown: Sequence[Shown]) -> str:
    heads = ("job", "window", "decided (UTC)", "reason", "workers")
    rows = [heads]
    for one in shown:
        name = visible(_name(one.team, one.training_job))
        rows.append((name, str(one.window_id), _when(one.window_id), visible(one.reason), str(one.workers)))
    sizes = [max(len(row[at]) for row in rows) for at in range(len(heads))]
    lines = ["  ".join(text.ljust(size) for text, size in zip(row, sizes, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", "a worker's patterns: --rank N, with --window ID of another than the newest", ""])


def _name(team: str, training_job: str) -> str:
    return f"{team}/{training_job}" if team else training_job


def _when(window_id: int) -> str:
    return f"{datetime.fromtimestamp(window_id, timezone.utc):%Y-%m-%d %H:%M:%S}"


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number; give one, for example 3")
    return int(text)


def _since(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r}: give 1 to {_LONGEST_SECONDS:.0f} seconds, for example 86400")
    return value
