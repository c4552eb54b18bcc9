"""Samples of the device in a trace + charged pieces -> mu and sigma of the functions that use it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eroica_otel.summarize.critical import Charged
from eroica_otel.summarize.resources import ONE_CORE, Measured, of_kinds
from eroica_otel.summarize.shares import Use, cumulative_use
from eroica_otel.traces import Samples

RESOURCES: Mapping[str, tuple[str, ...]] = {
    "compute": ("sm",),
    "memory": ("dram", "pcie"),
    "communication": ("nvlink", "pcie"),
}
"""What a function of each kind may use; the one that was busier while it was charged is shown."""


def measure_device(charged: Charged, samples: Mapping[str, Samples], hold: Mapping[str, float]) -> dict[int, Measured]:
    """Return what the device's samples say, by number of the function; a function without samples is absent."""
    found: dict[int, Measured] = {}
    for kind, resources in RESOURCES.items():
        for resource in resources:
            if resource in samples:
                seen = of_kinds(charged, (kind,), resource, [_use(samples[resource])], hold[resource])
                found |= {n: one for n, one in seen.items() if n not in found or _mu(one) > _mu(found[n])}
    return found


def _mu(one: Measured) -> float:
    return -1.0 if one.mu is None else one.mu


def _use(samples: Samples) -> Use | None:
    """Return shares that hold until the next sample as the cumulative use of a counter, the last one as a point."""
    step = np.diff(samples.time_ns)
    counter = np.append(0.0, np.cumsum(samples.ratio[:-1] * step)) if samples.time_ns.size else np.zeros(0)
    return cumulative_use(samples.time_ns, np.rint(counter).astype(np.int64), ONE_CORE)
