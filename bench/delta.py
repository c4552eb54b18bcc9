"""The differential distance alone, on patterns drawn by chance: what it flags, next to the published norm and scaling.

Ours is what eroica_otel/localize/compare.py does: tolerances per component, all peers up to 4,096, else one sample of
1,000, outliers above median + max(5 MAD, 0.1) and above 0.5. Published means: components divided by their largest
value, two patterns differ when their L1 distance is above 0.4, outliers above median + 5 MAD.

    python -m bench.delta [--seeds 5]
    python -m bench.delta --timing          CPU seconds per million patterns, by number of workers
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.simulate.rivals import published
from eroica_otel.localize.compare import differing_share, median, outliers, shared_peers
from eroica_otel.localize.distances import tolerances
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.tails import tail_of

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
    peers = _peers(count)
    delta, usual = (differing_share(patterns, apart, peers, which) for which in (np.arange(count), peers))
    return outliers(delta, usual, POLICY.outlier_mads, POLICY.outlier_least, POLICY.outlier_share)


def _peers(count: int) -> NDArray[np.int64]:
    return shared_peers(count, int(POLICY.exact_peers), int(POLICY.sample_peers), int(POLICY.sample_seed))


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


STEPS: dict[str, Callable[[Floats], object]] = {
    "median and MAD of three components": lambda patterns: tolerances(patterns, POLICY),
    "Delta of all workers": ours,
    "Delta of one worker in a thousand": lambda patterns: differing_share(
        patterns, tolerances(patterns, POLICY), _peers(len(patterns)), np.arange(0, len(patterns), 1000)
    ),
    "tail of the noise": lambda patterns: tail_of(patterns[:, 0] - np.float32(median(patterns[:, 0]))),
}
"""What is done to the patterns of one function."""


def timing_table(sizes: Sequence[int] = (3_400, 10_000, 100_000, 1_000_000)) -> Iterator[str]:
    """Yield the CPU seconds per million patterns of each step; the least of three, of one where it takes a second."""
    yield f"| step | {' | '.join(f'{size:,}' for size in sizes)} |\n|---|{'---|' * len(sizes)}"
    given = [healthy(np.random.default_rng(1), size, 0.03) for size in sizes]
    for name, step in STEPS.items():
        yield f"| {name} | {' | '.join(f'{1e6 * _least(step, one) / len(one):.3f}' for one in given)} |"


def _least(step: Callable[[Floats], object], patterns: Floats) -> float:
    took: list[float] = []
    while len(took) < 3 and sum(took) < 1:
        began = time.process_time()
        step(patterns)
        took.append(time.process_time() - began)
    return min(took)


def main() -> None:
    """Print both tables, or what they cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--timing", action="store_true")
    given = parser.parse_args()
    for line in timing_table() if given.timing else (*noise_table(given.seeds), "", *case_table(given.seeds)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
