"""Path of any trace that we know -> Trace: the format is found by content, never by the name.

A file may hold several workers (an Nsight Systems export of one node). Then each has a path of its own, ``FILE#0``,
``FILE#1``, which workers_in gives and read_trace takes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from eroica_otel.errors import TraceError
from eroica_otel.summarize.readers import kineto, nsight
from eroica_otel.summarize.readers.source import SQLITE, first_bytes
from eroica_otel.summarize.readers.watch import NOBODY, Watch
from eroica_otel.traces import Trace

LIMIT_BYTES = 32 << 30
"""Largest trace, unpacked: a packed file may promise far more than a machine holds."""
_WORKER = re.compile(r"(?P<file>.+)#(?P<place>\d+)")
_REPORTS = (".nsys-rep", ".qdrep")


def workers_in(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the path of each worker in a file: the path itself where there is one.

    Raises:
        TraceError: the file cannot be read.
    """
    text = os.fspath(path)
    if not first_bytes(_split(text)[0]).startswith(SQLITE) or _split(text)[1] is not None:
        return (text,)
    count = len(nsight.workers(text))
    return tuple(f"{text}#{place}" for place in range(count)) if count > 1 else (text,)


def read_trace(path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES, watch: Watch = NOBODY) -> Trace:
    """Read a Kineto trace (JSON, also packed with gzip), or one worker of an Nsight Systems export (SQLite).

    Args:
        limit_bytes: Most bytes of JSON that are unpacked.
        watch: Is told how far the reading is; what it raises ends the reading.

    Raises:
        TraceError: the file cannot be read, is no trace, is cut short or too large; says where and what to do.
    """
    text = os.fspath(path)
    file, place = _split(text)
    first = first_bytes(file)
    if not first:
        raise TraceError(f"{text}: the file is empty; copy it again")
    if first.startswith(SQLITE):
        known = workers_in(text)
        if len(known) > 1:
            raise TraceError(f"{text}: holds {len(known)} workers; name one of them: {known[0]} to {known[-1]}")
        return nsight.read_worker(file, place or 0, watch)
    if file.endswith(_REPORTS):
        raise TraceError(f"{text}: a report: export it first: nsys export --type sqlite --output OUT.sqlite {file}")
    return kineto.read_whole(file, limit_bytes, watch=watch)


def _split(text: str) -> tuple[str, int | None]:
    """Return the file and the number of the worker in it; a file whose own name looks like that is a file."""
    found = _WORKER.fullmatch(text)
    if found is None or Path(text).exists():
        return text, None
    return found["file"], int(found["place"])
