"""Table -> columns: takes rows of a table, gives arrays over workers and patterns, and notes on what is left out.

Nothing is judged here. Hostile input (NaN, shares that are none) ends here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from eroica_otel.model import KINDS
from eroica_otel.table import Bools as Bools
from eroica_otel.table import Calls, Codes, Table, Workers
from eroica_otel.table import Doubles as Doubles
from eroica_otel.table import Floats as Floats
from eroica_otel.table import Function as Function
from eroica_otel.table import Ints as Ints

_Value = TypeVar("_Value", bound=np.generic)

_SLACK = 1.001
"""Shares may pass 1 by rounding."""
_AT_ONCE = 1 << 21
"""Patterns that are summed at once: what they take beside the columns is some ten times 16 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Workers [W] sorted by rank and their patterns [N] sorted by function, then worker.

    Attributes:
        workers: What each worker reported.
        iteration: Seconds per iteration, shape [W].
        delay: Share of the window spent waiting for a core (run delay or throttle, the larger), NaN unknown, [W].
        silence: Longest time in which no stack could be read, seconds per iteration, NaN unknown, [W].
        throttle: Share of the window throttled, NaN unknown, [W].
        cpu: CPU seconds of the training thread per iteration, NaN unknown, [W].
        functions: Distinct functions [F].
        starts: Patterns of function f are starts[f]:starts[f + 1], [F + 1].
        everywhere: Whether each worker has exactly one pattern of the function, [F].
        largest: Largest share that each function has on any worker, [F].
        worker: Index of the worker, [N].
        beta, mu, sigma: The pattern, mu and sigma NaN where missing, [N].
        noise: Seconds per iteration, NaN unknown, [N].
        of_cpu: Whether mu is the use of the CPU, [N].
        calls: Process groups of collectives.
        cut: Seconds per iteration of each kind that no pattern shows, 0 unless all workers report the sum of the kind.
        groups: Function indices by the keys of seconds.Key; ("kind", kind) holds own work only, communication apart.
    """

    workers: Workers
    iteration: Floats
    delay: Floats
    silence: Floats
    throttle: Floats
    cpu: Floats
    functions: tuple[Function, ...]
    starts: Ints
    everywhere: Bools
    largest: Floats
    worker: Codes
    beta: Floats
    mu: Floats
    sigma: Floats
    noise: Floats
    of_cpu: Bools
    calls: Calls
    cut: Mapping[str, Floats]
    groups: Mapping[tuple[str, ...], tuple[int, ...]]

    @property
    def ranks(self) -> Ints:
        """Rank of each worker, [W]."""
        return self.workers.rank

    def named(self, workers: Sequence[int] | Ints | Bools) -> tuple[int, ...]:
        """Return the ranks of these workers, or of those that a mask marks."""
        return tuple(self.ranks[workers if isinstance(workers, np.ndarray) else list(workers)].tolist())

    @property
    def iteration_seconds(self) -> float:
        """Median length of an iteration, NaN without workers."""
        return float(np.median(self.iteration)) if self.iteration.size else math.nan

    def batches(self, functions: Sequence[int]) -> Iterator[Batch]:
        """Yield all patterns of these functions, in that order, in parts that fit into memory several times."""
        part: list[int] = []
        sizes = np.diff(self.starts)
        total = 0
        for function in functions:
            if part and total + sizes[function] > _AT_ONCE:
                yield self._batch(part)
                part, total = [], 0
            part.append(function)
            total += int(sizes[function])
        if part:
            yield self._batch(part)

    def _batch(self, functions: Sequence[int]) -> Batch:
        if len(functions) == 1:
            entries = slice(int(self.starts[functions[0]]), int(self.starts[functions[0] + 1]))
            return Batch(entries, self.worker[entries], len(self.workers), bool(self.everywhere[functions[0]]))
        parts = [np.arange(self.starts[f], self.starts[f + 1]) for f in functions]
        at = np.concatenate(parts)
        return Batch(at, self.worker[at], len(self.workers), False)

    def have(self, functions: Sequence[int]) -> Bools:
        """Return who has a pattern of one of these functions, [W]."""
        result = np.zeros(len(self.workers), bool)
        for batch in self.batches(functions):
            result[slice(None) if batch.plain else batch.worker] = True
        return result

    def shares(self, functions: Sequence[int]) -> Doubles:
        """Return the sum of the shares of these functions, [W]."""
        result = np.zeros(len(self.workers))
        for batch in self.batches(functions):
            result += batch.sum(self.beta[batch.entries])
        return result


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Patterns of some functions: their indices, their workers, and whether they are one of each worker in order."""

    entries: slice | Ints
    worker: Codes
    size: int
    plain: bool

    def sum(self, values: NDArray[np.floating]) -> Doubles:
        """Return the sums of ``values`` by worker, [W]."""
        if self.plain:
            return values.astype(np.float64)
        return np.bincount(self.worker, values, minlength=self.size).astype(np.float64, copy=False)


