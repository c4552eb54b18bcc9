"""The parts of a node agent over recorded GPUs and a folder that stands for /sys, on a clock that a test moves."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from eroica_hardware.announce import Announcements
from eroica_hardware.catalog import CATALOG, batch_of, slots_of
from eroica_hardware.exposition import Exposition
from eroica_hardware.gpm import GpmSource
from eroica_hardware.listener import listen
from eroica_hardware.nvml import NvmlSource
from eroica_hardware.rings import KeptRing
from eroica_hardware.sampler import Sampler
from eroica_hardware.windows import Windows
from eroica_otel.hardware.interfaces import InterfaceSource
from eroica_otel.hardware.pcie import PcieSource
from eroica_otel.hardware.rdma import RdmaSource, RdmaStateSource
from eroica_otel.hardware.shared import open_folder
from eroica_otel.hardware.source import Source
from factories_hardware import Tree
from factories_nvml import Gpu, Recorded

SECOND = 1_000_000_000
BEGIN = 1000 * SECOND
TX, RX, NVLINK_TX, NVLINK_RX = 197, 198, 138, 139


class AgentScene:
    """Samplers of chosen sources in a folder; ``go`` lets time pass."""

    def __init__(self, path: Path, nvml: Recorded, *families: str, tree: Tree | None = None) -> None:
        self.now, self.nvml = BEGIN, nvml
        self.tree = tree or Tree(path / "machine")
        self.path = path / "shared"
        self.path.mkdir()
        self.folder = open_folder(self.path)
        self.windows = Windows(self.now)
        self.announcements = Announcements(listen(self.folder), self.windows, clock=self.clock)
        self.samplers = [self._sampler(family, self._source(family, nvml)) for family in families]
        self.exposition = Exposition(
            "node-1", self.folder, self.samplers, self.windows, self.announcements, self.clock, self.tree.sys
        )

    def clock(self) -> int:
        return self.now

    def seconds(self) -> float:
        return self.now / SECOND

    def go(self, seconds: float, each: Callable[[float], None] = lambda since: None) -> None:
        """Let so much time pass; ``each`` is told the seconds since the scene began, before each tick."""
        end = self.now + round(seconds * SECOND)
        while self.now < end:
            waits = [one.deadlines.wait(self.now) for one in self.samplers]
            self.now += min(waits)
            each((self.now - BEGIN) / SECOND)
            for one in self.samplers:
                if not one.deadlines.wait(self.now):
                    one.tick()

    def page(self) -> str:
        """Return what /metrics shows now."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self.exposition)
        return generate_latest(registry).decode()

    def series(self) -> dict[str, float]:
        """Return the value of each series, by its text."""
        rows = (line.rpartition(" ") for line in self.page().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in rows}

    def close(self) -> None:
        for one in self.samplers:
            one.ring.close()
        self.announcements.close()
        os.close(self.folder)

    def _source(self, family: str, nvml: Recorded) -> Source:
        made: Mapping[str, Callable[[], Source]] = {
            "nvml": lambda: NvmlSource(nvml, self.seconds, quick=True),
            "nvml_state": lambda: NvmlSource(nvml, self.seconds, quick=False),
            "gpm": lambda: GpmSource(nvml, self.seconds),
            "net": lambda: InterfaceSource(sys=self.tree.sys, clock=self.seconds),
            "rdma": lambda: RdmaSource(self.tree.sys, clock=self.seconds),
            "rdma_state": lambda: RdmaStateSource(self.tree.sys, clock=self.seconds),
            "pcie": lambda: PcieSource(self.tree.sys, clock=self.seconds),
        }
        return made[family]()

    def _sampler(self, family: str, source: Source) -> Sampler:
        ring = KeptRing(self.folder, family, slots_of(family), batch_of(family))
        entry = CATALOG[family]
        return Sampler(source, ring, self.windows.running, self.clock, entry.most_hertz, entry.most_busy)


def worked_page(folder: Path, hot: Gpu, other: Gpu) -> str:
    """Return the page of an agent on host-1 after 12 s in which ``hot`` and a port sent and ``other`` did not."""
    tree = Tree(folder / "machine")
    port = tree.port("mlx4_0")

    def work(since: float) -> None:
        hot.fields = {TX: 0, RX: 0, NVLINK_TX: round(10e9 / 1024 * since), NVLINK_RX: 0}
        tree.write(port / "counters" / "port_xmit_data", round(1.25e9 / 4 * since))

    other.fields = {TX: 0, RX: 0, NVLINK_TX: 0, NVLINK_RX: 0}
    work(0)
    scene = AgentScene(folder, Recorded(hot, other), "nvml", "nvml_state", "rdma", "rdma_state", tree=tree)
    scene.go(12, work)
    text = scene.page().replace('host="node-1"', 'host="host-1"')
    scene.close()
    return text
