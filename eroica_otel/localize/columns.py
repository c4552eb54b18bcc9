"""WorkerWindows -> columns: takes what workers reported, gives arrays over workers and patterns, and notes on what is
left out.

Nothing is judged here. Hostile input (duplicates, NaN, empty windows) ends here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eroica_otel.model import KINDS, Pattern, WorkerWindow

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_SLACK = 1.001
"""Shares may pass 1 by rounding."""


@dataclass(frozen=True, slots=True)
class Function:
    """What all workers call by one function_id."""

    id: str
    name: str
    kind: str
    family: str
    stack: tuple[str, ...]

    @property
    def own(self) -> bool:
        """Whether its time is the worker's own work; the rest is how a victim looks, so it is never an excess."""
        waits = {"communication": True, "python": self.family == "wait", "host": self.family == "sync"}
        return not waits.get(self.kind, False)


@dataclass(frozen=True, slots=True)
class Columns:
    """Workers [W] sorted by rank and their patterns [N] sorted by function.

    Attributes:
        windows: The judged windows.
        iteration: Seconds per iteration, shape [W].
        delay: Share of the window spent waiting for a core (run delay or throttle, the larger), NaN unknown, [W].
        silence: Longest time in which no stack could be read, seconds per iteration, NaN unknown, [W].
        throttle: Share of the window throttled, NaN unknown, [W].
        cpu: CPU seconds of the training thread per iteration, NaN unknown, [W].
        functions: Distinct functions [F].
        starts: Patterns of function f are starts[f]:starts[f + 1], [F + 1].
        worker: Index of the worker, [N].
        beta, mu, sigma: The pattern, mu and sigma NaN where missing, [N].
        noise: Seconds per iteration, NaN unknown, [N].
        cpu_use: Use of the CPU, NaN where the resource was another, [N].
        cut: Seconds per iteration of each kind that no pattern shows, 0 unless all workers report the sum of the kind.
        groups: Function indices by the keys of seconds.Key; ("kind", kind) holds own work only, communication apart.
    """

    windows: tuple[WorkerWindow, ...]
    iteration: Floats
    delay: Floats
    silence: Floats
    throttle: Floats
    cpu: Floats
    functions: tuple[Function, ...]
    starts: Ints
    worker: Ints
    beta: Floats
    mu: Floats
    sigma: Floats
    noise: Floats
    cpu_use: Floats
    cut: Mapping[str, Floats]
    groups: Mapping[tuple[str, ...], tuple[int, ...]]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Rank of each worker."""
        return tuple(window.identity.rank for window in self.windows)

    @property
    def iteration_seconds(self) -> float:
        """Median length of an iteration, NaN without workers."""
        return float(np.median(self.iteration)) if self.iteration.size else math.nan

    def largest_beta(self) -> Floats:
        """Return the largest share that each function has on any worker, [F]."""
        return np.maximum.reduceat(self.beta, self.starts[:-1]) if self.functions else np.zeros(0, np.float32)

    def entries(self, functions: Sequence[int]) -> Ints:
        """Return the indices of all patterns of these functions."""
        if not functions:
            return np.zeros(0, np.int64)
        return np.concatenate([np.arange(self.starts[f], self.starts[f + 1]) for f in functions])


@dataclass(frozen=True, slots=True)
class Selection:
    """Windows that can be compared (iterations > 0), all that are sound, one per rank whatever their length, and what
    is to be said about the others.
    """

    judged: tuple[WorkerWindow, ...]
    sound: tuple[WorkerWindow, ...]
    single: tuple[WorkerWindow, ...]
    seen: frozenset[int]
    notes: tuple[str, ...]


def select(windows: Sequence[WorkerWindow]) -> Selection:
    """Return the windows of one window id that can be judged; duplicates of a rank are named and left out."""
    notes: list[str] = []
    ids = Counter(window.window_id for window in windows)
    newest = max(ids, key=lambda window_id: (ids[window_id], window_id), default=0)
    current = [window for window in windows if window.window_id == newest]
    if len(current) < len(windows):
        notes.append(f"{len(windows) - len(current)} reports belong to another window than {newest} and are not judged")
    counts = Counter(window.identity.rank for window in current)
    twice = sorted(rank for rank, count in counts.items() if count > 1)
    if twice:
        notes.append(f"{ranks_text(twice)} reported more than once under one identity and is not judged")
    single = sorted((w for w in current if counts[w.identity.rank] == 1), key=lambda w: w.identity.rank)
    sound = tuple(w for w in single if math.isfinite(w.seconds) and w.seconds > 0)
    judged = tuple(w for w in sound if w.iterations > 0)
    usable = {w.identity.rank for w in sound}
    broken = [w.identity.rank for w in single if w.identity.rank not in usable]
    if broken:
        notes.append(f"{ranks_text(broken)} reported no usable length of the window and is not judged")
    still = [w.identity.rank for w in sound if w.iterations <= 0]
    if still and judged:
        notes.append(
            f"{ranks_text(still)} finished no iteration in the window, so times per iteration cannot be compared"
        )
    return Selection(judged, sound, tuple(single), frozenset(counts), tuple(notes))


def ranks_text(ranks: Sequence[int], most: int = 8) -> str:
    """Return "rank 2", "ranks 0, 1, 3", or their number where a list would not be read."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) <= most:
        return f"ranks {', '.join(str(rank) for rank in ranks)}"
    return f"{len(ranks)} ranks ({', '.join(str(rank) for rank in ranks[:3])}, ...)"


