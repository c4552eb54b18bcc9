"""WorkerWindows -> table, and tables of some workers -> one table of all. Nothing is left out here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import accumulate, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eroica_otel.model import HOST_RATES, HOST_RATIOS, KINDS, Pattern, WorkerWindow
from eroica_otel.table import (
    Bools,
    Calls,
    Codes,
    Doubles,
    Floats,
    Function,
    Ints,
    Table,
    Unknown,
    Words,
    Workers,
    not_measured,
)

LINKS = ("nic_tx", "nic_rx", "nvlink")
"""Whose rates patterns carry."""
_AT_ONCE = 256
"""Windows that are objects at the same time."""


def table_of(windows: Sequence[WorkerWindow]) -> Table:
    """Return the table of these windows, a row each in their order."""
    patterns = [pattern for window in windows for pattern in window.patterns]
    counts = np.fromiter((len(window.patterns) for window in windows), np.int64)
    worker = np.repeat(np.arange(counts.size, dtype=np.int32), counts)
    known: dict[Function, int] = {}
    function = np.fromiter((known.setdefault(_function(p), len(known)) for p in patterns), np.int32)
    return Table(
        workers_of(windows), tuple(known), worker, function,
        beta=_floats(pattern.beta for pattern in patterns),
        mu=_floats(pattern.mu for pattern in patterns),
        sigma=_floats(pattern.sigma for pattern in patterns),
        noise=_floats(pattern.noise_seconds for pattern in patterns),
        calls=_calls(patterns, worker, function),
        unknown=_unknown(windows),
    )  # fmt: skip


def _function(pattern: Pattern) -> Function:
    return Function(
        pattern.function_id, pattern.function, pattern.kind, pattern.family, pattern.stack, pattern.resource
    )


def _floats(values: Iterable[float | None]) -> Floats:
    with np.errstate(over="ignore"):  # what is too large for 32 bits is infinite there, and so as unusable
        return _doubles(values).astype(np.float32)


def _doubles(values: Iterable[float | None]) -> Doubles:
    return np.fromiter((math.nan if value is None else value for value in values), np.float64)


def _calls(patterns: Sequence[Pattern], worker: Codes, function: Codes) -> Calls:
    found = [(at, one) for at, pattern in enumerate(patterns) for one in pattern.collectives]
    at = np.array([entry for entry, _ in found], np.int64)
    return Calls(
        worker[at], function[at], Words.of(one.group for _, one in found),
        count=_doubles(one.calls for _, one in found),
        call_bytes=_doubles(one.bytes / one.calls if one.bytes and one.calls > 0 else None for _, one in found),
        fastest_seconds=_doubles(one.fastest_seconds for _, one in found),
    )  # fmt: skip


def workers_of(windows: Sequence[WorkerWindow]) -> Workers:
    """Return what these windows say beside their patterns."""
    who = [window.identity for window in windows]
    return Workers(
        rank=_ints(each.rank for each in who),
        training_job=Words.of(each.training_job for each in who),
        host=Words.of(each.host for each in who),
        role=Words.of(each.role for each in who),
        world_size=_ints(each.world_size for each in who),
        window_id=_ints(w.window_id for w in windows),
        reason=Words.of(w.reason for w in windows),
        signature=Words.of(w.signature for w in windows),
        seconds=_doubles(w.seconds for w in windows),
        iterations=_ints(w.iterations for w in windows),
        floor=_doubles(w.floor for w in windows),
        dropped=_ints(w.dropped for w in windows),
        cpu_seconds=_doubles(w.cpu_seconds for w in windows),
        sampler_gap_seconds=_doubles(w.sampler_gap_seconds for w in windows),
        throttled_ratio=_doubles(w.throttled_ratio for w in windows),
        run_delay_ratio=_doubles(w.run_delay_ratio for w in windows),
        stopped_seconds=_doubles(w.stopped_seconds for w in windows),
        end_timestamp_seconds=_doubles(w.end_timestamp_seconds for w in windows),
        kinds=_by_name([w.kinds for w in windows], (*KINDS, "idle")),
        host_use=_by_name([w.host_use for w in windows], (*HOST_RATIOS, *HOST_RATES)),
        peaks=_by_name([_peaks(w) for w in windows], LINKS),
    )


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int64)


def _by_name(rows: Sequence[Mapping[str, float]], names: Iterable[str]) -> dict[str, Doubles]:
    return {name: _doubles(row.get(name) for row in rows) for name in names if any(name in row for row in rows)}


def _unknown(windows: Sequence[WorkerWindow]) -> Unknown:
    found = [(at, name, *one) for at, window in enumerate(windows) for name, one in window.unknown.items()]
    return Unknown(
        np.array([at for at, *_ in found], np.int32),
        Words.of(name for _, name, *_ in found),
        _doubles(events for *_, events, _ in found),
        _doubles(seconds for *_, seconds in found),
    )


def _peaks(window: WorkerWindow) -> dict[str, float]:
    """Largest rate of each link over the communication functions."""
    found: dict[str, float] = {}
    for pattern in window.patterns:
        for name, rate in pattern.peaks.items() if pattern.kind == "communication" else ():
            if math.isfinite(rate) and rate >= 0:
                found[name] = max(rate, found.get(name, 0.0))
    return found


def in_parts(windows: Iterable[WorkerWindow]) -> Table:
    """Return the table of these windows, of which only some are held as objects at a time."""
    given, parts = iter(windows), []
    while some := list(islice(given, _AT_ONCE)):
        parts.append(table_of(some))
    return joined(parts)


def joined(parts: Sequence[Table]) -> Table:
    """Return the rows of all parts, those of the first first: the table of all windows where each part is of some."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Table.empty()
    known: dict[Function, int] = {}
    numbers = [np.array([known.setdefault(one, len(known)) for one in part.functions], np.int32) for part in parts]
    before = [0, *accumulate(len(part.workers) for part in parts)]

    def rows(of: Sequence[Codes]) -> Codes:
        return np.concatenate([worker + np.int32(first) for worker, first in zip(of, before, strict=False)])

    calls = [part.calls for part in parts]
    return Table(
        _workers_joined([part.workers for part in parts]), tuple(known),
        worker=rows([part.worker for part in parts]), function=_renumbered(parts, numbers),
        beta=np.concatenate([part.beta for part in parts]),
        mu=_glued([part.mu for part in parts]),
        sigma=_glued([part.sigma for part in parts]),
        noise=_glued([part.noise for part in parts]),
        calls=Calls(
            rows([each.worker for each in calls]),
            np.concatenate([number[each.function] for number, each in zip(numbers, calls, strict=True)]),
            _words([each.group for each in calls]),
            *(_told([each.amounts[at] for each in calls], [each.worker.size for each in calls]) for at in range(3)),
        ),
        unknown=Unknown(
            rows([part.unknown.worker for part in parts]),
            _words([part.unknown.category for part in parts]),
            np.concatenate([part.unknown.events for part in parts]),
            np.concatenate([part.unknown.seconds for part in parts]),
        ),
    )  # fmt: skip


