"""Tables of events in an Nsight Systems export that are not read -> how many rows and seconds each one holds.

What is not charged to anything must at least be told: MPI, OpenACC, operating system calls, the profiler's overhead.
"""

from __future__ import annotations

import re
from collections.abc import Container

from eroica_otel.summarize.readers.nsightdevices import PROCESS
from eroica_otel.summarize.readers.tables import Database

_NAME = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_CUPTI = "CUPTI_ACTIVITY_KIND_"
_MOST_TABLES = 256
_THREAD_BITS = 1 << 24
_SECOND = 1e9


def unread(database: Database, process: int, read: Container[str]) -> dict[str, tuple[int, float]]:
    """Return (events, seconds) by table, of those that ``read`` does not hold and that have events of the process.

    Args:
        process: globalPid, 0 for all.
        read: Tables that are read.
    """
    found: dict[str, tuple[int, float]] = {}
    query = f"SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name LIMIT {_MOST_TABLES}"
    for table in [str(row[0]) for row in database.all(query)]:
        if table not in read and _NAME.fullmatch(table) and _is_of_events(database, table):
            count, seconds = _size(database, table, process)
            if count:
                found[table.removeprefix(_CUPTI)] = (count, seconds)
    return found


def _is_of_events(database: Database, table: str) -> bool:
    return _lasts(database, table) or table.startswith(_CUPTI)


def _lasts(database: Database, table: str) -> bool:
    return database.has(table, "start") and database.has(table, "end")


def _size(database: Database, table: str, process: int) -> tuple[int, float]:
    """Return rows and seconds, counted by the database: such a table may be the largest of all."""
    length = 'total(max("end" - start, 0))' if _lasts(database, table) else "0"
    rows = database.all(f'SELECT count(*), {length} FROM "{table}" {_where(database, table, process)}')
    return int(rows[0][0]), float(rows[0][1]) / _SECOND


def _where(database: Database, table: str, process: int) -> str:
    if process and database.has(table, PROCESS):
        return f"WHERE {PROCESS} = {process}"
    if process and database.has(table, "globalTid"):
        return f"WHERE globalTid >= {process} AND globalTid < {process + _THREAD_BITS}"
    return ""
