"""Source `cgroup`: CPU time, throttled time and memory of the cgroups around processes, versions 1 and 2.

Files: kernel documentation, admin-guide/cgroup-v2.rst (cpu.stat in microseconds, cpu.max, memory.current) and
scheduler/sched-bwc.rst with admin-guide/cgroup-v1 (throttled_time and cpuacct.usage in nanoseconds). Read is the cgroup
with the least CPU quota: the one that throttles.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from eroica_otel.hardware.cgroups import folders, read_integer, tightest
from eroica_otel.hardware.columns import Column, FileSource, number, text_of
from eroica_otel.hardware.host import PROC, SYS
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.processes import cores_of
from eroica_otel.hardware.source import Resource

SELDOM_S = 1.0
# Version 1 writes a page-aligned number near 2^63 for "no limit".
NO_LIMIT = 1 << 62


def _field(name: bytes, factor: int) -> Callable[[bytes], float]:
    """Return what takes one "name number" line, times ``factor``; it raises LookupError where there is none."""
    start = name + b" "

    def take(text: bytes) -> float:
        for line in text.splitlines():
            if line.startswith(start):
                return float(int(line[len(start) :]) * factor)
        raise LookupError(name)

    return take


class CgroupSource(FileSource):
    """The cgroups of processes; a device is "pid 4711" for the one around that process."""

    family = "cgroup"

    def __init__(self, pids: Iterable[int], proc: Path = PROC, sys: Path = SYS, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._pids, self._proc, self._sys = tuple(pids), proc, sys

    def columns(self) -> Iterator[Column]:
        for pid in self._pids:
            folder, quota = tightest(pid, self._proc, self._sys)
            if folder is None:
                self.missing[f"pid {pid} cgroup_cpu"] = "no cgroup around it counts CPU time"
            else:
                yield from self._cpu(pid, folder, quota)
            yield from self._memory(pid)

    def _cpu(self, pid: int, folder: Path, quota: float | None) -> Iterator[Column]:
        device, path = f"pid {pid}", folder / "cpu.stat"
        version_2 = "usage_usec" in text_of(path)
        peak = quota if quota is not None else cores_of(pid, self._proc, self._sys)
        used = Resource("cgroup_cpu", device, "ns", peak * 1e9, counter=True)
        if version_2:
            yield Column(used, path, _field(b"usage_usec", 1000))
        else:
            yield Column(used, self._accounted(pid, folder) / "cpuacct.usage", number)
        if quota is None:
            self.missing[f"{device} cgroup_throttled"] = "no CPU quota is set around it"
            return
        wait = (b"throttled_usec", 1000) if version_2 else (b"throttled_time", 1)
        # Summed over the cores that were throttled, so that no single number is its peak.
        throttled = Resource("cgroup_throttled", device, "ns", math.nan, counter=True)
        yield Column(throttled, path, _field(*wait))
        periods = Resource("cgroup_throttled_periods", device, "1", math.nan, counter=True)
        yield Column(periods, path, _field(b"nr_throttled", 1))

    def _accounted(self, pid: int, folder: Path) -> Path:
        """Return where version 1 counts the CPU time of ``folder``: often, not always, in the folder itself."""
        around = folders(pid, "cpuacct", self._proc, self._sys)
        counted = [found for found in around if (found / "cpuacct.usage").exists()]
        same = [found for found in counted if found.name == folder.name]
        return (same or counted or [folder])[0]

    def _memory(self, pid: int) -> Iterator[Column]:
        """Yield the memory of the innermost cgroup that has a limit, against that limit."""
        device = f"pid {pid}"
        for folder in folders(pid, "memory", self._proc, self._sys):
            for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
                most = read_integer(folder / limit)
                if most is not None and 0 < most < NO_LIMIT:
                    resource = Resource("cgroup_memory", device, "By", float(most), counter=False)
                    yield Column(resource, folder / used, number, SELDOM_S)
                    return
        self.missing[f"{device} cgroup_memory"] = "no memory limit is set around it"
