"""Source `netns`: bytes of the network interfaces of workers in other network namespaces than the agent's.

Takes processes, of which the kernel has told that they announced windows; reads /proc/PID/net/dev (man 5 proc_pid_net),
for which no right is needed where the process can be seen. Which namespace that is (/proc/PID/ns/net) the kernel tells
the same user and CAP_SYS_PTRACE only: without it nothing is read, as nobody could tell whose interface it would be.
Devices are named eth0@NAMESPACE, by the number that the kernel gives the namespace. There is no sysfs of another
namespace and thus no speed.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from eroica_otel.hardware.columns import Column, FileSource, said
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.source import Resource

PROC = Path("/proc")
MOST_NAMESPACES, MOST_INTERFACES = 64, 8
LOOPBACK = "lo"
# Numbers behind "NAME:" in /proc/net/dev: eight of what was received, then eight of what was sent, bytes first.
FIELDS = {"nic_tx": 8, "nic_rx": 0}
UNSEEN = "its worker is in a PID namespace that this agent cannot see (hostPID: true lets it)"


def namespace(pid: int | str = "self", proc: Path = PROC) -> int:
    """Return the number of a process' network namespace; raises OSError where it is gone or may not be asked."""
    return os.stat(proc / str(pid) / "ns" / "net").st_ino


def own_name(interface: str, proc: Path = PROC) -> str:
    """Return how the agent calls an interface of this process' namespace; "" where that cannot be told."""
    try:
        return f"{interface}@{namespace(proc=proc)}" if interface else ""
    except OSError:
        return ""


class NamespaceSource(FileSource):
    """The interfaces of the namespaces in which processes are, but for this one's."""

    family = "netns"

    def __init__(
        self,
        pids: Callable[[], Iterable[int]],
        mbit: float = 0.0,
        proc: Path = PROC,
        clock: Clock = time.monotonic,
    ) -> None:
        """``pids`` are numbers of processes as this one sees them, 0 for one that it does not see.

        ``mbit`` is the speed of all interfaces, 0 for an unknown one.
        """
        super().__init__(clock)
        self._pids, self._proc = pids, proc
        self._peak = mbit * 1e6 / 8 if mbit > 0 else math.nan

    def columns(self) -> Iterator[Column]:
        for number, pid in sorted(self._others().items()):
            path = self._proc / str(pid) / "net" / "dev"
            for name in self._interfaces(path, pid)[:MOST_INTERFACES]:
                for resource, field in FIELDS.items():
                    take = partial(_bytes, name.encode(), field)
                    yield Column(Resource(resource, f"{name}@{number}", "By", self._peak, counter=True), path, take)

    def _others(self) -> dict[int, int]:
        """Return a process of each namespace but ours, by its number."""
        found: dict[int, int] = {}
        try:
            own = namespace(proc=self._proc)
        except OSError as error:
            self.missing["netns"] = said(error)
            return {}
        for pid in self._pids():
            if not pid:
                self.missing["a network namespace"] = UNSEEN
                continue
            try:
                found.setdefault(namespace(pid, self._proc), pid)
            except FileNotFoundError:  # it has ended
                continue
            except OSError as error:
                why = f"{said(error)}: run the agent as the user of the training, or with CAP_SYS_PTRACE"
                self.missing[f"network namespace of process {pid}"] = why
        found.pop(own, None)
        return dict(sorted(found.items())[:MOST_NAMESPACES])

    def _interfaces(self, path: Path, pid: int) -> list[str]:
        try:
            lines = path.read_text().splitlines()[2:]
        except OSError as error:
            self.missing[f"network namespace of process {pid}"] = said(error)
            return []
        return [name for line in lines if (name := line.partition(":")[0].strip()) not in ("", LOOPBACK)]


def _bytes(name: bytes, field: int, text: bytes) -> float:
    """Return a number of an interface's line; raises LookupError or ValueError where it is not there."""
    for line in text.splitlines():
        before, found, after = line.partition(b":")
        if found and before.strip() == name:
            return float(int(after.split()[field]))
    raise LookupError(name)
