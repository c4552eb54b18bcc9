"""Tables of an SQLite file in parts, and events gathered from several of them."""

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

PART_ROWS = 1 << 16


class Database:
    """Reads tables of which each, and each column, may be missing. Methods raise sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
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

    def parts(self, query: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a large answer, some at a time."""
        cursor = self._connection.execute(query)
        while rows := cursor.fetchmany(PART_ROWS):
            yield rows

    def numbers(self, table: str, columns: Sequence[str | None], where: str = "") -> Iterator[Times]:
        """Yield integer columns, shape [rows, columns]; -1 stands for NULL and for a column that is missing."""
        if not self.has(table, "start") or not self.has(table, "end"):
            return
        wanted = [f'coalesce("{name}", -1)' if name and self.has(table, name) else "-1" for name in columns]
        for rows in self.parts(f'SELECT {", ".join(wanted)} FROM "{table}" {where}'):
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
        """Return all rows sorted by start."""
        table = np.concatenate(self._parts) if self._parts else np.zeros((0, 5), np.int64)
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
