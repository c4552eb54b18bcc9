"""Which of several devices is nearest to another on the PCI bus: takes addresses and names in sysfs, gives an order.

The path of a device under /sys/devices goes through the bridges above it (kernel documentation, PCI/sysfs-pci.rst), so
what two paths share are common switches. NCCL takes the adapters with the shortest path to a GPU first (NCCL
documentation, NCCL_NET_GDR_LEVEL: PIX one switch, PXB several, PHB a host bridge, SYS between NUMA nodes).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

from eroica_otel.hardware.columns import text_of

FAR = (math.inf, math.inf, math.inf)


def nearest(gpu: str, devices: Sequence[str], sys: Path) -> list[str]:
    """Return those of ``devices``, RDMA adapters, that are nearest to the GPU at PCI address ``gpu``.

    All of them where nothing is known, in their order.
    """
    place = _real(sys / "bus" / "pci" / "devices" / gpu) if gpu else None
    ranked = [_distance(place, _real(sys / "class" / "infiniband" / name / "device")) for name in devices]
    least = min(ranked, default=FAR)
    return [name for name, distance in zip(devices, ranked, strict=True) if distance == least]


def _real(link: Path) -> Path | None:
    return Path(os.path.realpath(link)) if link.exists() else None


def _distance(one: Path | None, other: Path | None) -> tuple[float, float, float]:
    """Return (0 below one host bridge else 1, 0 on one NUMA node else 1, bridges in between); FAR where unknown."""
    if one is None or other is None:
        return FAR
    shared = len(os.path.commonpath((one, other)).split(os.sep))
    bridges = len(one.parts) + len(other.parts) - 2 * shared
    apart = not any(part.startswith("pci") for part in Path(os.path.commonpath((one, other))).parts)
    nodes = [text_of(path / "numa_node") for path in (one, other)]
    strangers = nodes[0] != nodes[1] or nodes[0] in ("", "-1")
    return (float(apart), float(apart and strangers), float(bridges))
