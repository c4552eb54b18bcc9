"""Exports of Nsight Systems, made from the documented schema: tables by name, each a line of columns and its rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from eroica_otel.traces import Trace

PROCESS, OTHER = 7 << 24, 8 << 24
THREAD = PROCESS + 42
UTC = 1_779_000_000_000_000_000

Table = tuple[str, Sequence[Sequence[object]]]
STRINGS: Table = (
    "id, value",
    [
        (1, "void gemm<float>(int)"),
        (2, "gemm"),
        (3, "cudaLaunchKernel_v7000"),
        (4, "step 5"),
        (5, "ncclDevKernel_SendRecv(x)"),
    ],
)
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
KERNEL_COLUMNS = "start, end, deviceId, streamId, globalPid, demangledName, shortName"
KERNELS: Table = (KERNEL_COLUMNS, [(100, 300, 0, 7, PROCESS, 1, 2), (400, 500, 0, 7, PROCESS, 5, 5)])


def export(path: Path, tables: Mapping[str, Table]) -> Path:
    connection = sqlite3.connect(path)
    for name, (columns, rows) in tables.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
        marks = ", ".join("?" * len(columns.split(",")))
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    connection.commit()
    connection.close()
    return path


def named(trace: Trace) -> list[tuple[str, str, int, int, int]]:
    events = trace.events
    return [
        (
            events.categories[events.category[i]],
            events.names[events.name[i]],
            int(events.start_ns[i]),
            int(events.end_ns[i]),
            int(events.thread[i]),
        )
        for i in range(events.total)
    ]
