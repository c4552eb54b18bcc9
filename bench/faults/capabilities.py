"""What a case needs and this machine lacks: rights, tools, frameworks."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

from bench.faults.case import Case
from bench.faults.cgroups import RankGroup
from eroica_otel.demo import nodes

FRAMEWORKS = MappingProxyType({"hf": "transformers", "accelerated": "accelerate", "lightning_": "lightning"})
"""What a workload imports beside torch."""
INSTALL = "pip install --no-deps -r requirements-support.lock"


def lacks(case: Case) -> str:
    """Return what a case needs and this machine lacks, "" for nothing."""
    framework = FRAMEWORKS.get(case.workload, "torch")
    if importlib.util.find_spec(framework) is None:
        return f"{framework} ({INSTALL})"
    if said := _nodes():
        return said
    asked: dict[str, Callable[[], str]] = {"cgroups": _cgroups, "disk": lambda: _cgroups() or _disk()}
    return next((said for need in sorted(case.needs) if (said := asked[need]())), "")


def has_cgroups() -> bool:
    """Whether each rank can have a cgroup of its own."""
    return not _cgroups()


@functools.cache
def _nodes() -> str:
    return nodes.missing()


def _disk() -> str:
    # Layered file systems have devices of their own, which no cgroup can limit.
    return "" if os.major(Path.cwd().stat().st_dev) else "a folder that lies on a disk, without layers"


@functools.cache
def _cgroups() -> str:
    try:
        group = RankGroup(f"try-{os.urandom(2).hex()}", Path("/"))
        try:
            group.cpu(1.0)
            group.free()
        finally:
            group.close()
    except (OSError, KeyError) as error:
        return f"a cgroup that may be written, which needs root ({error})"
    return ""
