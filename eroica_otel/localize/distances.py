"""The three published distances of one function at its culprits: takes a scene and a function, gives Delta, Gamma and
D.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eroica_otel.localize.columns import Bools, Columns, Floats
from eroica_otel.localize.compare import differing_share, outliers, outside, tolerance
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
    at = list(workers)
    delta = differential(scene, function)
    return Distances(_known(float(apart[at].max())), _known(_largest(delta[at])), _known(_largest(drift[at])))


def differential(scene: Scene, function: int) -> Floats:
    """Return Delta of a function for each worker, NaN in roles of too few peers, [W]."""
    policy = scene.policy
    pattern = pattern_of(scene.columns, function)
    before = _before(scene, function)
    result = np.full(len(scene.roles), np.nan, np.float32)
    for group in scene.groups:
        if group.size - 1 < policy.fewest_peers:
            continue
        base = pattern[group] if before is None else before
        result[group] = differing_share(
            pattern[group], tolerances(base, policy),
            int(policy.exact_peers), int(policy.sample_peers), int(policy.sample_seed),
        )  # fmt: skip
    return result


def unlike(scene: Scene, function: int) -> Bools:
    """Return which workers are outliers by Delta, in roles that are large enough to decide, [W]."""
    policy = scene.policy
    delta = differential(scene, function)
    result = np.zeros(delta.shape, bool)
    for group in scene.groups:
        if group.size >= policy.decisive_peers:
            result[group] = outliers(delta[group], policy.outlier_mads, policy.outlier_least, policy.outlier_share)
    return result


def tolerances(pattern: Floats, policy: Policy) -> Floats:
    """Return how far two peers may be apart in beta, mu and sigma, [n, 3] -> [3]."""
    return tolerance(pattern, (policy.floor_beta, policy.floor_mu, policy.floor_sigma), policy.noise_levels)


def pattern_of(columns: Columns, function: int) -> Floats:
    """Return (beta, mu, sigma) of a function on each worker, [W, 3]; absent: the floor (0 where nothing was cut),
    NaN, NaN.
    """
    entries = columns.entries([function])
    worker = columns.worker[entries]
    result = np.full((len(columns.windows), 3), np.nan, np.float32)
    result[:, 0] = [w.floor if w.dropped > 0 and math.isfinite(w.floor) else 0.0 for w in columns.windows]
    result[worker, 0] = 0
    np.add.at(result[:, 0], worker, columns.beta[entries])
    result[worker, 1] = columns.mu[entries]
    result[worker, 2] = columns.sigma[entries]
    return result


def _before(scene: Scene, function: int) -> Floats | None:
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
