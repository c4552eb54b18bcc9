"""What the node agent's rings say of one worker's window: takes the shared folder, devices and times, gives samples.

Runs in the helper, after the window. Believed are rings of users that ``trusted`` names, whose agent is at work now, on
this clock. What is not there has a reason, in words for people.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.choice import LINKS, MOST_APART_NS, STATES, WAYS, Way, columns_of, link_columns_of
from eroica_otel.hardware.gathered import check_cover, mean_of, shares_of
from eroica_otel.hardware.ring import SUFFIX
from eroica_otel.hardware.ringreader import Ring, Samples, open_ring
from eroica_otel.hardware.shared import open_folder, trusted
from eroica_otel.model import GPU_RESOURCES
from eroica_otel.traces import Samples as Shares

MOST_NS = (1 << 62) - 1
NO_AGENT = "no node agent serves {folder} (EROICA_HARDWARE_DIR)"
DEAD = "the node agent has stopped, or its clock is another one"
NO_GPU = "it is not known which GPU this process uses"


@dataclass(frozen=True, slots=True)
class Sought:
    """What is wanted.

    Attributes:
        start_ns, end_ns: The window, monotonic.
        gpus: The worker's GPUs by their names in the rings; () for none.
        links: Names in the rings that the link of the collectives may have, the surest first.
        on_gpu: Whether the GPU's resources are wanted.
    """

    start_ns: int
    end_ns: int
    gpus: tuple[str, ...]
    links: tuple[str, ...]
    on_gpu: bool


@dataclass(frozen=True, slots=True)
class LinkUse:
    """Cumulative bytes on a link; shapes [n]. ``peak_bytes`` is per second, NaN where the agent does not know it."""

    device: str
    time_ns: NDArray[np.int64]
    sent: NDArray[np.int64]
    received: NDArray[np.int64]
    peak_bytes: float


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was found.

    Attributes:
        shares: By resource; of a resource with directions by "pcie_tx", "pcie_rx".
        links: The link of the collectives under each name that was found.
        missing: Resources that were wanted and not found, with the reason.
        states: Share of the window in which the worker's GPUs were so, by model.GPU_STATES; unknown ones are absent.
    """

    shares: Mapping[str, Shares] = field(default_factory=dict)
    links: tuple[LinkUse, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, float] = field(default_factory=dict)


def wanted_of(sought: Sought) -> tuple[str, ...]:
    """Return the resources that are looked for, apart from the link."""
    return GPU_RESOURCES if sought.on_gpu else ()


def gather(path: Path, sought: Sought, clock: Callable[[], int] = time.monotonic_ns) -> Gathered:
    """Return what the agent of the shared folder ``path`` has sampled of the window; never raises."""
    rings, silent = _open(path, clock())
    shares: dict[str, Shares] = {}
    missing: dict[str, str] = {}
    try:
        for resource in wanted_of(sought):
            try:
                shares |= _resource(rings, resource, sought.gpus, sought, silent)
            except HardwareError as error:
                missing[resource] = str(error)
        held = {name: _state(rings, way, sought) for name, way in STATES.items()} if sought.on_gpu else {}
        links = [use for device in sought.links if (use := _link(rings, device, sought)) is not None]
    finally:
        for ring in rings.values():
            ring.close()
    states = {name: share for name, share in held.items() if math.isfinite(share)}
    return Gathered(shares, tuple(links), missing, states)


def reached(path: Path, family: str, when: int) -> bool:
    """Return whether the agent's ring of a family has a sample of ``when`` (monotonic ns) or later; never raises."""
    try:
        folder = open_folder(path)
        try:
            ring = open_ring(folder, family + SUFFIX, trusted(path))
        finally:
            os.close(folder)
        try:
            return bool(ring.read(when, MOST_NS, ()).times.size)
        finally:
            ring.close()
    except HardwareError:
        return False


