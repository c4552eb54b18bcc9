"""Tables of an SQLite file in parts, with word of how far it is, and events gathered from several of them."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from eroica_otel import kinds
from eroica_otel.model import Events
from eroica_otel.summarize.intervals import Times
from eroica_otel.summarize.readers.decimals import LARGEST_NS
from eroica_otel.summarize.readers.watch import NOBODY, Watch

PART_ROWS = 1 << 16


class Database:
    """Reads tables of which each, and each column, may be missing. Methods raise sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection, size: int = 0, watch: Watch = NOBODY) -> None:
        """Take an open file of ``size`` bytes; ``watch`` is told how much of the tables of expect() is read."""
        self._connection = connection
        self._size, self._watch = size, watch
        self._expected: dict[str, int] = {}
        self._gone: dict[str, int] = {}
        self._held = 0
        self._columns: dict[str, frozenset[str]] = {}
        self._strings: dict[int, str] | None = None

    def has(self, table: str, column: str = "") -> bool:
        """Return whether the table is there, with this column if one is named."""
        if table not in self._columns:
            # A view may be a question without end.
            real = self.all(f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{table}'")
            rows = self.all(f'PRAGMA table_info("{table}")') if real else []
            self._columns[table] = frozenset(str(row[1]) for row in rows)
        return column in self._columns[table] if column else bool(self._columns[table])

    def all(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a small answer."""
        return self._connection.execute(query).fetchall()

    def values(self, table: str, column: str) -> list[Any]:
        """Return one column of a small table, [] where it is missing."""
        return [row[0] for row in self.all(f'SELECT "{column}" FROM "{table}"')] if self.has(table, column) else []

    def expect(self, tables: Sequence[str]) -> None:
        """Take the tables that will be read; each counts with its rows."""
        self._expected = {table: self._rows(table) for table in tables if self.has(table)}

    def _rows(self, table: str) -> int:
        """Return about how many rows a table has, without going through it: those of the file that were deleted too."""
        try:
            last = self.all(f'SELECT max(rowid) FROM "{table}"')[0][0]
        except sqlite3.OperationalError:  # a table may have no numbers of rows
            return 0
        return max(last, 0) if isinstance(last, int) else 0

    def parts(self, query: str, table: str, *, kept: bool = True) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a large answer from ``table``, some at a time; ``kept``: each makes an event in memory."""
        cursor = self._connection.execute(query)
        while rows := cursor.fetchmany(PART_ROWS):
            self._gone[table] = self._gone.get(table, 0) + len(rows)
            self._held += len(rows) if kept else 0
            self._tell()
            yield rows
        self._gone[table] = self._expected.get(table, 0)  # what the question left out was gone through as well
        self._tell()

    def _tell(self) -> None:
        whole = sum(self._expected.values())
        gone = sum(min(self._gone.get(table, 0), rows) for table, rows in self._expected.items())
        position = self._size * gone // whole if whole else 0
        self._watch.held(self._held, position)
        self._watch.read(position)

    def numbers(self, table: str, columns: Sequence[str | None], where: str = "") -> Iterator[Times]:
        """Yield integer columns, shape [rows, columns]; -1 stands for NULL and for a column that is missing."""
        if not self.has(table, "start") or not self.has(table, "end"):
            return
        wanted = [f'coalesce("{name}", -1)' if name and self.has(table, name) else "-1" for name in columns]
        for rows in self.parts(f'SELECT {", ".join(wanted)} FROM "{table}" {where}', table):
            yield np.array(rows, np.int64)

    def strings(self) -> Mapping[int, str]:
        """Return StringIds, read once."""
        if self._strings is None:
            there = self.has("StringIds", "value")
            self._strings = (
                {int(key): str(text) for key, text in self.all("SELECT id, value FROM StringIds")} if there else {}
            )
        return self._strings


class Rows:
    """Gathers events of several tables; ``skipped`` counts what could not be used."""

    def __init__(self, offset_ns: int) -> None:
        self._offset = offset_ns
        self._names: dict[str, int] = {}
        self._categories: dict[str, int] = {}
        self._parts: list[Times] = []
        self.skipped: Counter[str] = Counter()

    def add(self, category: str, rows: Times, names: Mapping[int, str]) -> None:
        """Add rows of (start, end, number in ``names``, thread)."""
        good = (rows[:, 0] >= 0) & (rows[:, 1] >= rows[:, 0]) & (rows[:, 1] < LARGEST_NS)
        if not good.all():
            self.skipped["negative duration, or no time"] += int((~good).sum())
            rows = rows[good]
        known, place = np.unique(rows[:, 2], return_inverse=True)
        numbers = [self._names.setdefault(names[number], len(self._names)) for number in known.tolist()]
        name = np.array(numbers, np.int64)[place.reshape(-1)]
        kind = np.full(len(rows), self._categories.setdefault(category, len(self._categories)), np.int64)
        self._parts.append(np.column_stack((rows[:, :2] + self._offset, name, rows[:, 3], kind)))

    def events(self) -> Events:
        """Return all rows sorted by start, and forget them."""
        table = np.concatenate(self._parts) if self._parts else np.zeros((0, 5), np.int64)
        self._parts = []  # they would take their memory twice
        table = table[np.argsort(table[:, 0], kind="stable")]
        moving = _collectives(tuple(self._names))
        name = table[:, 2].astype(np.int32)
        found = np.flatnonzero(moving[name]).tolist() if moving.size else []
        return Events(
            start_ns=np.ascontiguousarray(table[:, 0]),
            end_ns=np.ascontiguousarray(table[:, 1]),
            name=name,
            category=table[:, 4].astype(np.int32),
            thread=np.ascontiguousarray(table[:, 3]),
            names=tuple(self._names),
            categories=tuple(self._categories),
            collectives=dict.fromkeys(found, ("", None)),
            total=len(table),
        )


def _collectives(names: tuple[str, ...]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.array([kinds.is_collective(name) for name in names], bool)
