"""Source `net`: bytes, packets, errors and drops of the network interfaces of one network namespace, with their speed.

Own namespace: /sys/class/net (kernel documentation, Documentation/ABI/testing/sysfs-class-net and
sysfs-class-net-statistics: bytes, and `speed` in Mbit/s, an error or -1 where the link is down or the driver silent).
Namespace of another process: /proc/PID/net/dev (man 5 proc_pid_net), where an interface's speed is only known to who
may enter the process' root.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from eroica_otel.hardware.columns import Column, FileSource, names, number, text_of
from eroica_otel.hardware.net import PROC, SYS, peak_bytes_per_second
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.source import Resource

# A node of a cluster has hundreds of virtual interfaces; what carries their bytes has a device behind it.
MOST = 32
SELDOM_S = 1.0

# resource -> (file in statistics/, position in a line of /proc/net/dev after the name)
BYTES = {"nic_tx": ("tx_bytes", 8), "nic_rx": ("rx_bytes", 0)}
OTHERS = {
    "nic_tx_packets": ("tx_packets", 9),
    "nic_rx_packets": ("rx_packets", 1),
    "nic_tx_errors": ("tx_errors", 10),
    "nic_rx_errors": ("rx_errors", 2),
    "nic_tx_dropped": ("tx_dropped", 11),
    "nic_rx_dropped": ("rx_dropped", 3),
}


def namespace(process: str, proc: Path = PROC) -> str:
    """Return what stands for the network namespace of a process ("self", "4711"), "" where it may not be asked."""
    try:
        return os.readlink(proc / process / "ns" / "net").removeprefix("net:").strip("[]")
    except OSError:
        return ""


def is_pair(folder: Path) -> bool:
    """Whether it is this side of a pair whose other end is in a container (veth): no device, no type, another link.

    A node has one for each of its containers, and their bytes pass a real interface too, or never leave the node. In
    the container itself it is all there is, without any that has a device.
    """
    alone = text_of(folder / "iflink") == text_of(folder / "ifindex")
    return not alone and not (folder / "device").exists() and "DEVTYPE=" not in text_of(folder / "uevent")


def _field(interface: str, position: int) -> Callable[[bytes], float]:
    """Return what takes one number of one interface out of /proc/net/dev; it raises LookupError once it is gone."""
    start = interface.encode() + b":"

    def take(text: bytes) -> float:
        for line in text.splitlines():
            if line.lstrip().startswith(start):
                return float(int(line.partition(b":")[2].split()[position]))
        raise LookupError(interface)

    return take


class InterfaceSource(FileSource):
    """The interfaces of this process' network namespace, or of that of ``pid``."""

    family = "net"

    def __init__(
        self,
        pid: int | None = None,
        proc: Path = PROC,
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
        self._proc, self._sys, self._mbit = proc, sys, mbit
        self._process = "" if pid is None else str(pid)
        self._peaks: dict[str, tuple[tuple[str, ...], float | None]] = {}

    def columns(self) -> Iterator[Column]:
        there = namespace(self._process, self._proc) if self._process else ""
        if self._process and there != namespace("self", self._proc):
            yield from self._of_process(f"@{there or self._process}")
        else:
            yield from self._own()

    def _own(self) -> Iterator[Column]:
        folder = self._sys / "class" / "net"
        found = [self._only] if self._only else names(folder)
        found = [name for name in found if (folder / name / "statistics").exists()]
        if not found:
            self.missing["net"] = "no interface in sysfs"
        if any((folder / name / "device").exists() for name in found):
            found = [name for name in found if self._only or not is_pair(folder / name)]
        for name in self._few(found, folder):
            for wanted, interval in ((BYTES, 0.0), *(() if self._only else ((OTHERS, SELDOM_S),))):
                for resource, (file, _) in wanted.items():
                    path = folder / name / "statistics" / file
                    yield Column(self._resource(resource, name, name, self._sys), path, number, interval)

    def _of_process(self, suffix: str) -> Iterator[Column]:
        path = self._proc / self._process / "net" / "dev"
        root = self._proc / self._process / "root" / "sys"
        text = "\n".join(text_of(path).splitlines()[2:])
        if not text:
            self.missing["net"] = f"no interface of process {self._process} can be read"
        found = [line.partition(":")[0].strip() for line in text.splitlines()]
        for name in self._few(found, root / "class" / "net"):
            for resource, (_, position) in (BYTES | OTHERS).items():
                yield Column(self._resource(resource, name, name + suffix, root), path, _field(name, position))

    def _few(self, found: Iterable[str], folder: Path) -> list[str]:
        """Return at most MOST interfaces, those with a device first."""
        ranked = sorted(found, key=lambda name: (not (folder / name / "device").exists(), name))
        for name in ranked[MOST:]:
            self.missing[name] = f"only {MOST} interfaces are sampled"
        return ranked[:MOST]

    def _resource(self, resource: str, name: str, device: str, sys: Path) -> Resource:
        if resource not in BYTES:
            return Resource(resource, device, "1", math.nan, counter=True)
        peak = self._peak(name, sys)
        if peak is None:
            self.missing[f"{device} speed"] = "the interface does not tell its speed, so no share of it is known"
        return Resource(resource, device, "By", math.nan if peak is None else peak, counter=True)

    def _peak(self, name: str, sys: Path) -> float | None:
        """Return the interface's speed, asked for once and after each change of its link.

        The kernel takes the lock of the whole network for it and asks the driver, which can take long; the index and
        the changes of the carrier it tells without.
        """
        folder = sys / "class" / "net" / name
        link = tuple(text_of(folder / file) for file in ("ifindex", "carrier_changes", "operstate"))
        known = self._peaks.get(name)
        if known is None or known[0] != link:
            if len(self._peaks) > 4 * MOST:  # of interfaces that are gone
                self._peaks.clear()
            known = self._peaks[name] = link, peak_bytes_per_second(name, self._mbit, sys)
        return known[1]
