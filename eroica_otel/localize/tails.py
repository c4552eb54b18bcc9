"""How far chance reaches: takes numbers of healthy workers in spreads, gives the bound that one of so many is beyond.

Noise need not be normal, so its tail is fitted: above a high number the logarithm of the probability falls as a power
of the distance (a Weibull tail: the normal law has the shape 1/2, the exponential 1, more is heavier still). The shape
is the mean of the logarithms of what lies above, over what it is for shape 1 (Beirlant et al., "The mean residual life
function at great age", J. Statist. Plann. Inference 45, 1995). All functions are pure numpy.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from eroica_otel.localize.columns import Doubles, Floats

_HIGHEST = 0.02
"""Share of the numbers that is the tail; simulated: with 0.05 Student's t looks like the exponential law, with 0.01 the
shape is uncertain."""
_LEAST = 100
"""So many are the tail at least, else the shape is uncertain by more than a tenth; so many of all functions together
count against those of one."""
_MOST = 0.2
"""A larger share is no tail."""


class Tail(NamedTuple):
    """``share`` of the numbers is above ``base``, and beyond it they fall off with this shape."""

    base: float
    share: float
    shape: float

    def bound(self, chance: float) -> float:
        """Return what is exceeded, on the side above 0, with this probability."""
        return float(self.base * (math.log(1 / (2 * chance)) / math.log(1 / self.share)) ** self.shape)


def tail_of(values: Floats) -> Tail | None:
    """Return the tail of numbers whose sign is left out; None where there are too few of them."""
    size = np.abs(values[np.isfinite(values)].astype(np.float64))
    count = max(int(_HIGHEST * size.size), _LEAST)
    if count > _MOST * size.size:
        return None
    ordered = np.partition(size, size.size - count - 1)
    base, share = float(ordered[size.size - count - 1]), count / size.size
    if not base > 0:
        return None
    shape = float(np.mean(np.log(ordered[size.size - count :] / base))) / _unit(share)
    return Tail(base, share, shape)


def tail_of_one(values: Floats, usual: Tail) -> Tail:
    """Return the tail of the numbers of one function, drawn to the ``usual`` one as far as they are few."""
    size = np.abs(values[np.isfinite(values)].astype(np.float64))
    above = size[size > usual.base]
    share = min((above.size + _LEAST) / (size.size + _LEAST / usual.share), _MOST)
    own = float(np.sum(np.log(above / usual.base)))
    return Tail(usual.base, share, (own / _unit(share) + _LEAST * usual.shape) / (above.size + _LEAST))


def _unit(share: float) -> float:
    """Mean of log(x / base) over what is above ``base`` where the shape is 1: of log(1 + E / log(1 / share)), E
    exponential.
    """
    exponential: Doubles = -np.log((np.arange(200) + 0.5) / 200)
    return float(np.mean(np.log1p(exponential / math.log(1 / share))))


def known(spreads: float, count: int) -> float:
    """Return how many spreads above the others a healthy one is as rarely as a normal number is beyond ``spreads``,
    where the spread is the MAD of ``count`` workers; infinite for very few.

    The MAD of n normal numbers is uncertain by 1.17 / sqrt(n) of itself. That excess / spread is beyond L by chance
    as often as a normal number is beyond z holds for L = z / sqrt(1 - 1.36 z^2 / n).
    """
    rest = 1 - 1.36 * spreads**2 / count
    return spreads / math.sqrt(rest) if rest > 0 else math.inf


def chance_of(spreads: float) -> float:
    """Return how often a normal number is beyond so many standard deviations."""
    return NormalDist().cdf(-spreads)
