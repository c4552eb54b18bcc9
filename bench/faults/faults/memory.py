"""How much memory of a process cannot be dropped, so that a limit can leave a worker a little beyond it."""

from __future__ import annotations

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup/memory")


def group_of(pid: int) -> Path:
    """Return the memory group of ``pid`` (version 1).

    Raises:
        LookupError: there is no such hierarchy.
    """
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return CGROUPS / path.lstrip("/")
    raise LookupError("no memory cgroup of version 1 on this machine")


def kept_bytes(group: Path) -> int:
    """Return what cannot be dropped: memory of no file (there is no swap), shared memory and what the kernel holds."""
    counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    kernel = int((group / "memory.kmem.usage_in_bytes").read_text())
    return int(counts["rss"]) + int(counts.get("shmem", 0)) + kernel
