"""A healthy window of many workers -> one window for each peer role, of the medians of its workers.

What a large job keeps as its reference: a million workers' windows would be gigabytes. Ranks are negative, so that
nobody takes such a window for a worker's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from eroica_otel.localize.columns import Columns, Doubles, Floats, Ints, columns_of
from eroica_otel.localize.compare import median
from eroica_otel.localize.distances import pattern_of
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.roles import groups_of, peer_roles
from eroica_otel.localize.selection import select
from eroica_otel.model import Identity, Pattern, WorkerWindow
from eroica_otel.table import Table


def medians_of(table: Table, policy: Policy = Policy()) -> tuple[WorkerWindow, ...]:  # noqa: B008 - frozen
    """Return a window for each peer role; none where no worker finished an iteration."""
    rows = select(table.workers).judged
    if not rows.size:
        return ()
    columns = columns_of(table, rows)[0]
    roles = peer_roles(columns, policy)
    groups = groups_of(roles)
    patterns = _patterns(columns, groups)
    return tuple(
        _window(columns, group, Identity(
            training_job=columns.workers.training_job[0], rank=-1 - at, host="", role=roles[int(group[0])],
            world_size=int(columns.workers.world_size.max()),
        ), patterns[at])
        for at, group in enumerate(groups)
    )  # fmt: skip


def _patterns(columns: Columns, groups: tuple[Ints, ...]) -> list[list[Pattern]]:
    """Return the patterns of each role; a function that half of its workers do not have is none of it."""
    found: list[list[Pattern]] = [[] for _ in groups]
    for at, function in enumerate(columns.functions):
        entries = slice(int(columns.starts[at]), int(columns.starts[at + 1]))
        pattern, noise = pattern_of(columns, at), np.full(len(columns.workers), np.nan, np.float32)
        noise[columns.worker[entries]] = columns.noise[entries]
        for patterns, group in zip(found, groups, strict=True):
            beta = median(pattern[group, 0])
            if beta > 0:
                mu, sigma, apart = (_known(median(each[group])) for each in (pattern[:, 1], pattern[:, 2], noise))
                patterns.append(Pattern(
                    function.id, function.name, function.kind, function.family, function.resource, beta, mu, sigma,
                    apart, stack=function.stack,
                ))  # fmt: skip
    return [sorted(patterns, key=lambda one: -one.beta) for patterns in found]


def _window(columns: Columns, group: Ints, who: Identity, patterns: list[Pattern]) -> WorkerWindow:
    workers = columns.workers.at(group)
    iterations = max(int(np.median(workers.iterations)), 1)

    def per_iteration(values: Doubles) -> float:
        """Scale what each worker spent to the iterations of the median."""
        return _middle(values / workers.iterations) * iterations

    return WorkerWindow(
        identity=who,
        window_id=int(workers.window_id[0]),
        reason=workers.reason[0],
        seconds=per_iteration(workers.seconds),
        iterations=iterations,
        patterns=tuple(_with_peaks(patterns, _medians(workers.peaks))),
        kinds=_medians(workers.kinds),
        floor=float(np.median(workers.floor)),
        dropped=int(np.median(workers.dropped)),
        cpu_seconds=_known(per_iteration(workers.cpu_seconds)),
        sampler_gap_seconds=_known(per_iteration(workers.sampler_gap_seconds)),
        throttled_ratio=_known(_middle(workers.throttled_ratio)),
        run_delay_ratio=_known(_middle(workers.run_delay_ratio)),
        signature=workers.signature.names[int(np.bincount(workers.signature.codes).argmax())],
        host_use=_medians(workers.host_use),
    )


def _with_peaks(patterns: list[Pattern], peaks: dict[str, float]) -> Iterator[Pattern]:
    """Yield the patterns, the first collective with the rates of links: of a worker the largest of all count."""
    for pattern in patterns:
        if pattern.kind == "communication" and peaks:
            yield replace(pattern, peaks=peaks)
            peaks = {}
        else:
            yield pattern


def _medians(columns: Mapping[str, Doubles]) -> dict[str, float]:
    found = {name: _middle(values) for name, values in columns.items()}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _middle(values: Doubles | Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else math.nan


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
