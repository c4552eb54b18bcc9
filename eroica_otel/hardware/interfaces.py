"""Source `net`: bytes, packets, errors and drops of the network interfaces of its network namespace, with their speed.

/sys/class/net (kernel documentation, Documentation/ABI/testing/sysfs-class-net and sysfs-class-net-statistics: bytes,
and `speed` in Mbit/s, an error or -1 where the link is down or the driver silent).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from eroica_otel.hardware.columns import Column, FileSource, names, number, text_of
from eroica_otel.hardware.net import SYS, peak_bytes_per_second
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.source import Resource

# A node of a cluster has hundreds of virtual interfaces; what carries their bytes has a device behind it.
MOST = 32
SELDOM_S = 1.0

# resource -> file in statistics/
BYTES = {"nic_tx": "tx_bytes", "nic_rx": "rx_bytes"}
OTHERS = {
    "nic_tx_packets": "tx_packets",
    "nic_rx_packets": "rx_packets",
    "nic_tx_errors": "tx_errors",
    "nic_rx_errors": "rx_errors",
    "nic_tx_dropped": "tx_dropped",
    "nic_rx_dropped": "rx_dropped",
}


def is_pair(folder: Path) -> bool:
    """Whether it is this side of a pair whose other end is in a container (veth): no device, no type, another link.

    A node has one for each of its containers, and their bytes pass a real interface too, or never leave the node. In
    the container itself it is all there is, without any that has a device.
    """
    alone = text_of(folder / "iflink") == text_of(folder / "ifindex")
    return not alone and not (folder / "device").exists() and "DEVTYPE=" not in text_of(folder / "uevent")


class InterfaceSource(FileSource):
    """The interfaces of this process' network namespace."""

    family = "net"

    def __init__(
        self,
        sys: Path = SYS,
        mbit: float = 0.0,
        clock: Clock = time.monotonic,
        only: str = "",
    ) -> None:
        """``mbit`` is the speed of all interfaces where their drivers are silent or wrong, 0 for what they say.

        ``only`` is the one interface of this namespace whose bytes are wanted, and nothing else.
        """
        super().__init__(clock)
        self._only = only
        self._sys, self._mbit = sys, mbit
        self._peaks: dict[str, tuple[tuple[str, ...], float | None]] = {}

    def columns(self) -> Iterator[Column]:
        folder = self._sys / "class" / "net"
        found = [self._only] if self._only else names(folder)
        found = [name for name in found if (folder / name / "statistics").exists()]
        if not found:
            self.missing["net"] = "no interface in sysfs"
        if any((folder / name / "device").exists() for name in found):
            found = [name for name in found if self._only or not is_pair(folder / name)]
        for name in self._few(found, folder):
            for wanted, interval in ((BYTES, 0.0), *(() if self._only else ((OTHERS, SELDOM_S),))):
                for resource, file in wanted.items():
                    path = folder / name / "statistics" / file
                    yield Column(self._resource(resource, name), path, number, interval)

    def _few(self, found: Iterable[str], folder: Path) -> list[str]:
        """Return at most MOST interfaces, those with a device first."""
        ranked = sorted(found, key=lambda name: (not (folder / name / "device").exists(), name))
        for name in ranked[MOST:]:
            self.missing[name] = f"only {MOST} interfaces are sampled"
        return ranked[:MOST]

    def _resource(self, resource: str, name: str) -> Resource:
        if resource not in BYTES:
            return Resource(resource, name, "1", math.nan, counter=True)
        peak = self._peak(name)
        if peak is None:
            self.missing[f"{name} speed"] = "the interface does not tell its speed, so no share of it is known"
        return Resource(resource, name, "By", math.nan if peak is None else peak, counter=True)

    def _peak(self, name: str) -> float | None:
        """Return the interface's speed, asked for once and after each change of its link.

        The kernel takes the lock of the whole network for it and asks the driver, which can take long; the index and
        the changes of the carrier it tells without.
        """
        folder = self._sys / "class" / "net" / name
        link = tuple(text_of(folder / file) for file in ("ifindex", "carrier_changes", "operstate"))
        known = self._peaks.get(name)
        if known is None or known[0] != link:
            if len(self._peaks) > 4 * MOST:  # of interfaces that are gone
                self._peaks.clear()
            known = self._peaks[name] = link, peak_bytes_per_second(name, self._mbit, self._sys)
        return known[1]
