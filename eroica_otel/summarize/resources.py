"""Which resource each kind should be using, and mu and sigma of every function from the samples of it.

On a CPU-only job compute uses ``cpu``: one core, by the training thread. Python and host calls always do. Communication
uses ``nic``, in the direction that carried more while the function was charged. Nothing else is sampled by a worker (of
what the node agent samples: devices.py). A function in a process of the DataLoader uses the core of that process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eroica_otel.model import Capture
from eroica_otel.summarize.critical import Charged
from eroica_otel.summarize.intervals import Intervals
from eroica_otel.summarize.shares import WHOLE, Use, charged_use, cumulative_use, mean_and_deviation

HOLD: Mapping[str, float] = {
    **dict.fromkeys(("cpu", "sm", "sm_clock"), WHOLE),
    **dict.fromkeys(("nic", "dram", "pcie", "nvlink"), 0.8),
}
"""Share of its use that the part of each piece behind mu and sigma holds.

Of a link the shortest part with 80 % counts: transfers come in bursts. Of ``cpu`` the whole piece counts, so that
beta x window x mu is CPU time, the steadiest number there is. Over an 80 % part a function that waits has the mu of its
few busy moments: measured on two ranks of a gloo job, the functions of a window then add up to 14.5 and 47.6 ms of CPU
time an iteration where the thread used 4.2 and 34.3 (whole pieces: 4.1 and 34.1), and a blocked socket read has a mu of
0.34 instead of 0.02. So 80 % would call a starved operator busy, and a blocked Python function computing.
"""
CLOCK_STEP_NS = 1_000_000
"""A step of the realtime clock beyond this leaves trace and samples without a common time: mu and sigma are missing."""
ONE_CORE = 1e9
"""Peak of the counter of CPU nanoseconds, per second."""


class Measured(NamedTuple):
    """mu and sigma of one function, and of which resource; "" and None where nothing was measured.

    Attributes:
        moved_bytes: Of a link, what it carried while the function was charged; NaN where it is unknown.
    """

    resource: str
    mu: float | None
    sigma: float | None
    moved_bytes: float = float("nan")


NOT_MEASURED = Measured("", None, None)


def on_one_clock(capture: Capture) -> bool:
    """Return whether trace and samples have a common time."""
    before, after = capture.realtime_offset_ns
    return not capture.trace or abs(after - before) <= CLOCK_STEP_NS


def measure(capture: Capture, charged: Charged, hold: Mapping[str, float] = HOLD) -> dict[int, Measured]:
    """Return what was measured, by number of the function; a function without samples is absent."""
    if not on_one_clock(capture):
        return {}
    links = ("communication",)
    cores = ("python", "host") if charged.gpu else ("python", "compute")
    return of_kinds(charged, links, "nic", _directions(capture), hold["nic"], capture.nic_peak_bytes) | of_kinds(
        charged, cores, "cpu", _cores(capture, charged), hold["cpu"]
    )


def _cores(capture: Capture, charged: Charged) -> list[Use | None]:
    """Return the use by the training thread and by the loader's processes, which is flat where they are not charged."""
    own = cumulative_use(capture.stack_ns, capture.cpu_ns, ONE_CORE)
    loaders = cumulative_use(charged.loader_ns, charged.loader_cpu_ns, ONE_CORE)
    return [own] if loaders is None else [own, loaders]


def _directions(capture: Capture) -> list[Use | None]:
    peak = capture.nic_peak_bytes
    if not peak:
        return []
    return [cumulative_use(capture.nic_ns, counter, peak) for counter in (capture.nic_tx, capture.nic_rx)]


def of_kinds(
    charged: Charged,
    wanted: tuple[str, ...],
    resource: str,
    uses: list[Use | None],
    hold: float,
    peak_bytes: float | None = None,
) -> dict[int, Measured]:
    """Return the functions of some kinds, each by the counter that rose most while it was charged.

    Args:
        peak_bytes: Of a link, bytes per second at its peak; None or NaN where it is unknown.
    """
    known = [use for use in uses if use is not None]
    numbers = np.array([n for n, function in enumerate(charged.functions) if function.kind in wanted], np.int64)
    if not known or not numbers.size:
        return {}
    count = len(charged.functions)
    mine = np.zeros(count, bool)
    mine[numbers] = True
    parts = _Chosen(charged.parts, mine)
    peak = float("nan") if peak_bytes is None else peak_bytes
    busiest, used = np.zeros(count, np.int64), np.full(count, np.nan)
    if len(known) > 1 or peak == peak:
        carried = np.array([charged_use(use, parts, count) for use in known])
        busiest, used = np.argmax(carried, axis=0), carried.max(axis=0)
    moved = used * (peak / 1e9)
    values = np.array([mean_and_deviation(use, parts, count, hold) for use in known])
    mu, sigma = values[busiest, :, np.arange(count)].T
    found = [n for n in numbers.tolist() if not np.isnan(mu[n])]
    return {n: Measured(resource, float(mu[n]), float(sigma[n]), float(moved[n])) for n in found}


class _Chosen:
    """The pieces of some functions, part by part, as often as they are asked for."""

    def __init__(self, parts: Iterable[Intervals], functions: NDArray[np.bool_]) -> None:
        self._parts, self._functions = parts, functions

    def __iter__(self) -> Iterator[Intervals]:
        return (part.take(self._functions[part.function]) for part in self._parts)
