"""Which cgroup folders hold a process, versions 1 and 2, and the small files in them; unprivileged reads only."""

from __future__ import annotations

from pathlib import Path, PurePosixPath


def integer(text: str | None) -> int | None:
    """Return the whole number, None for anything else ("max", "", no text)."""
    try:
        return int(text or "")
    except ValueError:
        return None


def table(path: Path) -> dict[str, str]:
    """Return a file of "name value" lines, {} when it cannot be read."""
    try:
        return dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
    except (OSError, ValueError):
        return {}


def read_integer(path: Path) -> int | None:
    """Return the whole number that a file holds, None where it cannot be read or holds none."""
    try:
        return integer(path.read_text())
    except (OSError, ValueError):
        return None


def _paths(pid: int, proc: Path) -> dict[str, str]:
    """Return controller -> path inside the hierarchy; "" is the unified one."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except (OSError, ValueError):
        return {}
    found = {}
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        for controller in controllers.split(","):
            found[controller.removeprefix("name=")] = path
    return found


def folders(pid: int, controller: str, proc: Path, sys: Path) -> list[Path]:
    """Return the process' own cgroup and those around it, innermost first.

    A limit holds for all below it, and schedulers set it on the job, some levels above the process. A container sees
    only its root, whatever path it is told.
    """
    paths = _paths(pid, proc)
    base = sys / "fs" / "cgroup"
    mounts = [(base / name, paths[controller]) for name in (controller, "cpu,cpuacct") if controller in paths]
    mounts += [(base, paths[""])] if "" in paths else []
    found = []
    for mount, path in mounts:
        inside = PurePosixPath(path.lstrip("/"))
        found += [mount / parent for parent in (inside, *inside.parents) if ".." not in parent.parts]
    return list(dict.fromkeys(found))


def quota_cores(folder: Path) -> float | None:
    """Return the CPU quota of a cgroup in cores, None without one.

    Version 2: cpu.max, "max 100000" or "50000 100000"; version 1: cpu.cfs_quota_us (-1 = none) over cpu.cfs_period_us
    (kernel documentation, admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst).
    """
    try:
        quota, period = [*(folder / "cpu.max").read_text().split(), "", ""][:2]
        most, each = integer(quota), integer(period)
    except (OSError, ValueError):
        most, each = read_integer(folder / "cpu.cfs_quota_us"), read_integer(folder / "cpu.cfs_period_us")
    return most / each if most is not None and each is not None and most > 0 and each > 0 else None


def tightest(pid: int, proc: Path, sys: Path) -> tuple[Path | None, float | None]:
    """Return the cgroup with the least CPU quota around the process and that quota in cores.

    Without any quota it is the innermost cgroup that counts CPU time at all, and None.
    """
    around = folders(pid, "cpu", proc, sys)
    limited = [(cores, folder) for folder in around if (cores := quota_cores(folder)) is not None]
    if limited:
        cores, folder = min(limited, key=lambda pair: pair[0])
        return folder, cores
    return next((folder for folder in around if (folder / "cpu.stat").exists()), None), None