def columns_of(windows: Sequence[WorkerWindow]) -> tuple[Columns, tuple[str, ...]]:
    """Return the columns of judged windows (sorted by rank, iterations > 0) and notes on patterns that were
    unusable.
    """
    index: dict[str, int] = {}
    functions: list[Function] = []
    rows: list[tuple[int, int, float, float, float, float, float]] = []
    broken = 0
    for worker, window in enumerate(windows):
        for pattern in window.patterns:
            if not _usable(pattern):
                broken += 1
                continue
            at = index.setdefault(pattern.function_id, len(functions))
            if at == len(functions):
                functions.append(_function(pattern))
            elif pattern.stack and not functions[at].stack:
                functions[at] = _function(pattern)
            rows.append((at, worker, *_numbers(pattern)))
    notes = (f"{broken} patterns hold no usable share or kind and are not judged",) if broken else ()
    return _assemble(tuple(windows), tuple(functions), rows), notes


def _usable(pattern: Pattern) -> bool:
    return pattern.kind in KINDS and math.isfinite(pattern.beta) and 0 <= pattern.beta <= _SLACK


def _function(pattern: Pattern) -> Function:
    return Function(pattern.function_id, pattern.function, pattern.kind, pattern.family, pattern.stack)


def _share(value: float | None) -> float:
    return min(max(value, 0.0), 1.0) if value is not None and math.isfinite(value) else math.nan


def _positive(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) and value >= 0 else math.nan


def _numbers(pattern: Pattern) -> tuple[float, float, float, float, float]:
    mu = _share(pattern.mu)
    use = mu if pattern.resource == "cpu" else math.nan
    return pattern.beta, mu, _share(pattern.sigma), _positive(pattern.noise_seconds), use


def _assemble(
    windows: tuple[WorkerWindow, ...],
    functions: tuple[Function, ...],
    rows: list[tuple[int, int, float, float, float, float, float]],
) -> Columns:
    table = np.array(rows, np.float64).reshape(-1, 7)
    table = table[np.argsort(table[:, 0], kind="stable")]
    which = table[:, 0].astype(np.int64)
    beta, mu, sigma, noise, use = (table[:, i].astype(np.float32) for i in range(2, 7))
    worker = table[:, 1].astype(np.int64)
    kind = np.array([KINDS.index(function.kind) for function in functions], np.int64)[which]
    iteration = _column(w.seconds / w.iterations for w in windows)
    throttle = _column(_share(w.throttled_ratio) for w in windows)
    run_delay = _column(_share(w.run_delay_ratio) for w in windows)
    return Columns(
        windows=windows,
        iteration=iteration,
        delay=np.fmax(throttle, run_delay),
        silence=_column(_positive(w.sampler_gap_seconds) / w.iterations for w in windows),
        throttle=throttle,
        cpu=_column(_positive(w.cpu_seconds) / w.iterations for w in windows),
        functions=functions,
        starts=np.searchsorted(which, np.arange(len(functions) + 1)).astype(np.int64),
        worker=worker,
        beta=beta, mu=mu, sigma=sigma, noise=noise, cpu_use=use,
        cut={
            name: _cut(windows, name, worker[kind == at], beta[kind == at]) * iteration for at, name in enumerate(KINDS)
        },
        groups=_groups(functions),
    )  # fmt: skip


def _cut(windows: tuple[WorkerWindow, ...], kind: str, worker: Ints, beta: Floats) -> Floats:
    sums = _column(w.kinds.get(kind, math.nan) for w in windows)
    shown = np.bincount(worker, beta, minlength=len(windows))
    return np.asarray(np.fmax(sums - shown, 0) if np.isfinite(sums).all() else 0 * shown, np.float32)


def _column(values: Iterator[float]) -> Floats:
    return np.fromiter(values, np.float32)


def _groups(functions: tuple[Function, ...]) -> dict[tuple[str, ...], tuple[int, ...]]:
    groups: dict[tuple[str, ...], list[int]] = {}
    for at, function in enumerate(functions):
        groups.setdefault(("function", function.kind, function.family, function.id), []).append(at)
        groups.setdefault(("name", function.kind, function.family, function.name), []).append(at)
        groups.setdefault(("family", function.kind, function.family), []).append(at)
        if function.own or function.kind == "communication":
            groups.setdefault(("kind", function.kind), []).append(at)
    return {key: tuple(members) for key, members in groups.items()}