def ranks_text(ranks: Ints | Sequence[int], most: int = 8) -> str:
    """Return "rank 2", "ranks 0, 1, 3", or their number where a list would not be read."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) <= most:
        return f"ranks {', '.join(str(rank) for rank in ranks)}"
    return f"{len(ranks)} ranks ({', '.join(str(rank) for rank in ranks[:3])}, ...)"


class _Patterns(NamedTuple):
    """All patterns, [N] each."""

    function: Codes
    worker: Codes
    beta: Floats
    mu: Floats
    sigma: Floats
    noise: Floats
    of_cpu: Bools

    def at(self, which: Ints | Bools) -> _Patterns:
        return _Patterns(
            self.function[which], self.worker[which], self.beta[which], self.mu[which], self.sigma[which],
            self.noise[which], self.of_cpu[which],
        )  # fmt: skip


def columns_of(table: Table, rows: Ints) -> tuple[Columns, tuple[str, ...]]:
    """Return the columns of these rows (sorted by rank, iterations > 0) and notes on patterns that were unusable."""
    position = np.full(len(table.workers), -1, np.int32)
    position[rows] = np.arange(rows.size)
    of_cpu = np.array([function.resource == "cpu" for function in table.functions], bool)
    patterns = _Patterns(
        table.function,
        table.worker if _counts_up(position) else _looked_up(position, table.worker),
        table.beta, table.mu, table.sigma, table.noise, _looked_up(of_cpu, table.function),
    )  # fmt: skip
    usable, here = _usable(table), patterns.worker >= 0
    broken = int((here & ~usable).sum())
    notes = (f"{broken} patterns hold no usable share or kind and are not judged",) if broken else ()
    usable &= here
    if not usable.all():
        patterns = patterns.at(usable)
    functions, numbers = _merged(table.functions, patterns.function)
    if not _counts_up(numbers):
        patterns = patterns._replace(function=_looked_up(numbers, patterns.function))
    order = _order(patterns.function, patterns.worker)
    if order is not None:
        patterns = patterns.at(order)
    return _assemble(table.workers.at(rows), functions, patterns, _calls(table.calls, position, numbers)), notes


def _counts_up(values: Codes) -> bool:
    return np.array_equal(values, np.arange(values.size))


def _usable(table: Table) -> Bools:
    known = np.array([function.kind in KINDS for function in table.functions], bool)
    with np.errstate(invalid="ignore"):
        usable = (table.beta >= 0) & (table.beta <= _SLACK)  # NaN is neither
    if not known.all():
        usable &= known[table.function]
    return np.asarray(usable, bool)


def _merged(told: tuple[Function, ...], which: Codes) -> tuple[tuple[Function, ...], Codes]:
    """Return the functions that patterns are of, one for each id, and the number of each in their order of first
    appearance; -1: no pattern. Of several that share an id the first one with a stack speaks for all; what they
    measured is "" where it is not one and the same.
    """
    measured: dict[str, set[str]] = {}
    index: dict[str, int] = {}
    functions: list[Function] = []
    numbers = np.full(len(told), -1, np.int32)
    for variant in _appearing(which, len(told)):
        function = told[variant]
        at = index.setdefault(function.id, len(functions))
        measured.setdefault(function.id, set()).add(function.resource)
        if at == len(functions):
            functions.append(function)
        elif function.stack and not functions[at].stack:
            functions[at] = function
        numbers[variant] = at
    for at, function in enumerate(functions):
        known = measured[function.id] - {""}
        functions[at] = replace(function, resource=known.pop() if len(known) == 1 else "")
    return tuple(functions), numbers


def _appearing(which: Codes, count: int) -> list[int]:
    """Return the functions in the order in which they first appear."""
    found: dict[int, None] = {}
    for begin in range(0, which.size, _AT_ONCE):
        part = which[begin : begin + _AT_ONCE]
        heads = part[np.flatnonzero(np.diff(part, prepend=-1))]
        values, first = np.unique(heads, return_index=True)
        found |= dict.fromkeys(values[np.argsort(first)].tolist())
        if len(found) == count:
            break
    return list(found)


def _order(function: Codes, worker: Codes) -> Ints | None:
    """Return the order by function, then worker, stable; None where they are in it."""
    if _in_order(function, worker):
        return None
    if (worker[1:] < worker[:-1]).any():
        return np.lexsort((worker, function))
    # Numbers of 16 bits are sorted by radix, several times faster.
    small = function.astype(np.uint16) if function.max() < 1 << 16 else function
    return np.argsort(small, kind="stable")


def _in_order(function: Codes, worker: Codes) -> bool:
    for begin in range(0, function.size, _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE + 1)
        along = np.diff(function[part])
        if (along < 0).any() or ((along == 0) & (np.diff(worker[part]) < 0)).any():
            return False
    return True


def _looked_up(values: NDArray[_Value], codes: Codes) -> NDArray[_Value]:
    """Return values[codes]; at once numpy would make indices of 64 bits of all of them."""
    result = np.empty(codes.size, values.dtype)
    for begin in range(0, codes.size, _AT_ONCE):
        result[begin : begin + _AT_ONCE] = values[codes[begin : begin + _AT_ONCE]]
    return result


def _calls(calls: Calls, position: Codes, numbers: Codes) -> Calls:
    worker, function = position[calls.worker], numbers[calls.function]
    kept = np.flatnonzero((worker >= 0) & (function >= 0))
    return replace(calls.at(kept), worker=worker[kept], function=function[kept])


def _share(values: Doubles) -> Floats:
    return np.where(np.isfinite(values), np.clip(values, 0, 1), np.nan).astype(np.float32)


def _per_iteration(values: Doubles, workers: Workers) -> Floats:
    """What is negative or infinite is unknown."""
    with np.errstate(invalid="ignore", over="ignore"):
        return (np.where(np.isfinite(values) & (values >= 0), values, np.nan) / workers.iterations).astype(np.float32)


def _within(values: Floats) -> Floats:
    """Return shares cut to [0, 1], the infinite ones as NaN; no copy is made where all are so."""
    with np.errstate(invalid="ignore"):
        if not ((values < 0) | (values > 1) | np.isinf(values)).any():
            return values
    return np.where(np.isfinite(values), np.clip(values, 0, 1), np.nan).astype(np.float32)


def _assemble(workers: Workers, functions: tuple[Function, ...], patterns: _Patterns, calls: Calls) -> Columns:
    starts = np.searchsorted(patterns.function, np.arange(len(functions) + 1, dtype=np.int32)).astype(np.int64)
    throttle = _share(workers.throttled_ratio)
    noise = patterns.noise
    with np.errstate(invalid="ignore"):
        strange = (noise < 0) | np.isinf(noise)
    bare = Columns(
        workers=workers,
        iteration=(workers.seconds / workers.iterations).astype(np.float32),
        delay=np.fmax(throttle, _share(workers.run_delay_ratio)),
        silence=_per_iteration(workers.sampler_gap_seconds, workers),
        throttle=throttle,
        cpu=_per_iteration(workers.cpu_seconds, workers),
        functions=functions,
        starts=starts,
        everywhere=_everywhere(starts, patterns.worker, len(workers)),
        largest=np.maximum.reduceat(patterns.beta, starts[:-1]) if functions else np.zeros(0, np.float32),
        worker=patterns.worker,
        beta=patterns.beta,
        mu=_within(patterns.mu),
        sigma=_within(patterns.sigma),
        noise=np.where(strange, np.float32(np.nan), noise) if strange.any() else noise,
        of_cpu=patterns.of_cpu,
        calls=calls,
        cut={},
        groups=_groups(functions),
    )
    return replace(bare, cut={kind: _cut(bare, kind) for kind in KINDS})


def _everywhere(starts: Ints, worker: Codes, workers: int) -> Bools:
    everyone = np.arange(workers)
    found = [np.array_equal(worker[begin:end], everyone) for begin, end in pairwise(starts.tolist())]
    return np.array(found, bool)


def _cut(columns: Columns, kind: str) -> Floats:
    told = columns.workers.kinds.get(kind)
    if told is None or not np.isfinite(told).all():
        return np.zeros(len(columns.workers), np.float32)
    shown = columns.shares([at for at, function in enumerate(columns.functions) if function.kind == kind])
    return np.fmax(told.astype(np.float32) - shown, 0).astype(np.float32) * columns.iteration


def _groups(functions: tuple[Function, ...]) -> dict[tuple[str, ...], tuple[int, ...]]:
    groups: dict[tuple[str, ...], list[int]] = {}
    for at, function in enumerate(functions):
        groups.setdefault(("function", function.kind, function.family, function.id), []).append(at)
        groups.setdefault(("name", function.kind, function.family, function.name), []).append(at)
        groups.setdefault(("family", function.kind, function.family), []).append(at)
        if function.own or function.kind == "communication":
            groups.setdefault(("kind", function.kind), []).append(at)
    return {key: tuple(members) for key, members in groups.items()}
