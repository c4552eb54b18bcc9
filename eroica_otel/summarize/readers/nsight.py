"""SQLite export of Nsight Systems -> Trace of one process: kernels, memory operations, runtime calls and NVTX ranges.

Every table and nearly every column is optional, so each is asked for first. Times are nanoseconds since the session
began; TARGET_INFO_SESSION_START_TIME turns them into Unix time.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from eroica_otel import kinds
from eroica_otel.errors import TraceError, one_line
from eroica_otel.summarize.readers import steps
from eroica_otel.summarize.readers.decimals import LARGEST_NS
from eroica_otel.summarize.readers.nsightdevices import (
    GRAPHS,
    KERNELS,
    PROCESS,
    WORK,
    devices_of,
    in_order,
    processes_of,
)
from eroica_otel.summarize.readers.nsightmetrics import VALUES, samples
from eroica_otel.summarize.readers.nsightsync import SYNC, waits
from eroica_otel.summarize.readers.nsightunread import unread
from eroica_otel.summarize.readers.tables import Database, Rows
from eroica_otel.summarize.readers.watch import NOBODY, Watch
from eroica_otel.traces import Trace

COPIES, SETS, CALLS, RANGES = (
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
)
_EVENTS = (*WORK, COPIES, SETS, CALLS, RANGES)
_THREAD_BITS = 1 << 24
"""globalTid = globalPid + thread id."""
_VERSION = re.compile(r"_v\d+(?:_ptsz|_ptds)?$")
_NVTX_DETAIL = re.compile(r",\s*(?:seq|op_id|sizes|input_op_ids)\s*=.*", re.DOTALL)
"""torch's emit_nvtx puts a number into each name, which would make each call a function of its own."""
_COPY_NAMES = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
_MOST_GRAPHS = 64
"""Graphs with a name of their own: a program that captures again and again makes ever new ones."""
_REMEDY = "export it again: nsys export --type sqlite --output OUT.sqlite REPORT.nsys-rep"


def workers(path: str) -> tuple[int, ...]:
    """Return the processes (globalPid) in an export, in the order of their devices; (0,) where it tells of none.

    Raises:
        TraceError: it cannot be read, or holds nothing that could be summarised.
    """
    with _opened(path) as database:
        return _workers(database)


def read_worker(path: str, place: int, watch: Watch = NOBODY) -> Trace:
    """Read process number ``place`` of workers().

    Args:
        watch: Is told how far it is; what it raises ends the reading.

    Raises:
        TraceError: as workers.
    """
    with _opened(path, watch) as database:
        processes = _workers(database)
        if place >= len(processes):
            raise TraceError(f"{path}: has {len(processes)} processes with GPU activity, no number {place}")
        return _trace(path, database, processes, place)


@contextmanager
def _opened(path: str, watch: Watch = NOBODY) -> Iterator[Database]:
    try:
        connection = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        try:
            database = Database(connection, os.path.getsize(path), watch)
            if not any(database.has(table) for table in _EVENTS):
                raise TraceError(
                    f"{path}: an SQLite file without kernels, memory operations, runtime calls and NVTX ranges: "
                    f"no export of Nsight Systems, or of a report without --trace=cuda,nvtx; {_REMEDY}"
                )
            yield database
        finally:
            connection.close()
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:  # damaged pages hold values of any type
        why = one_line(str(error), 200)
        raise TraceError(f"{path}: not a whole SQLite export of Nsight Systems ({why}); {_REMEDY}") from error


def _workers(database: Database) -> tuple[int, ...]:
    """Return the processes that had work on a GPU, else those that called the runtime or opened ranges."""
    if working := processes_of(database):
        return working
    found: set[int] = set()
    for table in (CALLS, RANGES):
        if database.has(table, "globalTid"):
            rows = database.all(f"SELECT DISTINCT globalTid / {_THREAD_BITS} * {_THREAD_BITS} FROM {table}")
            found |= {int(row[0]) for row in rows if row[0] is not None}
    return tuple(sorted(found)) or (0,)


class _Kind(NamedTuple):
    """One table of events: how its rows are named, and of what category and thread they are."""

    table: str
    names: tuple[str, ...]
    thread: str
    category: str


_DEVICE = (
    _Kind(KERNELS, ("demangledName", "shortName", "mangledName"), "streamId", "kernel"),
    _Kind(COPIES, ("copyKind",), "streamId", "gpu_memcpy"),
    _Kind(SETS, (), "streamId", "gpu_memset"),
)


