"""From raw values of a resource to shares of its peak: (times, raw values) in, numbers in [0, 1] or NaN out."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from eroica_otel.hardware.source import Resource


def share(resource: Resource, value: float, before: float = math.nan, seconds: float = math.nan) -> float:
    """Return the share of the peak, in [0, 1]; NaN where it cannot be told.

    ``before`` is a counter's value ``seconds`` earlier. A counter that went back (a wrap, a driver's reset) tells
    nothing about the time in between, neither does a clock that stood still or went back.
    """
    used = value
    if resource.counter:
        used = (value - before) / seconds if seconds > 0 else math.nan
    known = math.isfinite(used) and used >= 0 and resource.peak > 0
    return min(1.0, used / resource.peak) if known else math.nan


def shares(resource: Resource, times_ns: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of the peak at each sample, shape of ``values``, in [0, 1] or NaN.

    A counter's share at a sample is its mean rise since the last known sample, so that samples left out (NaN) in
    between take nothing away.
    """
    result = np.full(values.shape, np.nan)
    if not resource.peak > 0:
        return result
    known = np.flatnonzero(np.isfinite(values))
    if not resource.counter:
        held = values[known]
        result[known] = np.where(held < 0, np.nan, np.minimum(1.0, held / resource.peak))
        return result
    rise, passed = np.diff(values[known]), np.diff(times_ns[known]) * 1e-9
    good = (rise >= 0) & (passed > 0)
    result[known[1:][good]] = np.minimum(1.0, rise[good] / passed[good] / resource.peak)
    return result
