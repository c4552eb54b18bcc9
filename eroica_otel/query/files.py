"""Windows in files: the journal of a localizer, also of one that runs, and pattern files, which ``query`` writes.

A pattern file is JSON Lines: one worker's window a line, as model.WorkerWindow names its fields, with the schema.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from eroica_otel.errors import QueryError, one_line
from eroica_otel.model import REASONS, SCHEMA, WorkerWindow
from eroica_otel.query import journal
from eroica_otel.query.decode import WINDOW_MOST, WORKERS_MOST
from eroica_otel.query.reading import Shown, Tabled, Wanted, chosen, picked, shown_in, tabled

SUFFIX = ".jsonl"
LINE_BYTES = 16 * 2**20
"""Longest line that is read; a worker's window has 30 KB."""


class FileReader:
    """Windows that lie in files; they are read anew for each question, one at a time.

    Attributes:
        url: Path, for people.
    """

    def __init__(self, url: str, read: Callable[[], Iterator[WorkerWindow]]) -> None:
        self.url, self._read = url, read

    def shown(self, wanted: Wanted) -> list[Shown]:
        """Return the windows of the jobs that fit, in the order in which they were written."""
        return shown_in(self._read(), wanted)

    def windows(self, wanted: Wanted) -> Iterator[WorkerWindow]:
        """Yield what fits."""
        yield from picked(self._read(), chosen(self.shown(wanted), wanted), wanted)

    def tables(self, wanted: Wanted) -> Iterator[Tabled]:
        """Yield each window that fits as a table."""
        kept = chosen(self.shown(wanted), wanted)
        yield from tabled(picked(self._read(), kept, wanted), kept)


def journal_reader(path: Path) -> FileReader:
    """Return the reader of a localizer's journal.

    Raises:
        QueryError: there is none.
    """
    if not path.is_file():
        raise QueryError(
            f"there is no journal at {path}; give --state DIR of a localizer that has received windows, "
            "--prometheus URL, or files"
        )
    return FileReader(str(path), lambda: _journalled(path))


def _journalled(path: Path) -> Iterator[WorkerWindow]:
    try:
        yield from journal.read(str(path))
    except OSError as error:
        raise QueryError(f"{path} cannot be read: {error.strerror or error}; give a folder that can be read") from error


def pattern_reader(paths: Sequence[Path]) -> FileReader:
    """Return the reader of pattern files; of a folder all files that end in .jsonl.

    Raises:
        QueryError: there is no such file.
    """
    files = [file for path in paths for file in (sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path])]
    if not files:
        raise QueryError(f"{paths[0]} holds no file that ends in {SUFFIX}; eroica-otel query --json FILE writes one")
    name = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    return FileReader(name, lambda: (window for file in files for window in _patterns(file)))


def write(path: Path, windows: Iterable[WorkerWindow]) -> int:
    """Write a pattern file and return how many windows are in it.

    Raises:
        OSError: the disk refuses.
    """
    count = 0
    with path.open("wb") as file:
        for window in windows:
            file.write(line_of(window) + b"\n")
            count += 1
    return count


def line_of(window: WorkerWindow) -> bytes:
    """Return one window as a line; what is not known is null."""
    return msgspec.json.encode({"schema": SCHEMA, "window": window})


def window_of(line: bytes) -> WorkerWindow:
    """Return the window of a line.

    Raises:
        QueryError: it holds none of this version or the one before.
    """
    try:
        found = msgspec.json.decode(line)
        if problem := _of_another_schema(found):
            raise QueryError(problem)
        window = msgspec.convert(_with_nan(found["window"]), WorkerWindow)
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise QueryError(f"it is no worker's window ({one_line(str(error), 200)})") from error
    if not (0 <= window.identity.rank < WORKERS_MOST and 0 <= window.window_id < WINDOW_MOST):
        raise QueryError(
            f"rank {window.identity.rank} of window {window.window_id} cannot be; does another program write it?"
        )
    if window.reason not in REASONS or not window.identity.training_job:
        raise QueryError(
            f"it names no job, or reason {one_line(window.reason, 40)!r} is not one of {', '.join(REASONS)}"
        )
    return window


def _of_another_schema(found: object) -> str:
    """Return why a line of another schema, or of none, is not read, and what helps; "" where it is read."""
    told = found.get("schema") if isinstance(found, dict) else None
    if type(told) is not int:
        return f'it has no "schema": {SCHEMA}; write it anew by eroica-otel query --json'
    if told in (SCHEMA - 1, SCHEMA):
        return ""
    remedy = "read it by the version that wrote it" if told > SCHEMA else "write it anew by eroica-otel query --json"
    return f"it is of schema {told}, this version reads {SCHEMA - 1} and {SCHEMA}; {remedy}"


def _with_nan(window: Any) -> Any:
    """Put NaN back where JSON can only say null."""
    for pattern in window.get("patterns") or ():
        for collective in pattern.get("collectives") or ():
            if collective.get("fastest_seconds") is None:
                collective["fastest_seconds"] = math.nan
    return window


def _patterns(path: Path) -> Iterator[WorkerWindow]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LINE_BYTES):
                number += 1
                if line.strip():
                    yield window_of(line)
    except OSError as error:
        raise QueryError(f"{path} cannot be read: {error.strerror or error}; give a file that can be read") from error
    except QueryError as error:
        raise QueryError(f"{path}, line {number}: {error}") from error
