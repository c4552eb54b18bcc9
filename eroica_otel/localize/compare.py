"""The maths of the comparison: takes float arrays over workers, gives medians of peers, Delta, outliers and D. No
policy here.

All functions are pure numpy, independent of the order of workers, and leave NaN out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eroica_otel.localize.columns import Bools, Floats, Ints
from eroica_otel.localize.policy import MAD_TO_SIGMA


def peers_median(values: Floats) -> Floats:
    """Return for each worker the median of the OTHERS, [n] -> [n]; NaN where fewer than two values are known.

    Leaving oneself out matters for few workers: of four with two bad ones, a bad one's peers still have a healthy
        median.
    """
    result = np.full(values.shape, np.nan, np.float32)
    known = np.flatnonzero(np.isfinite(values))
    count = known.size
    if count < 2:
        return result
    values = values[known].astype(np.float64)
    middle = count // 2
    places = [middle - 1, middle, min(middle + 1, count - 1)]
    low, mid, high = np.partition(values, places)[places]
    if count % 2 == 0:
        others = np.where(values < mid, mid, low)
    else:
        others = np.select([values < mid, values == mid], [(mid + high) / 2, (low + high) / 2], (low + mid) / 2)
    result[known] = others
    return result


def by_group(values: Floats, groups: Sequence[Ints], function: Callable[[Floats], Floats]) -> Floats:
    """Apply ``function`` [n] -> [n] to the workers of each role and return the whole, [W] -> [W]."""
    result = np.full(values.shape, np.nan, np.float32)
    for group in groups:
        result[group] = function(values[group])
    return result


def median(values: Floats) -> float:
    """Return the median of the known values, NaN where there are none."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else float("nan")


def spread(values: Floats) -> float:
    """Return the median absolute deviation of the known values in standard deviations of a normal distribution."""
    return MAD_TO_SIGMA * median(np.abs(values - np.float32(median(values))))


def tolerance(pattern: Floats, floors: Sequence[float], levels: float) -> Floats:
    """Return how far two healthy peers may be apart in each component, max(floor, levels x 1.4826 MAD): [n, 3] ->
    [3].
    """
    spreads = [spread(pattern[:, component]) for component in range(pattern.shape[1])]
    return np.fmax(np.array(floors, np.float32), np.array([levels * value for value in spreads], np.float32))


def shared_peers(count: int, exact: int, sample: int, seed: int) -> Ints:
    """Return with whom all of ``count`` workers are compared: everybody up to ``exact`` of them, else one seeded sample
    of ``sample`` that all share.
    """
    if count <= exact:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, min(sample, count), replace=False))


def differing_share(pattern: Floats, tolerances: Floats, peers: Ints, asked: Ints) -> Floats:
    """Return Delta of the workers that are asked for: the share of peers whose pattern differs in any component by more
    than its tolerance, [n, c] -> [asked].

    NaN in a component takes no part. Without any other worker among the peers it is NaN.
    """
    count = asked.size
    differing = np.zeros(count, np.int64)
    block = max(1, 4_000_000 // max(peers.size * pattern.shape[1], 1))
    chosen, mine = pattern[peers], pattern[asked]
    for begin in range(0, count, block):
        part = mine[begin : begin + block]
        differs = np.zeros((part.shape[0], peers.size), bool)
        for component in range(pattern.shape[1]):
            with np.errstate(invalid="ignore"):
                differs |= np.abs(part[:, None, component] - chosen[None, :, component]) > tolerances[component]
        differing[begin : begin + block] = differs.sum(axis=1)
    others = peers.size - np.isin(asked, peers)
    return np.where(others > 0, differing / np.fmax(others, 1), np.nan).astype(np.float32)


def outliers(delta: Floats, usual: Floats, mads: float, least: float, share: float) -> Bools:
    """Return who is unlike the peers: Delta > median + max(mads x MAD, least) and Delta > share, [n] -> [n]; median and
    MAD are those of ``usual``, the Delta of the peers.
    """
    middle = median(usual)
    bound = middle + max(mads * median(np.abs(usual - np.float32(middle))), least)
    return np.asarray((delta > bound) & (delta > share), bool)


def outside(beta: Floats, expected: float) -> Floats:
    """Return D: how far beta lies above the expected range [0, expected] of its kind, 0 inside; [n] -> [n]."""
    return np.asarray(np.fmax(beta - np.float32(expected), 0), np.float32)
