"""Seconds per iteration of one unit on each worker: takes columns and a key, gives wall, CPU and noise arrays.

A unit is what a finding can be about: one function, the functions of one name (the same Python function is reached by
    several stacks), a family, the own work of a kind, or all own work. Formula: beta x window / iterations, on the
    CPU the same x mu of cpu.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from eroica_otel.localize.columns import Batch, Bools, Columns, Doubles, Floats
from eroica_otel.model import KINDS

Key = tuple[str, ...]
"""("function", kind, family, id), ("name", kind, family, name), ("family", kind, family), ("kind", kind) or ("own",).
"""

OWN: Key = ("own",)
_OWN_KINDS = tuple(kind for kind in KINDS if kind != "communication")
_UNMEASURED = 0.1
"""Share of a unit's time without CPU samples above which its CPU seconds are unknown."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """One unit over all workers, seconds per iteration, [W].

    Attributes:
        total: Wall time that is known to be the unit's.
        most: Wall time that it can be, with what the worker's budget cut off; peers and the reference count as this.
        on: CPU time, NaN unknown.
        present: Whether the worker reported any of it.
        noise: Standard deviation over sub-windows, NaN unknown.
        rough: Wall time of those members whose noise is unknown.
    """

    total: Floats
    most: Floats
    on: Floats
    present: Bools
    noise: Floats
    rough: Floats


def measure(columns: Columns, key: Key) -> Seconds:
    """Return the seconds of a unit on each worker; a unit that nobody has is 0 everywhere and present nowhere."""
    size = len(columns.workers)
    sums = np.zeros((6, size))
    for batch in columns.batches(members(columns, key)):
        for row, values in zip(sums, _terms(columns, batch), strict=True):
            row += batch.sum(values)
    total, unmeasured, on, variance, measured, rough = sums
    present = columns.have(members(columns, key))
    cut = _cut_off(columns, key)
    whole = total + cut if key[0] in ("kind", "own") else total
    most = np.where(present, total, cut) if key[0] == "function" else total + cut
    return Seconds(
        total=whole.astype(np.float32),
        most=most.astype(np.float32),
        on=np.where(unmeasured > _UNMEASURED * total, np.nan, on).astype(np.float32),
        present=present,
        noise=np.where(measured > 0, np.sqrt(variance), np.nan).astype(np.float32),
        rough=rough.astype(np.float32),
    )


def totals(columns: Columns, key: Key) -> Floats:
    """Return the wall time of a unit alone, as ``measure`` does, [W]."""
    total = np.zeros(len(columns.workers))
    for batch in columns.batches(members(columns, key)):
        total += batch.sum(_seconds(columns, batch))
    return (total + _cut_off(columns, key) if key[0] in ("kind", "own") else total).astype(np.float32)


def _seconds(columns: Columns, batch: Batch) -> Doubles:
    iteration = columns.iteration if batch.plain else columns.iteration[batch.worker]
    return columns.beta[batch.entries].astype(np.float64) * iteration


def _terms(columns: Columns, batch: Batch) -> Iterator[Doubles]:
    """Yield what is summed: seconds, those without CPU samples, CPU seconds, variance, whether it is known, seconds
    of what has none.
    """
    seconds = _seconds(columns, batch)
    use = np.where(columns.of_cpu[batch.entries], columns.mu[batch.entries], np.nan)
    known = np.isfinite(use)
    yield seconds
    yield np.where(known, 0, seconds)
    yield np.where(known, seconds * use, 0)
    noise = columns.noise[batch.entries].astype(np.float64)
    quiet = np.isfinite(noise)
    yield np.where(quiet, noise**2, 0)
    yield quiet.astype(np.float64)
    yield np.where(quiet, 0, seconds)


def members(columns: Columns, key: Key) -> tuple[int, ...]:
    """Return the indices of the functions of a unit."""
    if key == OWN:
        return tuple(at for at, function in enumerate(columns.functions) if function.own)
    return columns.groups.get(key, ())


def _cut_off(columns: Columns, key: Key) -> Doubles:
    """What the workers' budget cut off: all of it is the kind's, any of it may be a family's, a function is
    at most the floor.
    """
    if key[0] == "function":
        floors = np.where(columns.workers.dropped > 0, columns.workers.floor, 0.0) * columns.iteration
        return np.asarray(np.nan_to_num(floors), np.float64)
    kinds = _OWN_KINDS if key == OWN else key[1:2]
    return np.asarray(sum((columns.cut[kind] for kind in kinds), np.zeros(len(columns.workers))), np.float64)
