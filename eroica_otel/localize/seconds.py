"""Seconds per iteration of one unit on each worker: takes columns and a key, gives wall, CPU and noise arrays.

A unit is what a finding can be about: one function, the functions of one name (the same Python function is reached by
    several stacks), a family, the own work of a kind, or all own work. Formula: beta x window / iterations, on the
    CPU the same x mu of cpu.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eroica_otel.localize.columns import Bools, Columns, Floats, Ints
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
    entries = columns.entries(members(columns, key))
    worker = columns.worker[entries]
    seconds = columns.beta[entries].astype(np.float64) * columns.iteration[worker]
    size = len(columns.windows)
    use = columns.cpu_use[entries]
    known = np.isfinite(use)
    noise = columns.noise[entries].astype(np.float64)
    quiet = np.isfinite(noise)
    total = _sum(worker, seconds, size)
    unmeasured = _sum(worker[~known], seconds[~known], size)
    on = _sum(worker[known], seconds[known] * use[known], size)
    variance = _sum(worker[quiet], noise[quiet] ** 2, size)
    present = np.bincount(worker, minlength=size) > 0
    cut = _cut_off(columns, key)
    whole = total + cut if key[0] in ("kind", "own") else total
    most = np.where(present, total, cut) if key[0] == "function" else total + cut
    return Seconds(
        total=whole.astype(np.float32),
        most=most.astype(np.float32),
        on=np.where(unmeasured > _UNMEASURED * total, np.nan, on).astype(np.float32),
        present=np.asarray(present, bool),
        noise=np.where(_sum(worker[quiet], np.ones(int(quiet.sum())), size) > 0, np.sqrt(variance), np.nan).astype(
            np.float32
        ),
        rough=_sum(worker[~quiet], seconds[~quiet], size).astype(np.float32),
    )


def members(columns: Columns, key: Key) -> tuple[int, ...]:
    """Return the indices of the functions of a unit."""
    if key == OWN:
        return tuple(at for at, function in enumerate(columns.functions) if function.own)
    return columns.groups.get(key, ())


def _sum(worker: Ints, weights: np.ndarray[tuple[int, ...], np.dtype[np.float64]], size: int) -> np.ndarray[
    tuple[int, ...], np.dtype[np.float64]
]:  # fmt: skip
    return np.bincount(worker, weights, minlength=size).astype(np.float64)


def _cut_off(columns: Columns, key: Key) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """What the workers' budget cut off: all of it is the kind's, any of it may be a family's, a function is
    at most the floor.
    """
    if key[0] == "function":
        floors = np.array([w.floor if w.dropped > 0 else 0.0 for w in columns.windows]) * columns.iteration
        return np.asarray(np.nan_to_num(floors), np.float64)
    kinds = _OWN_KINDS if key == OWN else key[1:2]
    return np.asarray(sum((columns.cut[kind] for kind in kinds), np.zeros(len(columns.windows))), np.float64)
