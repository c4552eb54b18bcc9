"""What the demo changes on the machine is undone: quotas and nodes, also those of a process that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eroica_otel.demo import nodes, quota
from jobs import wait_until

GONE = 4_194_304  # above any process number of a kernel with its usual limit


@pytest.fixture
def busy() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process.pid
    process.kill()
    process.wait()


def groups() -> list[Path]:
    """Return the cgroups of demos that there are."""
    return [*quota.CGROUPS.glob("eroica-*"), *(quota.CGROUPS / "cpu").glob("eroica-*")]


def throttled(group: Path) -> int:
    """Return how often the kernel made the group wait."""
    rows = (line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(dict(rows)["nr_throttled"])


def test_a_quota_is_held_and_then_gone(busy: int) -> None:
    assert quota.missing() == ""
    with quota.limited(busy, 0.1):
        (group,) = groups()
        assert (group / "cgroup.procs").read_text().split() == [str(busy)]
        wait_until(lambda: throttled(group) > 3, "the kernel to throttle it")
    assert groups() == []


def test_without_a_cgroup_to_write_it_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "cpu").touch()
    said = quota.missing(tmp_path / "cpu" / "none")
    assert said.startswith("a cgroup whose CPU quota may be set, which needs root (Not a directory: ")


def test_no_process_is_no_quota() -> None:
    with pytest.raises(OSError, match="No such process"), quota.limited(GONE - 1, 0.1):
        pass
    assert groups() == []


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    parent = quota.CGROUPS / "cpu" if (quota.CGROUPS / "cpu").is_dir() else quota.CGROUPS
    (parent / f"eroica-{GONE}-abcd").mkdir()
    own = parent / f"eroica-{os.getpid()}-abcd"
    own.mkdir()
    assert quota.missing() == ""
    assert groups() == [own]
    own.rmdir()
    name = f"er{GONE}x0f"
    subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=True)
    subprocess.run(["ip", "netns", "add", f"{name}-0"], check=True)
    with nodes.nodes(1, tmp_path) as (node,):
        listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
        assert node.namespace in listed
        assert name not in listed
    links = subprocess.run(["ip", "-o", "link", "show", "type", "bridge"], check=True, capture_output=True, text=True)
    assert name not in links.stdout
    assert node.namespace.partition("-")[0] not in links.stdout
