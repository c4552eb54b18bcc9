"""How far the reading of an Nsight Systems export is, and what ends it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from eroica_otel.errors import TraceError
from eroica_otel.offline import guard
from eroica_otel.offline.guard import EVENT_BYTES, watch_of
from eroica_otel.summarize.readers import tables
from eroica_otel.summarize.readers.any import read_trace
from eroica_otel.summarize.readers.watch import Watch
from factories_nsight import KERNEL, KERNEL_COLUMNS, OTHER, PROCESS, STRINGS, Table, export

COPIES: Table = ("start, end, copyKind, streamId, globalPid", [(500 + at, 501 + at, 1, 7, PROCESS) for at in range(4)])


def kernels(count: int, process: int = PROCESS) -> list[tuple[int, ...]]:
    return [(at, at + 1, 0, 7, process, 1, 2) for at in range(count)]


def test_each_table_counts_with_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PART_ROWS", 3)
    several = {"StringIds": STRINGS, KERNEL: (KERNEL_COLUMNS, kernels(6)), "CUPTI_ACTIVITY_KIND_MEMCPY": COPIES}
    path = export(tmp_path / "t.sqlite", several)
    size, read, held = os.path.getsize(path), list[int](), list[tuple[int, int]]()
    read_trace(path, watch=Watch(read.append, lambda events, position: held.append((events, position))))
    # 10 rows: 3 and 3 kernels, then 3 copies and 1; the end of each table is told as well
    assert sorted(set(read)) == [size * rows // 10 for rows in (3, 6, 9, 10)]
    assert list(dict.fromkeys(held)) == [(rows, size * rows // 10) for rows in (3, 6, 9, 10)]


def test_a_table_is_gone_through_although_most_of_it_is_of_others(tmp_path: Path) -> None:
    both = (KERNEL_COLUMNS, [*kernels(2), *kernels(8, OTHER)])
    path = export(tmp_path / "t.sqlite", {"StringIds": STRINGS, KERNEL: both, "CUPTI_ACTIVITY_KIND_MEMCPY": COPIES})
    read: list[int] = []
    read_trace(f"{path}#0", watch=Watch(read.append))
    assert read[-1] == os.path.getsize(path)


def test_a_table_without_numbers_of_rows_counts_nothing_and_is_read(tmp_path: Path) -> None:
    path = export(tmp_path / "t.sqlite", {"StringIds": STRINGS, "CUPTI_ACTIVITY_KIND_MEMCPY": COPIES})
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {KERNEL} ({KERNEL_COLUMNS}, PRIMARY KEY (start)) WITHOUT ROWID")
    connection.executemany(f"INSERT INTO {KERNEL} VALUES (?, ?, ?, ?, ?, ?, ?)", kernels(5))
    connection.commit()
    connection.close()
    read: list[int] = []
    assert read_trace(path, watch=Watch(read.append)).events.total == 9
    assert read[-1] == os.path.getsize(path)


def test_reading_ends_before_memory_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PART_ROWS", 4)
    monkeypatch.setattr(guard, "free_memory_bytes", lambda pid: 5 * EVENT_BYTES)
    path = str(export(tmp_path / "t.sqlite", {"StringIds": STRINGS, KERNEL: (KERNEL_COLUMNS, kernels(10))}))
    position = os.path.getsize(path) * 8 // 10
    with pytest.raises(TraceError, match=rf"memory would run out: the 8 events in its first {position} bytes take"):
        read_trace(path, watch=watch_of(path))
    assert read_trace(path, watch=watch_of(path, guarded=False)).events.total == 10
