"""SQLite exports of Nsight Systems: damaged files as bytes, and tables with any columns and values as JSON."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from bench.fuzz import trees
from bench.fuzz.check import check_window, refused
from bench.fuzz.target import GOLDEN, Target
from bench.fuzz.trees import Pairs, Token, Tree
from eroica_otel.model import Identity
from eroica_otel.offline.stretches import choose
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import read_trace, workers_in
from eroica_otel.summarize.readers.source import SQLITE

FILE = "trace.sqlite"
ROWS, TEXTS = 4, 60
WORDS = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "StringIds",
    "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "GPU_METRICS", "TARGET_INFO_GPU_METRICS", "TARGET_INFO_GPU",
    "TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_SESSION_START_TIME", "start", "end", "globalPid", "globalTid", "deviceId",
    "streamId", "demangledName", "shortName", "mangledName", "copyKind", "nameId", "id", "value", "text", "textId",
    "name", "Hostname", "typeId", "metricId", "metricName", "timestamp", "rawTimestamp", "utcEpochNs", "SMs Active",
    "DRAM Read Throughput", "PCIe RX Throughput", "NVLink TX", "ProfilerStep#3", "cudaLaunchKernel_v7000",
    "aten::mm, seq = 3",
)  # fmt: skip
_METRICS = """{"TARGET_INFO_GPU_METRICS": [["typeId", "metricId", "metricName"], [256, 1, "SMs Active [Throughput %]"],
[256, 2, "DRAM Read Bandwidth [%]"], [256, 3, "DRAM Write Bandwidth [%]"]],
"GPU_METRICS": [["rawTimestamp", "typeId", "metricId", "value"], [10, 256, 1, 50], [20, 256, 1, 90], [10, 256, 2, 9],
[15, 256, 3, 7]], "CUPTI_ACTIVITY_KIND_KERNEL": [["start", "end", "deviceId", "streamId", "shortName"],
[5, 25, 0, 7, 1], [30, 41, 0, 7, 2]],
"StringIds": [["id", "value"], [1, "gemm"], [2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"]],
"NVTX_EVENTS": [["start", "end", "text", "globalTid"], [0, 44, "ProfilerStep#1", 16777217]]}"""


def target() -> Target:
    """Return the reader of Nsight Systems exports."""
    tables = [_golden(), _METRICS.encode()]
    files = []
    for text in tables:
        _build(trees.parse(text))
        files.append(Path(FILE).read_bytes())
    return Target(run, [*tables, *files], WORDS)


def run(data: bytes) -> None:
    """Read every worker of a file, or of the file that these tables make."""
    if data.startswith(SQLITE):
        Path(FILE).write_bytes(data)
    else:
        try:
            _build(trees.parse(data))
        except (ValueError, RecursionError, sqlite3.Error):
            return
    workers: tuple[str, ...] = ()
    with refused(FILE):
        workers = workers_in(FILE)
    for worker in workers[:4]:
        with refused(FILE):
            trace = read_trace(worker)
            check_window(summarize_trace(trace, Identity("job", 0, "node"), stretch=choose(trace).stretch))


def _build(tables: Tree) -> None:
    """Write tables, given as {name: [columns, row, ...]}; what makes no table is left out."""
    Path(FILE).unlink(missing_ok=True)
    with closing(sqlite3.connect(FILE, isolation_level=None)) as database:
        for setting in ("page_size = 512", "journal_mode = OFF", "synchronous = OFF"):
            database.execute(f"PRAGMA {setting}")
        database.execute("BEGIN")
        for name, rows in _whole(tables):
            with suppress(sqlite3.Error, ValueError):
                _table(database, name, [row if isinstance(row, list) else [row] for row in rows])
        database.execute("COMMIT")


def _whole(tables: Tree) -> list[tuple[str, list[Tree]]]:
    pairs = tables if isinstance(tables, Pairs) else []
    return [(name, rows) for name, rows in pairs if isinstance(rows, list) and rows]


def _table(database: sqlite3.Connection, name: str, rows: list[list[Tree]]) -> None:
    columns = ", ".join(_name(str(column)) for column in rows[0])
    database.execute(f"CREATE TABLE {_name(name)} ({columns})")
    marks = ", ".join("?" * len(rows[0]))
    for row in rows[1:]:
        values = [_value(cell) for cell in row][: len(rows[0])]
        database.execute(f"INSERT INTO {_name(name)} VALUES ({marks})", values + [None] * (len(rows[0]) - len(values)))


def _name(text: str) -> str:
    inside = text.replace('"', '""').replace("\x00", "")
    return f'"{inside}"'


def _value(cell: Tree) -> Any:
    """Return a cell as SQLite takes it: what it has no type for becomes bytes."""
    if isinstance(cell, Token):
        with suppress(ValueError, OverflowError):
            number = int(cell)
            return number if -(1 << 63) <= number < 1 << 63 else float(number)
        with suppress(ValueError, OverflowError):
            return float(cell)
        return cell.encode()
    return trees.dump(cell).encode() if isinstance(cell, list) else cell


def _golden() -> bytes:
    """Return a few rows of each table of the recorded export."""
    Path(FILE).write_bytes(gzip.decompress((GOLDEN / "nsight" / "two_gpus.sqlite.gz").read_bytes()))
    kept = Pairs()
    with closing(sqlite3.connect(FILE)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            found = database.execute(f"SELECT * FROM {_name(name)} LIMIT {TEXTS if name == 'StringIds' else ROWS}")
            rows = [[_cell(cell) for cell in row] for row in found.fetchall()]
            kept.append([name, [[column[0] for column in found.description], *rows]])
    return trees.dump(kept).encode()


def _cell(value: Any) -> Tree:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return Token(value) if isinstance(value, int | float) else value
