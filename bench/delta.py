"""The differential distance alone, on patterns drawn by chance: what it flags, next to the published norm and scaling.

Ours is what eroica_otel/localize/compare.py does: tolerances per component, all peers up to 4,096, else one sample of
1,000, outliers above median + max(5 MAD, 0.1) and above 0.5. Published means: components divided by their largest
value, two patterns differ when their L1 distance is above 0.4, outliers above median + 5 MAD.

    python -m bench.delta [--seeds 5]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.simulate.rivals import published
from eroica_otel.localize.compare import differing_share, outliers, shared_peers
from eroica_otel.localize.distances import tolerances
from eroica_otel.localize.policy import Policy

Floats = NDArray[np.float32]
Named = NDArray[np.bool_]
POLICY = Policy()
USUAL = (0.30, 0.50, 0.10)
"""beta, mu and sigma of a healthy worker."""


def healthy(random: np.random.Generator, size: int, sd: float) -> Floats:
    """Return patterns with noise, a share ``sd`` of each component, [size, 3]."""
    return (np.array(USUAL) * (1 + sd * random.standard_normal((size, 3)))).astype(np.float32)


def ours(patterns: Floats) -> Named:
    """Name outliers as the localizer does."""
    count, apart = patterns.shape[0], tolerances(patterns, POLICY)
    peers = shared_peers(count, int(POLICY.exact_peers), int(POLICY.sample_peers), int(POLICY.sample_seed))
    delta, usual = (differing_share(patterns, apart, peers, which) for which in (np.arange(count), peers))
    return outliers(delta, usual, POLICY.outlier_mads, POLICY.outlier_least, POLICY.outlier_share)


def theirs(patterns: Floats) -> Named:
    """Name outliers as published."""
    return published(patterns[:, None, :].astype(np.float64))[:, 0]


def counts(named: Named, bad: slice) -> tuple[int, int]:
    """Return how many faulty workers and how many healthy ones are named."""
    found = int(named[bad].sum())
    return found, int(named.sum()) - found


def noise_table(seeds: int, size: int = 5120, faults: int = 50) -> Iterator[str]:
    """Yield what is named of 5,120 workers of which 50 have twice the share, by noise."""
    yield "| noise sd | ours: faults, healthy | published: faults, healthy |\n|---|---|---|"
    for sd in (0.01, 0.03, 0.06, 0.08, 0.10, 0.15):
        rows = []
        for seed in range(seeds):
            patterns = healthy(np.random.default_rng(seed), size, sd)
            patterns[:faults, 0] *= 2
            rows.append((*counts(ours(patterns), slice(faults)), *counts(theirs(patterns), slice(faults))))
        mean = np.mean(rows, axis=0)
        yield f"| {sd:.2f} | {mean[0]:.0f} of {faults}, {mean[1]:.1f} | {mean[2]:.0f} of {faults}, {mean[3]:.1f} |"


def case_table(seeds: int) -> Iterator[str]:
    """Yield the cases of few workers, small changes and many faulty ones."""
    yield "| workers, faulty | change | ours: faults, healthy | published: faults, healthy |\n|---|---|---|---|"
    cases = [(size, bad, 2.0) for size, bad in ((3, 1), (4, 1), (4, 2), (5, 2), (8, 1), (8, 2), (64, 32), (64, 40))]
    cases += [(64, 2, 1.12), (256, 4, 1.12), (256, 8, 4.0)]
    for size, bad, factor in cases:
        rows = []
        for seed in range(40 * seeds if size < 64 else 4 * seeds):
            patterns = healthy(np.random.default_rng(seed), size, 0.02)
            patterns[:bad, 0] = np.minimum(patterns[:bad, 0] * factor, 1.0)
            named = ours(patterns) if size > POLICY.fewest_peers else np.zeros(size, bool)
            rows.append((*counts(named, slice(bad)), *counts(theirs(patterns), slice(bad))))
        mean = np.mean(rows, axis=0)
        yield f"| {size}, {bad} | beta x {factor} | {mean[0]:.2f}, {mean[1]:.2f} | {mean[2]:.2f}, {mean[3]:.2f} |"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    for line in (*noise_table(seeds), "", *case_table(seeds)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
