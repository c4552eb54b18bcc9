"""A cgroup for each rank of the board, in which its trainer and what that starts are; version 1 and 2.

It is made inside the board's own cgroup, so that limits of the board hold for it, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuset", "memory", "blkio")
PREFIX = "faults-"
PERIOD_MICROSECONDS = 100_000
UNLIMITED = "-1"
DEPTH = 6
"""How deep below the root a board's own cgroup may lie for its leavings to be found."""


def parents(root: Path = ROOT, own: str | None = None) -> dict[str, Path]:
    """Return where this process' cgroups are, by controller.

    Args:
        own: The text of /proc/self/cgroup.
    """
    text = Path("/proc/self/cgroup").read_text() if own is None else own
    paths = {name: path for _, names, path in (line.split(":", 2) for line in text.splitlines())
             for name in names.split(",")}  # fmt: skip
    if not (root / "cpu").is_dir():
        return dict.fromkeys(CONTROLLERS, root)  # version 2: processes and groups do not share one, but at the root
    return {name: root / name / paths.get(name, "/").lstrip("/") for name in CONTROLLERS if (root / name).is_dir()}


class RankGroup:
    """The cgroups of one rank.

    Raises OSError where this machine does not allow them (capabilities.py).
    """

    def __init__(self, name: str, folder: Path, places: dict[str, Path] | None = None) -> None:
        """Args: folder: A folder on the disk that ``disk`` limits."""
        number = folder.stat().st_dev
        self._device = f"{os.major(number)}:{os.minor(number)}"
        found = parents() if places is None else places
        self._groups = {controller: parent / f"{PREFIX}{os.getpid()}-{name}" for controller, parent in found.items()}
        self._has_disk_limit = False
        self._is_first = len(set(self._groups.values())) > 1
        for controller, group in self._groups.items():
            group.mkdir(exist_ok=True)
            if controller == "cpuset" and self._is_first:
                for file in ("cpuset.cpus", "cpuset.mems"):  # empty at first, and no process may enter then
                    (group / file).write_text((group.parent / file).read_text())

    def add(self, pid: int) -> None:
        """Take a process in; what it starts later is in it, too."""
        for group in sorted(set(self._groups.values())):
            (group / "cgroup.procs").write_text(str(pid))

    def path(self, controller: str) -> Path:
        """Return its folder in one of CONTROLLERS."""
        return self._groups[controller]

    def cpu(self, cores: float) -> None:
        """Let it have at most ``cores`` (0.25 = a quarter of one)."""
        quota = str(int(cores * PERIOD_MICROSECONDS))
        if self._is_first:
            self._write("cpu", "cpu.cfs_period_us", str(PERIOD_MICROSECONDS))
            self._write("cpu", "cpu.cfs_quota_us", quota)
        else:
            self._write("cpu", "cpu.max", f"{quota} {PERIOD_MICROSECONDS}")

    def cores(self, numbers: Collection[int]) -> None:
        """Let it run on these cores alone."""
        self._write("cpuset", "cpuset.cpus", ",".join(map(str, sorted(numbers))))

    def memory(self, most_bytes: int) -> None:
        """Let it have at most that much memory, its pages of files included."""
        self._write("memory", "memory.limit_in_bytes" if self._is_first else "memory.max", str(most_bytes))

    def disk(self, bytes_per_second: int) -> None:
        """Let it read and write at most that much on the device of its folder."""
        device, self._has_disk_limit = self._device, True
        if self._is_first:
            for way in ("read", "write"):
                self._write("blkio", f"blkio.throttle.{way}_bps_device", f"{device} {bytes_per_second}")
        else:
            self._write("blkio", "io.max", f"{device} rbps={bytes_per_second} wbps={bytes_per_second}")

    def memory_bytes(self) -> int:
        """Return how much memory it has now."""
        file = "memory.usage_in_bytes" if self._is_first else "memory.current"
        return int((self._groups["memory"] / file).read_text())

    def free(self) -> None:
        """Take all limits away."""
        group = self._groups["cpu"]
        if self._is_first:
            self._write("cpu", "cpu.cfs_quota_us", UNLIMITED)
            self._write("cpuset", "cpuset.cpus", (self._groups["cpuset"].parent / "cpuset.cpus").read_text())
            self._write("memory", "memory.limit_in_bytes", UNLIMITED)
            if self._has_disk_limit:
                self.disk(0)  # no limit
        else:
            (group / "cpu.max").write_text("max")
            (group / "memory.max").write_text("max")
            self._write("cpuset", "cpuset.cpus", "")
            if self._has_disk_limit:
                self._write("blkio", "io.max", f"{self._device} rbps=max wbps=max")

    def _write(self, controller: str, file: str, text: str) -> None:
        (self._groups[controller] / file).write_text(text)

    def close(self) -> None:
        """Remove it; processes that are still in it go to the board's own."""
        for group in set(self._groups.values()):
            _remove(group)


def _remove(group: Path) -> None:
    with suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (group.parent / "cgroup.procs").write_text(pid)
    with suppress(OSError):  # a process that has just ended still counts for a moment
        group.rmdir()


def sweep(is_gone: Callable[[int], bool], root: Path = ROOT) -> None:
    """Remove the groups of boards that are no more."""
    for depth in range(DEPTH):
        for group in root.glob(f"{'*/' * depth}{PREFIX}*-*"):
            if is_gone(int(group.name.split("-")[1])):
                _remove(group)