def taken(table: Table, which: Bools) -> Table:
    """Return the rows of some workers, [W] true: in the same order, with everything that is about them."""
    if which.all():
        return table
    place = (np.cumsum(which) - 1).astype(np.int32)
    kept, calls, unknown = which[table.worker], which[table.calls.worker], which[table.unknown.worker]
    return replace(
        table, workers=table.workers.at(np.flatnonzero(which)), worker=place[table.worker[kept]],
        function=table.function[kept], beta=table.beta[kept], mu=table.mu[kept], sigma=table.sigma[kept],
        noise=table.noise[kept],
        calls=replace(table.calls.at(np.flatnonzero(calls)), worker=place[table.calls.worker[calls]]),
        unknown=Unknown(
            place[table.unknown.worker[unknown]], table.unknown.category.at(np.flatnonzero(unknown)),
            table.unknown.events[unknown], table.unknown.seconds[unknown],
        ),
    )  # fmt: skip


def _renumbered(parts: Sequence[Table], numbers: Sequence[Codes]) -> Codes:
    return np.concatenate([number[part.function] for number, part in zip(numbers, parts, strict=True)])


def _glued(columns: Sequence[Floats]) -> Floats:
    """Return the columns as one; what nobody measured takes no memory here either."""
    if all(column.strides == (0,) and np.isnan(column[:1]).all() for column in columns):
        return not_measured(sum(column.size for column in columns))
    return np.concatenate(columns)


def _told(columns: Sequence[Doubles | None], sizes: Sequence[int]) -> Doubles | None:
    if all(column is None for column in columns):
        return None
    return np.concatenate(
        [np.full(size, np.nan) if column is None else column for column, size in zip(columns, sizes, strict=True)]
    )


def _words(columns: Sequence[Words]) -> Words:
    known: dict[str, int] = {}
    codes = [
        np.array([known.setdefault(name, len(known)) for name in column.names], np.int32)[column.codes]
        for column in columns
    ]
    return Words(tuple(known), np.concatenate(codes))


def _workers_joined(parts: Sequence[Workers]) -> Workers:
    return Workers(
        **{item.name: _column([getattr(part, item.name) for part in parts], parts) for item in fields(Workers)}
    )


def _column(columns: Sequence[Any], parts: Sequence[Workers]) -> Any:
    if isinstance(columns[0], Words):
        return _words(columns)
    if isinstance(columns[0], Mapping):
        return {name: _named(name, columns, parts) for name in dict.fromkeys(_names(columns))}
    return np.concatenate(columns)


def _names(columns: Sequence[Mapping[str, Doubles]]) -> Iterator[str]:
    for column in columns:
        yield from column


def _named(name: str, columns: Sequence[Mapping[str, Doubles]], parts: Sequence[Workers]) -> NDArray[np.float64]:
    nothing = (np.full(len(part), np.nan) for part in parts)
    return np.concatenate([column.get(name, empty) for column, empty in zip(columns, nothing, strict=True)])
