"""Source `process`: CPU time, page faults, disk bytes and the core's NUMA node of processes, and of threads in them.

Fields: man 5 proc_pid_stat (utime and stime in clock ticks, minflt, majflt, processor) and proc_pid_io; schedstat:
kernel documentation, scheduler/sched-stats.rst (nanoseconds on a core, nanoseconds runnable but waiting for one). A
clock tick is 10 ms, so that only the threads' times are worth more than 10 samples a second; proc_pid_io is refused
where ptrace would be.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from eroica_otel.hardware.cgroups import tightest
from eroica_otel.hardware.columns import Column, FileSource, names, text_of
from eroica_otel.hardware.host import PROC, SYS
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.source import Resource

STAT_S = 0.009  # of two readings 10 ms apart one may come a little early
SELDOM_S = 1.0

# Places in what follows the name's bracket in /proc/PID/stat.
MINOR_FAULTS, MAJOR_FAULTS, USER, SYSTEM, PROCESSOR = 7, 9, 11, 12, 36


def _after_name(text: bytes) -> list[bytes]:
    """Return the fields after the name, which may itself hold brackets and spaces."""
    return text.rpartition(b") ")[2].split()


def _stat(place: int) -> Callable[[bytes], float]:
    return lambda text: float(int(_after_name(text)[place]))


def _cpu_ns(ticks_per_second: int) -> Callable[[bytes], float]:
    def take(text: bytes) -> float:
        fields = _after_name(text)
        return (int(fields[USER]) + int(fields[SYSTEM])) * 1e9 / ticks_per_second

    return take


def _schedstat(place: int) -> Callable[[bytes], float]:
    return lambda text: float(int(text.split()[place]))


def _line(name: bytes) -> Callable[[bytes], float]:
    """Return what takes the number of a "name: number" line; it raises LookupError without one."""

    def take(text: bytes) -> float:
        return float(int(dict(line.split(b": ", 1) for line in text.splitlines())[name]))

    return take


def core_list(text: str) -> set[int]:
    """Return the cores of a list such as "0-3,8" (man 7 cpuset); raises ValueError for another form."""
    cores: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return cores


def nodes_of_cores(sys: Path = SYS) -> dict[int, int]:
    """Return core -> NUMA node, {} where the kernel does not tell."""
    found: dict[int, int] = {}
    folder = sys / "devices" / "system" / "node"
    for name in names(folder):
        if name.startswith("node") and name[4:].isdigit():
            try:
                found |= dict.fromkeys(core_list(text_of(folder / name / "cpulist")), int(name[4:]))
            except ValueError:
                continue
    return found


def cores_of(pid: int, proc: Path = PROC, sys: Path = SYS) -> float:
    """Return how many cores the process may use at once: its affinity, cut by the CPU quota around it; else NaN."""
    allowed = [
        line for line in text_of(proc / str(pid) / "status").splitlines() if line.startswith("Cpus_allowed_list:")
    ]
    try:
        cores = float(len(core_list(allowed[0].partition(":")[2].strip())))
    except (IndexError, ValueError):
        return math.nan
    quota = tightest(pid, proc, sys)[1]
    return cores if quota is None else min(cores, quota)


class ProcessSource(FileSource):
    """Processes, each with the threads of interest; devices are "pid 4711" and "pid 4711 thread 4712"."""

    family = "process"

    def __init__(
        self,
        threads: Mapping[int, Sequence[int]],
        proc: Path = PROC,
        sys: Path = SYS,
        ticks_per_second: int = os.sysconf("SC_CLK_TCK"),
        clock: Clock = time.monotonic,
    ) -> None:
        """``threads`` is process -> threads that are looked at one by one; its main thread always is."""
        super().__init__(clock)
        self._threads, self._proc, self._sys, self._ticks = threads, proc, sys, ticks_per_second
        self._nodes: dict[int, int] = {}

    def columns(self) -> Iterator[Column]:
        self._nodes = nodes_of_cores(self._sys)
        for pid, threads in self._threads.items():
            if not (self._proc / str(pid)).exists():
                self.missing[f"pid {pid}"] = "the process is gone"
                continue
            for thread in dict.fromkeys((pid, *threads)):
                yield from self._of_thread(pid, thread)
            yield from self._of_process(pid)

    def _of_thread(self, pid: int, thread: int) -> Iterator[Column]:
        path = self._proc / str(pid) / "task" / str(thread) / "schedstat"
        for place, name in enumerate(("cpu", "run_delay")):
            resource = Resource(name, f"pid {pid} thread {thread}", "ns", 1e9, counter=True)
            yield Column(resource, path, _schedstat(place))

    def _of_process(self, pid: int) -> Iterator[Column]:
        folder, device = self._proc / str(pid), f"pid {pid}"
        peak = cores_of(pid, self._proc, self._sys) * 1e9
        cpu = Resource("process_cpu", device, "ns", peak, counter=True)
        yield Column(cpu, folder / "stat", _cpu_ns(self._ticks), STAT_S)
        for name, place in (("minor_faults", MINOR_FAULTS), ("major_faults", MAJOR_FAULTS)):
            faults = Resource(name, device, "1", math.nan, counter=True)
            yield Column(faults, folder / "stat", _stat(place), STAT_S)
        node = Resource("numa_node", device, "1", math.nan, counter=False)
        if self._nodes:
            yield Column(node, folder / "stat", self._node, STAT_S)
        else:
            self.missing[f"{device} numa_node"] = "the kernel tells of no NUMA nodes"
        for name, line in (("process_disk_read", b"read_bytes"), ("process_disk_write", b"write_bytes")):
            disk = Resource(name, device, "By", math.nan, counter=True)
            yield Column(disk, folder / "io", _line(line), SELDOM_S)

    def _node(self, text: bytes) -> float:
        return float(self._nodes[int(_after_name(text)[PROCESSOR])])
