"""One window of a large job in layout ``vec``, as tables: the answer of a backend in, arrays [workers, slots] out.

Nothing is made for a single number: a line of the stream, or a series of an answer, becomes a row of an array. Memory
is that of the arrays (4 bytes a share, 8 a whole number), whatever the answer's length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eroica_otel import names
from eroica_otel.query.decode import is_rank
from eroica_otel.query.export import Row
from eroica_otel.query.laid import Ask, Dictionaries
from eroica_otel.query.promql import Series
from eroica_otel.query.scraped import own_labels
from eroica_otel.vectors import SHARE, STEP_MILLIS, WHOLE, Slot

_FIRST_ROWS = 1024
_TYPES = {WHOLE: np.float64, SHARE: np.float32}
_PATTERNS = {
    metric.name for metric in (names.PATTERN_BETA, names.PATTERN_MU, names.PATTERN_SIGMA, names.PATTERN_NOISE)
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """The vectors of one part with one dictionary.

    Attributes:
        part: WHOLE (float64) or SHARE (float32).
        slots: What the columns are, [S].
        ranks: Of the rows, in the order in which they came, [W].
        hosts: Of the rows, [W].
        roles: Of the rows, [W].
        values: The vectors, NaN where not measured, [W, S].
        fine: What is no number of a pattern with all its digits, [W, fewer]: a verdict counts those in float64.
        place: Column of each slot in ``fine``, -1 where ``values`` has all that is told, [S].
    """

    part: str
    slots: tuple[Slot, ...]
    ranks: NDArray[np.int64]
    hosts: tuple[str, ...]
    roles: tuple[str, ...]
    values: NDArray[np.float32] | NDArray[np.float64]
    fine: NDArray[np.float64]
    place: NDArray[np.int64]


@dataclass(slots=True)
class _Rows:
    """Rows of one table while they come; the arrays double when they are full."""

    values: NDArray[np.float32] | NDArray[np.float64]
    fine: NDArray[np.float64]
    fine_slots: NDArray[np.int64]
    who: dict[int, int] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)


def tables(rows: Iterable[Row], ask: Ask) -> list[Table]:
    """Return the tables of the vectors of one window of one job; of a rank that wrote twice the later vector counts.

    Rows must be cut to the window. What is not a whole vector, or has no dictionary, is left out.

    Raises:
        QueryFailed: a dictionary cannot be asked for.
    """
    dictionaries = Dictionaries()
    found: dict[tuple[str, str], _Rows] = {}
    slots: dict[tuple[str, str], tuple[Slot, ...]] = {}
    for one in rows:
        own, _ = own_labels(one.labels, names.VECTOR)
        key = own["part"], own["dict"]
        if key not in slots and key[0] in _TYPES:
            slots[key] = dictionaries.slots([key[1]], ask).get(key[1], ())
        if slots.get(key) and is_rank(own["rank"]) and _is_whole(one, len(slots[key])):
            if key not in found:
                found[key] = _rows(key[0], slots[key])
            _put(found[key], int(own["rank"]), own, one.values)
    return [_table(key[0], slots[key], kept) for key, kept in found.items()]


def row_of(series: Series) -> Row:
    """Return the row of a series that a question gave."""
    times = [round(when * 1000) for when, _ in series.samples]
    return Row(series.labels, times[0], times[-1], [value for _, value in series.samples])


def shards(workers: int, most: int) -> Iterator[str]:
    """Yield regular expressions of last digits that share out all ranks, some ``most`` of ``workers`` to each."""
    digits = 0
    while workers > most * 10**digits:
        digits += 1
    if not digits:
        yield ".*"
        return
    for ending in range(10**digits):
        short = f"|{ending}" if ending < 10 ** (digits - 1) else ""
        yield f".*{ending:0{digits}}{short}"


def _is_whole(row: Row, slots: int) -> bool:
    """Return whether the samples are the slots of one vector, a step after the other."""
    return len(row.values) == slots and row.last - row.first == (slots - 1) * STEP_MILLIS


def _rows(part: str, slots: Sequence[Slot]) -> _Rows:
    fine = np.array([at for at, one in enumerate(slots) if part == SHARE and one.name not in _PATTERNS], np.int64)
    return _Rows(np.empty((_FIRST_ROWS, len(slots)), _TYPES[part]), np.empty((_FIRST_ROWS, fine.size)), fine)


def _put(rows: _Rows, rank: int, own: Mapping[str, str], values: Sequence[float]) -> None:
    row = rows.who.setdefault(rank, len(rows.who))
    if row == len(rows.values):
        rows.values = np.concatenate([rows.values, np.empty_like(rows.values)])
        rows.fine = np.concatenate([rows.fine, np.empty_like(rows.fine)])
    if row == len(rows.hosts):
        rows.hosts.append(own["host"])
        rows.roles.append(own["role"])
    exact = np.array(values)
    rows.values[row] = exact
    rows.fine[row] = exact[rows.fine_slots]


def _table(part: str, slots: tuple[Slot, ...], rows: _Rows) -> Table:
    ranks = np.fromiter(rows.who, np.int64, len(rows.who))
    values, fine = rows.values[: ranks.size], rows.fine[: ranks.size]
    for told in (values, fine):
        told[told < 0] = np.nan
    place = np.full(len(slots), -1, np.int64)
    place[rows.fine_slots] = np.arange(rows.fine_slots.size)
    return Table(part, slots, ranks, tuple(rows.hosts), tuple(rows.roles), values, fine, place)


def columns_of(table: Table, name: str) -> Iterator[tuple[Slot, NDArray[np.float32] | NDArray[np.float64]]]:
    """Yield the slots of a series with their values, [W] each."""
    for at, slot in enumerate(table.slots):
        if slot.name == name:
            place = int(table.place[at])
            yield slot, table.values[:, at] if place < 0 else table.fine[:, place]
