"""A share of one core for one process, by a cgroup of its own: what a CPU limit of a container does to a worker.

Needs root, or a cgroup that may be written; version 1 and 2.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eroica_otel.demo.ending import owner_is_gone

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_MICROSECONDS = 100_000
"""The kernel's and Kubernetes' usual one."""


def missing(cgroups: Path = CGROUPS) -> str:
    """Return what a quota needs and this machine lacks, "" for nothing."""
    try:
        with _group(cgroups) as group:
            _limit(group, 1.0)
    except OSError as error:
        return f"a cgroup whose CPU quota may be set, which needs root ({error.strerror}: {error.filename})"
    return ""


@contextmanager
def limited(pid: int, cores: float, cgroups: Path = CGROUPS) -> Iterator[None]:
    """Let process ``pid`` have at most ``cores`` (0.25 = a quarter of one) while the context lasts.

    Raises OSError where ``missing`` says so, or when there is no such process.
    """
    with _group(cgroups) as group:
        _limit(group, cores)
        (group / "cgroup.procs").write_text(str(pid))
        try:
            yield
        finally:
            if Path(f"/proc/{pid}").exists():
                with contextlib.suppress(OSError):  # it may end at this moment
                    (group.parent / "cgroup.procs").write_text(str(pid))


@contextmanager
def _group(cgroups: Path) -> Iterator[Path]:
    """Make a cgroup and remove it; version 1 has a hierarchy for the CPU alone."""
    first = cgroups / "cpu"
    parent = first if first.is_dir() else cgroups
    for left in parent.glob("eroica-*-*"):
        if owner_is_gone(int(left.name.split("-")[1])):
            with contextlib.suppress(OSError):
                left.rmdir()
    group = parent / f"eroica-{os.getpid()}-{secrets.token_hex(2)}"
    group.mkdir()
    try:
        yield group
    finally:
        with contextlib.suppress(OSError):  # a process that has just ended still counts for a moment
            group.rmdir()


def _limit(group: Path, cores: float) -> None:
    quota = int(cores * PERIOD_MICROSECONDS)
    if (group / "cpu.cfs_quota_us").exists():
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (group / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
