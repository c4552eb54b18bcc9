"""What the kernel says about the CPU time of a thread, its process and its cgroup; unprivileged reads only.

Roots are arguments so that a folder can stand in for /proc and /sys. A file that cannot be read gives None, never 0.
"""

from __future__ import annotations

from pathlib import Path

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
    return text[text.rindex(")") + 2]


def _cgroup_paths(pid: int, proc: Path) -> dict[str, str]:
    """Return controller -> path inside the hierarchy; "" is the unified one."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller.removeprefix("name=")] = path
    return found


def _cgroup_files(pid: int, controller: str, name: str, proc: Path, sys: Path) -> list[Path]:
    """Return where ``name`` of the process' own cgroup may lie, innermost first (a container sees only its root)."""
    paths = _cgroup_paths(pid, proc)
    base = sys / "fs" / "cgroup"
    found = []
    if controller in paths:
        for mount in (controller, "cpu,cpuacct"):
            found += [base / mount / paths[controller].lstrip("/") / name, base / mount / name]
    if "" in paths:
        found += [base / paths[""].lstrip("/") / name, base / name]
    return found


def throttled_ns(pid: int, proc: Path = PROC, sys: Path = SYS) -> int | None:
    """Return how long the process' cgroup was throttled, cumulative; None without a CPU controller."""
    for path in _cgroup_files(pid, "cpu", "cpu.stat", proc, sys):
        try:
            fields = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
        except (OSError, ValueError):
            continue
        if "throttled_usec" in fields:
            return int(fields["throttled_usec"]) * 1000
        if "throttled_time" in fields:
            return int(fields["throttled_time"])
    return None


def free_memory_bytes(pid: int, proc: Path = PROC, sys: Path = SYS) -> int | None:
    """Return what the process may still take: the least of its cgroup's room and the machine's."""
    rooms = []
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        for path in _cgroup_files(pid, "memory", limit, proc, sys):
            try:
                rooms.append(int(path.read_text()) - int(path.with_name(used).read_text()))
            except (OSError, ValueError):
                continue
            break
    try:
        lines = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
        rooms.append(int(lines["MemAvailable"].split()[0]) * 1024)
    except (OSError, KeyError, ValueError):
        pass
    return max(0, min(rooms)) if rooms else None
