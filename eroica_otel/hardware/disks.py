"""Source `disk`: bytes read and written and the busy time of the node's disks.

File: kernel documentation, block/stat.rst (sectors are of 512 bytes; io_ticks is the time in milliseconds in which the
disk had requests; a disk that serves many at once is not full at its peak).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from eroica_otel.hardware.columns import Column, FileSource, names
from eroica_otel.hardware.host import SYS
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.source import Resource

INTERVAL_S = 0.1
MOST = 32
SECTOR = 512
# resource -> (place in the line, factor, unit, peak)
FIELDS = {
    "disk_read": (2, SECTOR, "By", math.nan),
    "disk_write": (6, SECTOR, "By", math.nan),
    "disk_busy": (9, 10**6, "ns", 1e9),
}


def _field(place: int, factor: int) -> Callable[[bytes], float]:
    return lambda text: float(int(text.split()[place]) * factor)


class DiskSource(FileSource):
    """Disks with a device behind them: no loop devices, memory disks or disks made of other disks."""

    family = "disk"

    def __init__(self, sys: Path = SYS, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._root = sys / "block"

    def columns(self) -> Iterator[Column]:
        found = [name for name in names(self._root) if (self._root / name / "device").exists()]
        if not found:
            self.missing["disk"] = "no disk in sysfs"
        for name in found[MOST:]:
            self.missing[name] = f"only {MOST} disks are sampled"
        for name in found[:MOST]:
            for resource, (place, factor, unit, peak) in FIELDS.items():
                column = Resource(resource, name, unit, peak, counter=True)
                yield Column(column, self._root / name / "stat", _field(place, factor), INTERVAL_S)
