"""Source `pressure`: time in which tasks of the node waited for CPU, memory or disk, and NUMA misses of its nodes.

Files: kernel documentation, accounting/psi.rst ("some" = at least one task waited, "full" = all did; total in
microseconds) and admin-guide/numastat.rst. A kernel with PSI off refuses the read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from eroica_otel.hardware.columns import Column, FileSource, names
from eroica_otel.hardware.host import PROC, SYS
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.source import Resource

# Each read makes the kernel sum up over all cores.
INTERVAL_S = 0.1
KINDS = ("cpu", "memory", "io")
NUMA = ("numa_hit", "numa_miss", "other_node")


def _total(word: bytes) -> Callable[[bytes], float]:
    """Return what takes the nanoseconds of the line "some avg10=0.00 avg60=0.00 avg300=0.00 total=12"."""

    def take(text: bytes) -> float:
        for line in text.splitlines():
            if line.startswith(word + b" "):
                return float(int(line.rpartition(b"total=")[2]) * 1000)
        raise LookupError(word)

    return take


def _numastat(word: bytes) -> Callable[[bytes], float]:
    def take(text: bytes) -> float:
        return float(int(dict(line.split(maxsplit=1) for line in text.splitlines())[word]))

    return take


class PressureSource(FileSource):
    """The whole node (device "") and its NUMA nodes ("node0")."""

    family = "pressure"

    def __init__(self, proc: Path = PROC, sys: Path = SYS, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._proc, self._sys = proc, sys

    def columns(self) -> Iterator[Column]:
        for kind in KINDS:
            # Of the CPU "full" is not defined for a whole node.
            for word in ("some",) if kind == "cpu" else ("some", "full"):
                resource = Resource(f"{kind}_pressure_{word}", "", "ns", 1e9, counter=True)
                yield Column(resource, self._proc / "pressure" / kind, _total(word.encode()), INTERVAL_S)
        folder = self._sys / "devices" / "system" / "node"
        for node in names(folder):
            if (folder / node / "numastat").exists():
                for name in NUMA:
                    resource = Resource(name, node, "1", math.nan, counter=True)
                    yield Column(resource, folder / node / "numastat", _numastat(name.encode()), 1.0)
