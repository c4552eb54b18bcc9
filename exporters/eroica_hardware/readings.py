"""What each resource did last, out of the rings, for whoever asks now: sampling itself knows nothing of it.

Takes the shared folder and the name of a source, gives its latest raw values and its shares of the peak, means over the
latest 10 s. What is not due in a sample keeps its last value for at most a minute.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.ring import SUFFIX
from eroica_otel.hardware.ringreader import Ring, Samples, open_ring
from eroica_otel.hardware.source import Resource

SECOND = 1_000_000_000
MEAN_NS = 10 * SECOND
OLDEST_NS = 60 * SECOND


@dataclass(frozen=True, slots=True)
class Reading:
    """One resource.

    Attributes:
        resource: What was read.
        value: Its latest raw value, NaN where there was none for a minute.
        ratio: Its mean share of the peak, 0 to 1, NaN where it cannot be told.
    """

    resource: Resource
    value: float = float("nan")
    ratio: float = float("nan")


def latest(folder: int, source: str, now: int) -> list[Reading]:
    """Return the readings of a source of ours at ``now`` (monotonic ns); [] where it has no ring that can be read."""
    try:
        ring = open_ring(folder, source + SUFFIX, frozenset({os.geteuid()}))
    except HardwareError:
        return []
    try:
        return _of(ring, now) if ring.alive(now) else []
    except HardwareError:
        return []
    finally:
        ring.close()


def _of(ring: Ring, now: int) -> list[Reading]:
    resources = ring.layout.resources
    recent = ring.read(now - MEAN_NS, now)
    found = [_reading(resource, recent, place) for place, resource in enumerate(resources)]
    quiet = [place for place, reading in enumerate(found) if np.isnan(reading.value)]
    if quiet:
        before = ring.read(now - OLDEST_NS, now - MEAN_NS - 1, quiet)
        for column, place in enumerate(quiet):
            found[place] = replace(_reading(resources[place], before, column), resource=resources[place])
    return found


def _reading(resource: Resource, samples: Samples, column: int) -> Reading:
    values = samples.values[:, column]
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return Reading(resource)
    return Reading(resource, float(values[known[-1]]), mean_share(resource, samples.times[known], values[known]))


def mean_share(resource: Resource, times: NDArray[np.int64], values: NDArray[np.float64]) -> float:
    """Return the mean share of the peak over known samples (shape [n] each), 0 to 1 or NaN.

    A stretch in which a counter went back (it wrapped, or its device began anew) does not count.
    """
    if not resource.peak > 0:
        return float("nan")
    if not resource.counter:
        return float(np.clip(values.mean() / resource.peak, 0.0, 1.0))
    rise, passed = np.diff(values), np.diff(times) / SECOND
    good = (rise >= 0) & (passed > 0)
    if not good.any():
        return float("nan")
    return float(min(1.0, rise[good].sum() / passed[good].sum() / resource.peak))


def by_name(readings: Sequence[Reading]) -> dict[tuple[str, str], Reading]:
    """Return the readings by device and name."""
    return {(reading.resource.device, reading.resource.name): reading for reading in readings}