def _trace(path: str, database: Database, processes: tuple[int, ...], place: int) -> Trace:
    process = processes[place]
    database.expect((*_EVENTS, SYNC, VALUES))
    devices = devices_of(database, processes)
    rows = Rows(_session_start(database))
    for kind in _DEVICE:
        _device_events(database, rows, kind, process)
    _graphs(database, rows, process)
    _calls(database, rows, process)
    for part, names in waits(database, process, called=database.has(CALLS, "start")):
        rows.add("cuda_runtime", part, names)
    _ranges(database, rows, process)
    events = rows.events()
    metrics, note = samples(database, devices[place], _session_start(database))
    return Trace(
        path=path,
        format="nsight",
        events=events,
        rank=place if len(processes) > 1 and in_order(devices) else None,
        world_size=None,
        host=_host(database),
        backend="",
        devices=_devices(database),
        groups={},
        steps=steps.steps_of(events),
        python=None,
        gpu=kinds.uses_accelerator(events.categories, events.names),
        training_thread=steps.training_thread(events),
        skipped=dict(rows.skipped),
        metrics=metrics,
        unread=unread(database, process, (*_EVENTS, SYNC)),
        notes=(f"{os.path.basename(path)}: {note}",) if note else (),
    )


def _device_events(database: Database, rows: Rows, kind: _Kind, process: int) -> None:
    named = next((column for column in kind.names if database.has(kind.table, column)), None)
    texts = database.strings() if kind.table == KERNELS else _COPY_NAMES
    where = f"WHERE {PROCESS} = {process}" if database.has(kind.table, PROCESS) and process else ""
    for part in database.numbers(kind.table, ("start", "end", named, kind.thread), where):
        rows.add(
            kind.category,
            part,
            {number: _device_name(kind, texts, number) for number in np.unique(part[:, 2]).tolist()},
        )


def _device_name(kind: _Kind, texts: Mapping[int, str], number: int) -> str:
    if kind.table == KERNELS:
        return texts.get(number, "kernel without a name")
    return "Memset (Device)" if kind.table == SETS else f"Memcpy {texts.get(number, 'of unknown kind')}"


def _graphs(database: Database, rows: Rows, process: int) -> None:
    """Read CUDA graphs as a whole, as kernels; one without times has 0 for both (CUpti_ActivityGraphTrace)."""
    where = f"WHERE {PROCESS} = {process}" if database.has(GRAPHS, PROCESS) and process else ""
    told: set[int] = set()
    for part in database.numbers(GRAPHS, ("start", "end", "graphId", "streamId"), where):
        part[part[:, 1] == 0, 0] = -1
        found = np.unique(part[:, 2]).tolist()
        told.update([number for number in found if number >= 0][: _MOST_GRAPHS - len(told)])
        rows.add(
            "kernel", part, {number: f"CUDA graph {number}" if number in told else "CUDA graph" for number in found}
        )


def _calls(database: Database, rows: Rows, process: int) -> None:
    texts = database.strings()
    for part in database.numbers(CALLS, ("start", "end", "nameId", "globalTid"), _of(database, CALLS, process)):
        part[:, 3] %= _THREAD_BITS
        names = {
            number: _VERSION.sub("", texts.get(number, "runtime call")) for number in np.unique(part[:, 2]).tolist()
        }
        rows.add("cuda_runtime", part, names)


def _ranges(database: Database, rows: Rows, process: int) -> None:
    """Read NVTX ranges; their names stand in the row itself, or under textId. A mark has no end, and no length."""
    if not database.has(RANGES):
        return
    known = dict(database.strings())
    inline: dict[str, int] = {}
    text = "text" if database.has(RANGES, "text") else "NULL"
    number = "textId" if database.has(RANGES, "textId") else "NULL"
    ended = "WHERE end IS NOT NULL" if database.has(RANGES, "end") else "WHERE 0"
    where = _of(database, RANGES, process).replace("WHERE", "AND")
    query = f"SELECT start, end, {text}, {number}, globalTid FROM {RANGES} {ended} {where}"
    for part in database.parts(query, RANGES):
        table: list[tuple[int, int, int, int]] = []
        for start, end, name, place, thread in part:
            shown = _NVTX_DETAIL.sub("", name if name is not None else known.get(place, "range without a name"))
            table.append((start, end, inline.setdefault(shown, len(inline)), (thread or 0) % _THREAD_BITS))
        rows.add("user_annotation", np.array(table, np.int64), {at: shown for shown, at in inline.items()})


def _of(database: Database, table: str, process: int) -> str:
    if not process or not database.has(table, "globalTid"):
        return ""
    return f"WHERE globalTid >= {process} AND globalTid < {process + _THREAD_BITS}"


def _session_start(database: Database) -> int:
    rows = database.values("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    start = int(rows[0] or 0) if rows else 0
    return start if 0 <= start < LARGEST_NS else 0


def _host(database: Database) -> str:
    if not database.has("TARGET_INFO_SYSTEM_ENV", "value"):
        return ""
    rows = database.all("SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'")
    return str(rows[0][0]) if rows else ""


def _devices(database: Database) -> tuple[str, ...]:
    return tuple(str(name or "") for name in database.values("TARGET_INFO_GPU", "name"))
