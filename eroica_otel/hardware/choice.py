"""Which columns of which of the agent's rings tell of a resource of this worker: a table, and what it finds in a ring.

Names are those of docs/how-it-works.md on this worker's side, those of exporters/README.md on the agent's. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from eroica_otel.hardware.source import Resource

MOST_APART_NS = 500_000_000
"""Samples further apart than this tell nothing about the time in between: the source was not read."""
RENEWED_APART_NS = 2_000_000_000
"""The same of a dcgm-exporter that renews its numbers once a second, as means over that second: asked once a second, a
page is now and then the one before, and the next one comes after two."""


class Way(NamedTuple):
    """One way to know a resource: a family of the agent's, and its columns, of a link one for each direction."""

    family: str
    columns: tuple[str, ...]
    apart_ns: int = MOST_APART_NS


WAYS: Mapping[str, tuple[Way, ...]] = {
    "sm_clock": (
        Way("nvml", ("sm_clock",)),
        Way("rocm", ("sm_clock",)),
        Way("dcgm", ("sm_clock",), RENEWED_APART_NS),
    ),
    "sm": (Way("nsys", ("sm",)), Way("gpm", ("sm",)), Way("dcgm", ("sm",), RENEWED_APART_NS)),
    "dram": (Way("nsys", ("dram",)), Way("gpm", ("dram",)), Way("dcgm", ("dram",), RENEWED_APART_NS)),
    "pcie": (
        Way("nsys", ("nsys_pcie_tx", "nsys_pcie_rx")),
        Way("nvml", ("pcie_tx", "pcie_rx")),
        Way("gpm", ("gpm_pcie_tx", "gpm_pcie_rx")),
    ),
    "nvlink": (Way("nvml", ("nvlink_tx", "nvlink_rx")), Way("gpm", ("gpm_nvlink_tx", "gpm_nvlink_rx"))),
}
"""The best way first: what is sampled most finely."""

STATES: Mapping[str, Way] = {
    "gpu_slowdown": Way(
        "nvml_state", ("throttle_hw_slowdown", "throttle_hw_thermal", "throttle_hw_power_brake", "throttle_sw_thermal")
    ),
    "gpu_power_cap": Way("nvml_state", ("throttle_sw_power_cap",)),
}
"""Columns that are 1 while a GPU is so; any of them counts."""

LINKS = (Way("net", ("nic_tx", "nic_rx")), Way("netns", ("nic_tx", "nic_rx")), Way("rdma", ("rdma_tx", "rdma_rx")))
"""Of an interface, of an RDMA port."""

BYTES: Mapping[str, float] = {"By": 1.0, "By/s": 1.0, "MiBy/s": float(1 << 20)}
"""Bytes of the units in which the traffic of a link is told."""


def columns_of(resources: Sequence[Resource], way: Way, device: str) -> list[int]:
    """Return the places of a way's columns of one device, in its order; [] where one is not there or has no peak."""
    places = {one.name: place for place, one in enumerate(resources) if one.device == device and one.peak > 0}
    found = [places[name] for name in way.columns if name in places]
    return found if len(found) == len(way.columns) else []


def link_columns_of(resources: Sequence[Resource], way: Way, device: str) -> list[int]:
    """Return the same of a link, whose peak may be unknown to the agent."""
    places = {one.name: place for place, one in enumerate(resources) if one.device == device and one.counter}
    found = [places[name] for name in way.columns if name in places]
    return found if len(found) == len(way.columns) else []
