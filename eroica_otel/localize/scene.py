"""The window with all that judging needs beside it: takes columns of now and of the reference, gives one Scene.

Peers, the reference of each worker, the time without a core and the time spent waiting for others are worked out
once, here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from eroica_otel.localize.columns import Bools, Columns, Floats, Ints
from eroica_otel.localize.compare import by_group, median, peers_median
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.roles import groups_of
from eroica_otel.localize.seconds import OWN, Key, Seconds, measure, totals
from eroica_otel.table import Words


@dataclass(frozen=True, slots=True)
class Scene:
    """One window; arrays are over workers [W], times in seconds per iteration.

    Attributes:
        roles: Peer role of each worker.
        groups: Worker indices of each role.
        reference: Columns of the reference, None without one.
        position: Index of the worker, or of the medians of its role, in the reference, -1 where it has none.
        iteration: Median length of an iteration.
        delay_excess: Time without a core above the peers' median, 0 where unknown.
        delay_growth: Time without a core above the reference, 0 where unknown.
        lost_excess: Time that is nobody's: without a core above the peers, or the longest time in which no stack could
            be read, whichever is more. That one is a single event, which is no evidence of what an iteration takes,
            and in which any frame can be the one that stands still.
        lost_growth: The same above the reference.
        silence: That single event alone, 0 where unknown.
        idle_excess: Time above the peers' median that may have passed without a core: Python, and of operators what was
            no CPU time.
        idle_growth: The same above the reference, NaN without one.
        throttle_excess: Share of the window throttled above the peers' median, 0 where unknown.
        thread_excess: CPU time of the training thread above the peers' median, NaN unknown.
        thread_growth: The same above the reference, NaN unknown.
        own_excess: All own work above the peers' median.
        own_growth: The same above the reference, NaN without one.
        waiting: Time in communication and in Python wait frames.
        waiting_noise: Standard deviation of that, NaN unknown.
        waiting_growth: Change of that against the reference, NaN without one.
    """

    columns: Columns
    policy: Policy
    roles: Words
    groups: tuple[Ints, ...]
    reference: Columns | None
    position: Ints
    iteration: float
    delay_excess: Floats
    delay_growth: Floats
    lost_excess: Floats
    lost_growth: Floats
    silence: Floats
    idle_excess: Floats
    idle_growth: Floats
    throttle_excess: Floats
    thread_excess: Floats
    thread_growth: Floats
    own_excess: Floats
    own_growth: Floats
    waiting: Floats
    waiting_noise: Floats
    waiting_growth: Floats

    @property
    def size(self) -> int:
        """Workers."""
        return len(self.roles)

    def mask(self, workers: Collection[int]) -> Bools:
        """Return which workers these are, [W]."""
        result = np.zeros(self.size, bool)
        result[np.fromiter(workers, np.int64, len(workers))] = True
        return result

    def of_roles(self, workers: Sequence[int]) -> Bools:
        """Return who has the role of one of these workers, [W]."""
        return self.roles.among(self.roles.distinct(workers))

    @property
    def reference_iteration(self) -> float:
        """Median length of an iteration in the reference, NaN without one."""
        return math.nan if self.reference is None else self.reference.iteration_seconds

    @property
    def degraded(self) -> bool:
        """Whether the trigger opened the window: then the job is slower for certain, whatever the reason."""
        return self.columns.workers.reason[0] in ("degraded", "blocked")

    @property
    def growth(self) -> float:
        """Seconds by which an iteration is longer than in the reference, NaN without one."""
        return self.iteration - self.reference_iteration


def scene_of(columns: Columns, reference: Columns | None, roles: Words, policy: Policy) -> Scene:
    """Return the scene of a window with at least one worker."""
    groups = groups_of(roles)
    position = _positions(columns, roles, reference)

    def above(values: Floats) -> Floats:
        return values - by_group(values, groups, peers_median)

    def since(now: Floats, before: Floats | None) -> Floats:
        return np.full_like(now, np.nan) if before is None else now - to_workers(before, position, groups)

    delay = columns.delay * columns.iteration
    idle = _idle(columns)
    waiting, earlier = _waiting(columns), None if reference is None else _waiting(reference)
    delay_excess = _positive(above(delay))
    delay_growth = _positive(since(delay, None if reference is None else reference.delay * reference.iteration))
    silence = _silence(columns, policy)
    own = totals(columns, OWN)
    return Scene(
        columns, policy, roles, groups, reference, position, columns.iteration_seconds,
        delay_excess=delay_excess,
        delay_growth=delay_growth,
        lost_excess=np.fmax(delay_excess, silence),
        lost_growth=np.fmax(delay_growth, silence),
        silence=silence,
        idle_excess=above(idle),
        idle_growth=since(idle, None if reference is None else _idle(reference)),
        throttle_excess=_positive(above(columns.throttle)),
        thread_excess=above(columns.cpu),
        thread_growth=since(columns.cpu, None if reference is None else reference.cpu),
        own_excess=above(own),
        own_growth=since(own, None if reference is None else totals(reference, OWN)),
        waiting=waiting.total,
        waiting_noise=waiting.noise if earlier is None else to_workers(earlier.noise, position, groups),
        waiting_growth=since(waiting.total, None if earlier is None else earlier.total),
    )  # fmt: skip


def _positions(columns: Columns, roles: Words, reference: Columns | None) -> Ints:
    """Index of each worker in the reference, else of its role's row, -1 where there is none; both are sorted by rank.

    A row of a role holds the medians of its workers and has a negative rank.
    """
    if reference is None:
        return np.full(len(columns.workers), -1, np.int64)
    at = np.minimum(np.searchsorted(reference.ranks, columns.ranks), len(reference.workers) - 1)
    whole = {reference.workers.role[row]: row for row in np.flatnonzero(reference.ranks < 0).tolist()}
    of_role = np.array([whole.get(role, -1) for role in roles.names], np.int64)[roles.codes]
    return np.where(reference.ranks[at] == columns.ranks, at, of_role)


def _silence(columns: Columns, policy: Policy) -> Floats:
    """The longest silence of each worker, seconds per iteration, [W]; 0 where it is one of every window."""
    long = np.nan_to_num(columns.silence * columns.workers.iterations) >= policy.silence_least_seconds
    return np.where(long, columns.silence, 0).astype(np.float32)


def _positive(values: Floats) -> Floats:
    """What is unknown or below the peers takes nothing off anybody."""
    return np.nan_to_num(np.fmax(values, 0)).astype(np.float32)


def to_workers(values: Floats, position: Ints, groups: tuple[Ints, ...]) -> Floats:
    """Return a column of the reference in the order of the workers; who was not in it gets the median of its peers."""
    own = np.where(position >= 0, values[np.fmax(position, 0)], np.nan).astype(np.float32)
    overall = median(values)
    for group in groups:
        missing = group[position[group] < 0]
        if missing.size:
            peers = median(own[group])
            own[missing] = peers if math.isfinite(peers) else overall
    return own


def _idle(columns: Columns) -> Floats:
    """Time of own work in which the worker may have had no core, [W]; operators that are not timed on the CPU have
    none.
    """
    result = totals(columns, ("kind", "python"))
    for kind in ("compute", "memory", "host"):
        unit = measure(columns, ("kind", kind))
        result = result + np.nan_to_num(np.fmax(unit.total - unit.on, 0))
    return np.asarray(result, np.float32)


_WAITS: tuple[Key, ...] = (("kind", "communication"), ("family", "python", "wait"))


def _waiting(columns: Columns) -> Seconds:
    """Time in which a worker waits for others or transfers; what is transferred is the same on all of a group, so
    gaps are free of it.
    """
    communication, wait = (measure(columns, key) for key in _WAITS)
    noise = np.sqrt(np.nan_to_num(communication.noise) ** 2 + np.nan_to_num(wait.noise) ** 2).astype(np.float32)
    noise[~np.isfinite(communication.noise) & ~np.isfinite(wait.noise)] = np.nan
    return Seconds(
        communication.total + wait.total,
        communication.most + wait.most,
        communication.on + wait.on,
        communication.present | wait.present,
        noise,
        communication.rough + wait.rough,
    )
