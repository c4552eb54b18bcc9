"""What one process and its cgroup did in a window: takes a process, samples it from outside, gives means and shares.

For the helper, which is asked for a reading ten times a second in a window and once a second else: some 0.1 ms each.
All are means, shares of time or highest levels, for which that is enough; mu and sigma come from finer samples.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eroica_otel.aside import Aside
from eroica_otel.hardware.columns import FileSource
from eroica_otel.hardware.host import PROC, SYS
from eroica_otel.hardware.linkdown import LinkDownSource
from eroica_otel.hardware.processes import ProcessSource
from eroica_otel.hardware.quotas import CgroupSource
from eroica_otel.hardware.source import Resource
from eroica_otel.model import HOST_RATES, HOST_RATIOS

SECOND = 1_000_000_000
FAST_NS, SLOW_NS = SECOND // 10, SECOND
LOOK_NS = 30 * SECOND
"""A process may be put into another cgroup, and get another quota."""
PATIENCE_SECONDS = 1.0
"""The firmware of an adapter may answer slowly; one that hangs costs this once."""
MOST_SAMPLES = 2048
BESIDE_NS = SECOND + SECOND // 10
"""What is read once a second has a reading so near to any window."""


class HostUse:
    """Samples one process."""

    def __init__(
        self, pid: int, proc: Path = PROC, sys: Path = SYS, clock: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        """``clock`` is that of the windows, monotonic ns."""
        self._clock = clock

        def seconds() -> float:
            return clock() / SECOND

        self._link = LinkDownSource(sys, clock=seconds)
        self._aside = Aside(self._see_link, "eroica-link")
        self._wanted, self._look_at_link = "", True
        self._on_link: tuple[Resource, ...] = ()
        self._sources: tuple[FileSource, ...] = (
            ProcessSource({pid: ()}, proc, sys, clock=seconds),
            CgroupSource((pid,), proc, sys, clock=seconds),
        )
        self._resources: tuple[Resource, ...] = ()
        self._forget()
        self._looked = self._read = -LOOK_NS

    def watch(self, link: str) -> None:
        """Say which link carries the collectives: an interface, a port such as mlx5_0/1, "" while it is unknown."""
        if link != self._wanted:
            self._wanted = link
            self._looked = -LOOK_NS

    def sample(self, fast: bool) -> None:
        """Read once if it is time; ``fast`` in a window. Never raises."""
        now = self._clock()
        if now - self._read < (FAST_NS if fast else SLOW_NS) - SECOND // 100:
            return
        if now - self._looked >= LOOK_NS:
            self._look(now)
        self._read = now
        link = self._of_link()
        found = (*self._on_link, *(resource for source in self._sources for resource in source.resources))
        if found != self._resources:
            self._resources = found
            self._forget()
        place = self._count % MOST_SAMPLES
        self._times[place] = now
        self._values[place] = link + [value for source in self._sources for value in source.read()]
        self._count += 1

    def _forget(self) -> None:
        """Begin with an empty ring, all of it in memory at once: a process that grows for half an hour looks leaky."""
        self._count = 0
        self._times = np.full(MOST_SAMPLES, -1, np.int64)
        self._values = np.full((MOST_SAMPLES, len(self._resources)), np.nan)

    def _look(self, now: int) -> None:
        self._looked = now
        self._look_at_link = True
        for source in self._sources:
            source.look()

    def _of_link(self) -> list[float]:
        """Return what the link's device tells, all missing where it does not answer: it is waited for once."""
        self._aside.answer()  # what came too late for the row that asked
        seen = self._aside.answer(PATIENCE_SECONDS) if self._aside.ask() else None
        if seen is None:
            return [math.nan] * len(self._on_link)
        self._on_link = seen[0]
        return seen[1]

    def _see_link(self) -> tuple[tuple[Resource, ...], list[float]]:
        if self._look_at_link:
            self._look_at_link, self._link.link = False, self._wanted
            self._link.look()
        return self._link.resources, self._link.read()

    def during(self, start_ns: int, end_ns: int) -> dict[str, float]:
        """Return what is known of the window, by HOST_RATIOS and HOST_RATES; what could not be read is absent."""
        order = np.arange(max(0, self._count - MOST_SAMPLES), self._count) % MOST_SAMPLES
        order = order[(self._times[order] >= start_ns - BESIDE_NS) & (self._times[order] <= end_ns + BESIDE_NS)]
        if not order.size:
            return {}
        times, values = self._times[order], self._values[order]
        inside = (times >= start_ns - FAST_NS) & (times <= end_ns + FAST_NS)
        found: dict[str, float] = {}
        for place, resource in enumerate(self._resources):
            column = values[:, place]
            if resource.counter:
                found[resource.name] = _rate(times[inside], column[inside])
            elif resource.name == "cgroup_memory":
                found[resource.name] = _highest(column)
            elif resource.name == "numa_node":
                found["numa_away"] = _away(column[inside])
        return _shares(found, {one.name: one.peak for one in self._resources})

    def close(self) -> None:
        """Close the files; may be called twice. Those of a link that does not answer stay open."""
        if not self._aside.busy:
            self._link.close()
        self._aside.close()
        for source in self._sources:
            source.close()


def _shares(found: Mapping[str, float], peaks: Mapping[str, float]) -> dict[str, float]:
    known = {name: value for name, value in found.items() if math.isfinite(value)}
    ratios = {name: known[name] / peaks.get(name, 1.0) for name in HOST_RATIOS if name in known}
    kept = {name: min(1.0, ratio) for name, ratio in ratios.items() if math.isfinite(ratio)}
    return kept | {name: known[name] for name in HOST_RATES if name in known}


def _rate(times: NDArray[np.int64], values: NDArray[np.float64]) -> float:
    """Return the rise a second over the stretches in which the counter did not go back; NaN without any."""
    known = np.isfinite(values)
    rise, passed = np.diff(values[known]), np.diff(times[known]) / SECOND
    good = (rise >= 0) & (passed > 0)
    return float(rise[good].sum() / passed[good].sum()) if good.any() else math.nan


def _highest(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(known.max()) if known.size else math.nan


def _away(nodes: NDArray[np.float64]) -> float:
    """Return the share of the readings on another NUMA node than most; NaN without any."""
    known = nodes[np.isfinite(nodes)]
    return 1.0 - float(np.unique(known, return_counts=True)[1].max()) / known.size if known.size else math.nan
