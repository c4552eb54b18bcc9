"""Source `pcie`: link speed and width of GPUs, network adapters and NVMe disks against what each can do.

Files: kernel documentation, Documentation/ABI/testing/sysfs-bus-pci (current_link_speed "16.0 GT/s PCIe",
max_link_speed, current_link_width, max_link_width). A GPU may lower its speed while it is idle: judge it under load.
The maximum is the device's own: a card of generation 5 in a slot of generation 4 stays at half of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from eroica_otel.hardware.columns import Column, FileSource, names, number, text_of
from eroica_otel.hardware.net import SYS
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.source import Resource

INTERVAL_S = 1.0
# Beginnings of `class` (pci.ids): network, InfiniBand, display, processing accelerator, NVMe.
CLASSES = ("0x02", "0x0c06", "0x03", "0x12", "0x0108")
UNKNOWN_WIDTH = 255


def transfers_per_second(text: bytes) -> float:
    """Return the transfers per second and lane of "16.0 GT/s PCIe"; raises ValueError for "Unknown"."""
    value, unit = [*text.split(), b"", b""][:2]
    if unit != b"GT/s":
        raise ValueError(text)
    return float(value) * 1e9


def lanes(text: bytes) -> float:
    """Return the number of lanes; raises ValueError for the kernel's unknown (255) and for a link that is down (0)."""
    value = number(text)
    if not 0 < value < UNKNOWN_WIDTH:
        raise ValueError(text)
    return value


class PcieSource(FileSource):
    """Links of the PCIe devices that training waits for; a device is its address, "0000:83:00.0"."""

    family = "pcie"

    def __init__(self, sys: Path = SYS, interval_s: float = INTERVAL_S, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._root, self._interval = sys / "bus" / "pci" / "devices", interval_s

    def columns(self) -> Iterator[Column]:
        found = 0
        for address in names(self._root):
            folder = self._root / address
            if text_of(folder / "class").startswith(CLASSES) and (folder / "max_link_speed").exists():
                found += 1
                yield from self._link(folder, address)
        if not found:
            self.missing["pcie"] = "no GPU, network adapter or NVMe disk with a PCIe link"

    def _link(self, folder: Path, address: str) -> Iterator[Column]:
        for kind, take, unit in (
            ("speed", transfers_per_second, "{transfer}/s"),
            ("width", lanes, "{lane}"),
        ):
            name = f"pcie_link_{kind}"
            try:
                peak = take(text_of(folder / f"max_link_{kind}").encode())
            except ValueError:
                self.missing[f"{address} {name}"] = "the device does not tell its maximum"
                continue
            resource = Resource(name, address, unit, peak, counter=False)
            yield Column(resource, folder / f"current_link_{kind}", take, self._interval)
