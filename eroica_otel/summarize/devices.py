"""Samples of the device, of a trace or of the node agent, + charged pieces -> mu and sigma of what uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from eroica_otel.summarize.critical import Charged
from eroica_otel.summarize.resources import ONE_CORE, Measured, of_kinds
from eroica_otel.summarize.shares import WHOLE, Use, cumulative_use, held_use
from eroica_otel.traces import Samples

RESOURCES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "compute": (("sm_clock",), ("sm",)),
    "memory": (("dram", "pcie"),),
    "communication": (("nvlink", "pcie"),),
    "python": (("cpu",),),
    "host": (("cpu",),),
}
"""What a function of each kind may use: the first group that was sampled, and in it what was busier meanwhile.

The clock of the SMs is sampled at up to 1 kHz; their activity, outside Nsight's traces, is a mean over 110 ms.
"""
ON_CPU: Mapping[str, tuple[tuple[str, ...], ...]] = {**RESOURCES, "compute": (("cpu",),)}
"""The same where compute runs on the CPU."""


def measure_device(charged: Charged, samples: Mapping[str, Samples], hold: Mapping[str, float]) -> dict[int, Measured]:
    """Return what the samples say, by number of the function; a function without samples is absent.

    Args:
        samples: By resource; of a link with two directions by "pcie_tx" and "pcie_rx", of which the busier counts.
    """
    found: dict[int, Measured] = {}
    for kind, groups in (RESOURCES if charged.gpu else ON_CPU).items():
        for group in groups:
            seen: dict[int, Measured] = {}
            for resource in group:
                more = _measured(charged, samples, kind, resource, hold)
                seen |= {n: one for n, one in more.items() if n not in seen or _mu(one) > _mu(seen[n])}
            found = {**seen, **found}
    return found


def joined(device: Mapping[int, Measured], own: Mapping[int, Measured]) -> dict[int, Measured]:
    """Return both, by number of the function: what the worker measured itself, unless NVLink carried more."""
    more = {
        n: one
        for n, one in device.items()
        if n in own and one.resource == "nvlink" and one.moved_bytes > own[n].moved_bytes
    }
    return {**device, **own, **more}


def _measured(
    charged: Charged, samples: Mapping[str, Samples], kind: str, resource: str, hold: Mapping[str, float]
) -> dict[int, Measured]:
    ways = [samples[name] for name in (resource, f"{resource}_tx", f"{resource}_rx") if name in samples]
    if not ways:
        return {}
    uses = [_use(way) for way in ways]
    return of_kinds(charged, (kind,), resource, uses, hold.get(resource, WHOLE), ways[0].peak_bytes)


def _mu(one: Measured) -> float:
    return -1.0 if one.mu is None else one.mu


def _use(samples: Samples) -> Use | None:
    """Return shares that hold until the next sample as the cumulative use of a counter, the last one as a point."""
    if not samples.time_ns.size:
        return None
    used, known = held_use(samples.time_ns, samples.ratio)
    use = cumulative_use(samples.time_ns, np.rint(used).astype(np.int64), ONE_CORE)
    return use if use is None else replace(use, known_ns=known)
