"""WorkerWindows -> table: takes what workers reported, gives the same as columns. Nothing is left out here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from eroica_otel.model import HOST_RATES, HOST_RATIOS, KINDS, Pattern, WorkerWindow
from eroica_otel.table import Calls, Codes, Doubles, Floats, Function, Ints, Table, Unknown, Words, Workers

LINKS = ("nic_tx", "nic_rx", "nvlink")
"""Whose rates patterns carry."""


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
