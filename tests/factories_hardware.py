"""Folders that stand for /proc and /sys, and a clock that a test turns; each builder gives one device of one kind."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

from eroica_otel.hardware.columns import key_of
from eroica_otel.hardware.source import Source


class Turned:
    """A clock that stands until it is turned; ``cost`` is what every look at it takes."""

    def __init__(self, now: float = 1000.0, cost: float = 0.0) -> None:
        self.now, self.cost = now, cost

    def __call__(self) -> float:
        self.now += self.cost
        return self.now


class Tree:
    """One machine."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self.proc.mkdir(parents=True)
        self.sys.mkdir()

    def write(self, path: Path, text: object) -> None:
        """Put a file's text in its place, as the kernel does: a file that is open shows the new text."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def refuse(self, path: Path) -> None:
        """Make reading fail as it does without permission, also for root: a socket cannot be opened."""
        path.unlink(missing_ok=True)
        os.mknod(path, 0o140000 | 0o600)

    def interface(self, name: str = "eth0", speed: object = 1000, device: bool = True, **statistics: int) -> Path:
        folder = self.sys / "class" / "net" / name
        for file in ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets", "tx_errors", "rx_errors", "tx_dropped"):
            self.write(folder / "statistics" / file, statistics.get(file, 0))
        self.write(folder / "statistics" / "rx_dropped", statistics.get("rx_dropped", 0))
        self.write(folder / "speed", speed)
        if device:
            (folder / "device").mkdir(exist_ok=True)
        return folder

    def port(
        self,
        device: str = "mlx5_0",
        state: str = "4: ACTIVE",
        rate: str = "100 Gb/sec (4X EDR)",
        files: Mapping[str, int] | None = None,
    ) -> Path:
        folder = self.sys / "class" / "infiniband" / device / "ports" / "1"
        self.write(folder / "state", state)
        self.write(folder / "rate", rate)
        usual = {"counters/port_xmit_data": 0, "counters/port_rcv_data": 0}
        for name, value in (usual if files is None else files).items():
            self.write(folder / name, value)
        return folder

    def pci(self, address: str = "0000:83:00.0", kind: str = "0x030200", **files: str) -> Path:
        folder = self.sys / "bus" / "pci" / "devices" / address
        usual = {
            "class": kind,
            "current_link_speed": "32.0 GT/s PCIe",
            "max_link_speed": "32.0 GT/s PCIe",
            "current_link_width": "16",
            "max_link_width": "16",
        }
        for name, text in (usual | files).items():
            self.write(folder / name, text)
        return folder

    def process(self, pid: int, name: str, text: object) -> Path:
        path = self.proc / str(pid) / name
        self.write(path, text)
        return path

    def node(
        self, name: str = "node0", cores: str = "0-1", numastat: str = "numa_hit 5\nnuma_miss 6\nother_node 7"
    ) -> None:
        folder = self.sys / "devices" / "system" / "node" / name
        self.write(folder / "cpulist", cores)
        self.write(folder / "numastat", numastat)

    def running(
        self, pid: int = 42, core: int = 1, user: int = 30, system: int = 20, name: str = "python", major: int = 3
    ) -> None:
        """A process with two threads; of its stat all other fields are 0."""
        fields = ["0"] * 50
        fields[0], fields[7], fields[9] = "S", "111", str(major)
        fields[11], fields[12], fields[36] = str(user), str(system), str(core)
        self.process(pid, "stat", f"{pid} ({name}) {' '.join(fields)}")
        self.process(pid, "status", "Name:\tpython\nCpus_allowed_list:\t0-3\n")
        self.process(pid, "io", "rchar: 9\nread_bytes: 4096\nwrite_bytes: 512")
        for thread in (pid, pid + 1):
            self.process(pid, f"task/{thread}/schedstat", f"{thread}000 500 7")

    def cgroup(self, path: str, hierarchy: str = "", **files: object) -> None:
        """Write files of one cgroup; cpu_max is cpu.max, cpu_cfs_quota_us is cpu.cfs_quota_us."""
        for name, text in files.items():
            controller, _, rest = name.partition("_")
            self.write(self.sys / "fs" / "cgroup" / hierarchy / path / f"{controller}.{rest}", text)


def reading(source: Source) -> dict[str, float]:
    """Return what a source reads now, by "device name"."""
    return dict(zip(map(key_of, source.resources), source.read(), strict=True))


def peaks(source: Source) -> dict[str, float]:
    return {key_of(resource): resource.peak for resource in source.resources}


def known(values: Mapping[str, float]) -> dict[str, float]:
    """Return what is not NaN."""
    return {name: value for name, value in values.items() if not math.isnan(value)}
