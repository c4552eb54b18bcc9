"""The best that any rule can do on the simulated windows: takes a law of the noise, gives the share of faults found.

Who knows the noise, its law and how large the fault is names by the likelihood of what a worker took, now and in the
healthy window before, with the fault over that without (Neyman and Pearson: no rule finds more at as many false
findings). A worker's noise is that of bench/simulate/mixed.py, in standard deviations: half of the variance lasts.

    python -m bench.optimum
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from bench.simulate.mixed import ITERATIONS, OF_NOISE, SHARES

Floats = NDArray[np.float64]

_STEP = 0.1
_GRID = np.arange(-30, 42, _STEP)
_NORMAL = NormalDist()
_SURE = 16.0
"""A fault of so many standard deviations is found whatever the law."""


def density(law: str, sd: float, at: Floats) -> Floats:
    """Return the density of a law of run.LAWS with this standard deviation."""
    x = at / sd
    if law == "normal":
        return np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) / sd
    if law == "laplace":
        return np.exp(-math.sqrt(2) * np.abs(x)) / math.sqrt(2) / sd
    t = x * math.sqrt(5 / 3)
    usual = math.gamma(3) / math.sqrt(5 * math.pi) / math.gamma(2.5)
    return usual * (1 + t**2 / 5) ** -3 * math.sqrt(5 / 3) / sd


def _sum(one: Floats, other: Floats) -> Floats:
    """Density of a sum; both are on a grid whose middle is 0."""
    size = one.size
    both = np.fft.irfft(np.fft.rfft(np.fft.ifftshift(one)) * np.fft.rfft(np.fft.ifftshift(other)), size)
    return np.fft.fftshift(np.clip(both, 0, None))


def _new(law: str) -> tuple[Floats, Floats]:
    """A fine grid, and the density on it of what a window adds to what lasts."""
    each, window, _ = (float(part) for part in OF_NOISE)
    grid = np.asarray(np.arange(-(1 << 13), 1 << 13) * (_STEP / 8), np.float64)
    parts = [density(law, sd, grid) for sd in (window, each / math.sqrt(ITERATIONS))]
    window_part, single = (part / part.sum() for part in parts)
    for _ in range(int(math.log2(ITERATIONS))):
        single = _sum(single, single)
    return grid, _sum(window_part, single)


class Best:
    """The most powerful test under one law."""

    def __init__(self, law: str) -> None:
        grid, new = _new(law)
        lasting = density(law, float(OF_NOISE[2]), _GRID)
        apart = np.interp((_GRID[:, None] - _GRID[None, :]).reshape(-1), grid, new).reshape(_GRID.size, -1)
        both = np.maximum((apart * lasting) @ apart.T, 1e-300)  # [now, before]
        self.healthy: Floats = both / both.sum()

    def found(self, levels: Sequence[float], false: float) -> list[float]:
        """Return for faults of so many noise levels, one in each function, the shares found where the functions
        together have ``false`` false findings a worker.
        """
        cells = [self._cells(level) for level in levels if level < _SURE]
        if not cells:
            return [1.0 for _ in levels]
        ratio = np.concatenate([one / two for two, one in cells])
        order = np.argsort(-ratio)
        wrong = np.cumsum(np.concatenate([two for two, _ in cells])[order])
        least = ratio[order[min(int(np.searchsorted(wrong, false)), order.size - 1)]]
        shares = iter(float(one[one / two > least].sum()) for two, one in cells)
        return [next(shares) if level < _SURE else 1.0 for level in levels]

    def _cells(self, level: float) -> tuple[Floats, Floats]:
        """Probability of each cell without and with a fault of ``level``."""
        shift = round(level / _STEP)
        faulty = np.full_like(self.healthy, 1e-300)
        faulty[shift:] = self.healthy[: _GRID.size - shift]
        return self.healthy.reshape(-1), faulty.reshape(-1)


def of_job(best: Best, sd: float, level: float, false: float = 1e-6) -> float:
    """Return the recall of faults of ``level`` noise levels, and for each 8 of them 5 % of the slower iteration, in a
    function drawn by chance; ``false`` a pattern.
    """
    share = 0.05 * level / 8
    levels = [max(level, share / (1 - share) / (sd * float(each))) for each in SHARES]
    return float(np.mean(best.found(levels, false * len(SHARES))))


def of_few(count: int, level: float, *, before: bool, freedom: float = math.inf, false: float = 1e-6) -> float:
    """Return the same for normal noise in one function of ``count`` ranks, each compared with the mean of the others.

    Args:
        before: Whether a healthy window of them is known too.
        freedom: Degrees of freedom of the noise level, which is estimated from as many numbers; infinite: known.
    """
    apart = level / math.sqrt(count / (count - 1)) / (math.sqrt(0.75) if before else 1.0)
    if math.isinf(freedom):
        return _NORMAL.cdf(apart + _NORMAL.inv_cdf(false))
    known = np.sqrt(np.random.default_rng(1).chisquare(freedom, 20_000) / freedom)
    low, high = 1.0, 1e4
    for _ in range(50):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _mean(-middle * known) > false else (low, middle)
    return _mean(apart - high * known)


def _mean(values: Floats) -> float:
    return float(np.mean([_NORMAL.cdf(value) for value in values.tolist()]))


def main() -> None:
    """Print what is possible at 1 false finding in 1,000,000 healthy patterns."""
    print("| law | sd | 8 noise levels | 10 |\n|---|---|---|---|")
    for law in ("normal", "laplace", "student"):
        best = Best(law)
        for sd in (0.01, 0.03, 0.06, 0.10):
            print(f"| {law} | {sd} | {of_job(best, sd, 8):.4f} | {of_job(best, sd, 10):.4f} |", flush=True)
    print("\n| ranks | noise | this window alone | the one before too |\n|---|---|---|---|")
    for count in (4, 8):
        for name, freedom in (("known", math.inf), ("of 12 functions", 12.0 * (count - 2)), ("of one", count - 2.0)):
            cells = [f"{of_few(count, 8, before=before, freedom=freedom):.4f}" for before in (False, True)]
            print(f"| {count} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
