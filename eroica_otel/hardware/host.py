"""What the kernel says about the CPU time of a thread, its process and its cgroup; unprivileged reads only.

Roots are arguments so that a folder can stand in for /proc and /sys. A file that cannot be read gives None, never 0.
"""

from __future__ import annotations

from pathlib import Path

from eroica_otel.hardware.cgroups import folders, integer, read_integer, table

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


def throttled_ns(pid: int, proc: Path = PROC, sys: Path = SYS) -> dict[str, int]:
    """Return how long each cgroup around the process was throttled, cumulative, by its folder; {} where none tells.

    They stay apart, as each began to count at another time: the largest may be one that was throttled long ago, and
    hide the quota that holds now.
    """
    seen: dict[str, int] = {}
    for folder in folders(pid, "cpu", proc, sys):
        fields = table(folder / "cpu.stat")
        for name, factor in (("throttled_usec", 1000), ("throttled_time", 1)):
            if (value := integer(fields.get(name))) is not None:
                seen[str(folder)] = value * factor
    return seen


def _rooms(folder: Path) -> list[int]:
    """Return what is left below the folder's memory limit; file cache that the kernel can drop counts as free."""
    rooms = []
    for limit, used, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, now = read_integer(folder / limit), read_integer(folder / used)
        if most is not None and now is not None:
            rooms.append(most - now + (integer(table(folder / "memory.stat").get(cache)) or 0))
    return rooms


def free_memory_bytes(pid: int, proc: Path = PROC, sys: Path = SYS) -> int | None:
    """Return what the process may still take: the least of its cgroups' room and the machine's."""
    rooms = [room for folder in folders(pid, "memory", proc, sys) for room in _rooms(folder)]
    available = integer(table(proc / "meminfo").get("MemAvailable:", "").split(" ")[0])
    rooms += [available * 1024] if available is not None else []
    return max(0, min(rooms)) if rooms else None