def _open(path: Path, now: int) -> tuple[dict[str, Ring], str]:
    """Return the rings whose agent is at work, by family, and why there are none."""
    rings: dict[str, Ring] = {}
    silent = NO_AGENT.format(folder=path)
    try:
        folder, owners = open_folder(path), trusted(path)
    except HardwareError:
        return rings, silent
    try:
        for family in sorted({way.family for ways in (*WAYS.values(), LINKS, tuple(STATES.values())) for way in ways}):
            try:
                ring = open_ring(folder, family + SUFFIX, owners)
            except HardwareError as error:
                silent = silent if isinstance(error.__cause__, OSError) else str(error)
                continue
            if _alive(ring, now):
                rings[family] = ring
            else:
                ring.close()
                silent = DEAD
    finally:
        os.close(folder)
    return rings, silent


def _alive(ring: Ring, now: int) -> bool:
    try:
        return ring.alive(now)
    except HardwareError:
        return False


def _resource(
    rings: Mapping[str, Ring], resource: str, devices: Sequence[str], sought: Sought, silent: str
) -> dict[str, Shares]:
    """Return the shares of a resource by the first way that tells enough; raises HardwareError where none does."""
    if not rings:
        raise HardwareError(silent)
    if not devices:
        raise HardwareError(NO_GPU)
    why = f"the node agent does not sample it of {devices[0]}"
    for way in WAYS[resource]:
        ring = rings.get(way.family)
        places = [columns_of(ring.layout.resources, way, device) for device in devices] if ring is not None else []
        if ring is None or not all(places):
            continue
        try:
            return _shares(ring, resource, places, sought, way.apart_ns)
        except HardwareError as error:
            why = str(error)
    raise HardwareError(why)


def _shares(
    ring: Ring, resource: str, places: Sequence[Sequence[int]], sought: Sought, apart_ns: int
) -> dict[str, Shares]:
    columns = [place for each in places for place in each]
    read = _read(ring, columns, sought, apart_ns)
    found = [shares_of(ring.layout.resources[c], read.times, read.values[:, n]) for n, c in enumerate(columns)]
    for one in found:
        check_cover(one.time_ns, sought.start_ns, sought.end_ns, apart_ns)
    ways = len(places[0])
    names = [resource] if ways == 1 else [f"{resource}_tx", f"{resource}_rx"]
    return {name: mean_of(found[direction::ways]) for direction, name in enumerate(names)}


def _read(ring: Ring, columns: Sequence[int], sought: Sought, apart_ns: int = MOST_APART_NS) -> Samples:
    """Return the samples of the window, and those beside it: a share holds from the sample before."""
    return ring.read(sought.start_ns - apart_ns, sought.end_ns + apart_ns, columns)


def _state(rings: Mapping[str, Ring], way: Way, sought: Sought) -> float:
    """Return the share of the window's samples in which any of the columns was set, the mean over the worker's GPUs.

    NaN where the agent does not tell.
    """
    ring = rings.get(way.family)
    if ring is None or not sought.gpus:
        return math.nan
    shares = []
    for device in sought.gpus:
        columns = columns_of(ring.layout.resources, way, device)
        try:
            read = ring.read(sought.start_ns, sought.end_ns, columns)
            known = np.isfinite(read.values).any(axis=1)
            check_cover(read.times[known], sought.start_ns, sought.end_ns)
        except HardwareError:
            return math.nan
        shares.append(float((np.nan_to_num(read.values[known]) > 0).any(axis=1).mean()))
    return float(np.mean(shares))


def _link(rings: Mapping[str, Ring], device: str, sought: Sought) -> LinkUse | None:
    """Return the bytes on a link, None where the agent does not tell enough of it."""
    for way in LINKS:
        ring = rings.get(way.family)
        columns = link_columns_of(ring.layout.resources, way, device) if ring is not None else []
        if ring is None or not columns:
            continue
        try:
            read = _read(ring, columns, sought)
            return _link_use(device, ring.layout.resources[columns[0]].peak, read, sought)
        except HardwareError:
            return None
    return None


def _link_use(device: str, peak: float, read: Samples, sought: Sought) -> LinkUse:
    known = np.all(np.isfinite(read.values) & (read.values >= 0) & (read.values < 2.0**62), axis=1)
    check_cover(read.times[known], sought.start_ns, sought.end_ns)
    sent, received = (np.rint(read.values[known, way]).astype(np.int64) for way in (0, 1))
    return LinkUse(device, read.times[known], sent, received, peak)
