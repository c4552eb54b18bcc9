"""The three published distances of one function at its culprits: takes a scene and a function, gives Delta, Gamma and
D.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eroica_otel.localize.columns import Bools, Columns, Floats, Ints
from eroica_otel.localize.compare import differing_share, outliers, outside, shared_peers, tolerance
from eroica_otel.localize.excess import Judgement
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.scene import Scene


@dataclass(frozen=True, slots=True)
class Distances:
    """Largest values over the workers asked for; None where they cannot be computed.

    Attributes:
        expectation: D, beta above the expected range.
        differential: Delta, share of the peers that differ, in [0, 1].
        drift: Gamma as a share of the iteration.
    """

    expectation: float | None
    differential: float | None
    drift: float | None


def distances(scene: Scene, function: int, judgement: Judgement | None, workers: Sequence[int]) -> Distances:
    """Return the distances of a function at these workers (all of them where ``workers`` is empty: medians, and no
    Delta).
    """
    pattern = pattern_of(scene.columns, function)
    kind = scene.columns.functions[function].kind
    apart = outside(pattern[:, 0], scene.policy.expected(kind))
    drift = np.full(1, np.nan) if judgement is None else judgement.drift / scene.iteration
    if not workers:
        return Distances(_known(float(np.median(apart))), None, _known(float(np.median(drift))))
    at = np.array(workers, np.int64)
    delta = differential(scene, function, scene.mask(workers))
    return Distances(_known(float(apart[at].max())), _known(_largest(delta[at])), _known(_largest(drift[at])))


def differential(scene: Scene, function: int, asked: Bools) -> Floats:
    """Return Delta of a function for the workers that are asked for, NaN for others and in roles of too few peers,
    [W].
    """
    result = np.full(scene.size, np.nan, np.float32)
    for group, pattern, tolerated in _compared(scene, function):
        if group.size - 1 >= scene.policy.fewest_peers:
            mine = np.flatnonzero(asked[group])
            result[group[mine]] = differing_share(pattern, tolerated, _peers(group.size, scene.policy), mine)
    return result


def unlike(scene: Scene, function: int, asked: Bools) -> Bools:
    """Return which of the workers that are asked for are outliers by Delta, in roles that are large enough to decide,
    [W].
    """
    policy = scene.policy
    result = np.zeros(scene.size, bool)
    for group, pattern, tolerated in _compared(scene, function):
        mine = np.flatnonzero(asked[group])
        if group.size >= policy.decisive_peers and mine.size:
            peers = _peers(group.size, policy)
            delta, usual = (differing_share(pattern, tolerated, peers, which) for which in (mine, peers))
            found = outliers(delta, usual, policy.outlier_mads, policy.outlier_least, policy.outlier_share)
            result[group[mine[found]]] = True
    return result


def _compared(scene: Scene, function: int) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Yield each role: its workers, their patterns, and how far two of them may be apart."""
    pattern = pattern_of(scene.columns, function)
    medians = scene.reference is not None and (scene.reference.ranks < 0).all()  # of roles: they show no spread
    before = None if medians else pattern_before(scene, function)
    for group in scene.groups:
        own = pattern[group]
        yield group, own, tolerances(own if before is None else before, scene.policy)


def _peers(count: int, policy: Policy) -> Ints:
    return shared_peers(count, int(policy.exact_peers), int(policy.sample_peers), int(policy.sample_seed))


def tolerances(pattern: Floats, policy: Policy) -> Floats:
    """Return how far two peers may be apart in beta, mu and sigma, [n, 3] -> [3]."""
    return tolerance(pattern, (policy.floor_beta, policy.floor_mu, policy.floor_sigma), policy.noise_levels)


def pattern_of(columns: Columns, function: int) -> Floats:
    """Return (beta, mu, sigma) of a function on each worker, [W, 3]; absent: the floor (0 where nothing was cut),
    NaN, NaN.
    """
    entries = slice(int(columns.starts[function]), int(columns.starts[function + 1]))
    worker = columns.worker[entries]
    result = np.full((len(columns.workers), 3), np.nan, np.float32)
    floor = columns.workers.floor
    result[:, 0] = np.where((columns.workers.dropped > 0) & np.isfinite(floor), floor, 0.0)
    result[worker, 0] = 0
    np.add.at(result[:, 0], worker, columns.beta[entries])
    result[worker, 1] = columns.mu[entries]
    result[worker, 2] = columns.sigma[entries]
    return result


def pattern_before(scene: Scene, function: int) -> Floats | None:
    """Return (beta, mu, sigma) of a function in the reference, in its own order of workers; None where it is absent."""
    if scene.reference is None:
        return None
    this = scene.columns.functions[function]
    found = scene.reference.groups.get(("function", this.kind, this.family, this.id))
    return None if found is None else pattern_of(scene.reference, found[0])


def _largest(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
    known = values[np.isfinite(values)]
    return float(known.max()) if known.size else math.nan


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
