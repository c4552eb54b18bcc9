"""What the kernel says about the CPU time of a thread, its process and its cgroup; unprivileged reads only.

Roots are arguments so that a folder can stand in for /proc and /sys. A file that cannot be read gives None, never 0.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

PROC = Path("/proc")
SYS = Path("/sys")


def run_delay_ns(pid: int, thread: int, proc: Path = PROC) -> int | None:
    """Return the time that ``thread`` was runnable but waited for a core, cumulative (schedstat, second field)."""
    try:
        return int((proc / str(pid) / "task" / str(thread) / "schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None


def process_state(pid: int, proc: Path = PROC) -> str | None:
    """Return the letter of the process' state ("T" = stopped), None when it is gone."""
    try:
        text = (proc / str(pid) / "stat").read_text()
    except OSError:
        return None
    return text.rpartition(") ")[2][:1] if ") " in text else None


def _cgroup_paths(pid: int, proc: Path) -> dict[str, str]:
    """Return controller -> path inside the hierarchy; "" is the unified one."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        for controller in controllers.split(","):
            found[controller.removeprefix("name=")] = path
    return found


def _cgroup_folders(pid: int, controller: str, proc: Path, sys: Path) -> list[Path]:
    """Return the process' own cgroup and those around it, innermost first.

    A limit holds for all below it, and schedulers set it on the job, some levels above the process. A container sees
    only its root, whatever path it is told.
    """
    paths = _cgroup_paths(pid, proc)
    base = sys / "fs" / "cgroup"
    mounts = [(base / name, paths[controller]) for name in (controller, "cpu,cpuacct") if controller in paths]
    mounts += [(base, paths[""])] if "" in paths else []
    found = []
    for mount, path in mounts:
        inside = PurePosixPath(path.lstrip("/"))
        found += [mount / parent for parent in (inside, *inside.parents) if ".." not in parent.parts]
    return list(dict.fromkeys(found))


def _table(path: Path) -> dict[str, str]:
    """Return a file of "name value" lines, {} when it cannot be read."""
    try:
        return dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
    except (OSError, ValueError):
        return {}


def _integer(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def _read_integer(path: Path) -> int | None:
    try:
        return _integer(path.read_text())
    except OSError:
        return None


def throttled_ns(pid: int, proc: Path = PROC, sys: Path = SYS) -> int | None:
    """Return how long the process was throttled, cumulative, the most of all cgroups around it; None without one."""
    seen = []
    for folder in _cgroup_folders(pid, "cpu", proc, sys):
        fields = _table(folder / "cpu.stat")
        for name, factor in (("throttled_usec", 1000), ("throttled_time", 1)):
            if (value := _integer(fields.get(name))) is not None:
                seen.append(value * factor)
    return max(seen, default=None)


def _rooms(folder: Path) -> list[int]:
    """Return what is left below the folder's memory limit; file cache that the kernel can drop counts as free."""
    rooms = []
    for limit, used, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, now = _read_integer(folder / limit), _read_integer(folder / used)
        if most is not None and now is not None:
            rooms.append(most - now + (_integer(_table(folder / "memory.stat").get(cache)) or 0))
    return rooms


def free_memory_bytes(pid: int, proc: Path = PROC, sys: Path = SYS) -> int | None:
    """Return what the process may still take: the least of its cgroups' room and the machine's."""
    rooms = [room for folder in _cgroup_folders(pid, "memory", proc, sys) for room in _rooms(folder)]
    available = _integer(_table(proc / "meminfo").get("MemAvailable:", "").split(" ")[0])
    rooms += [available * 1024] if available is not None else []
    return max(0, min(rooms)) if rooms else None
