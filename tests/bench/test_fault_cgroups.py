"""The cgroups of the fault board's ranks, of both versions, in a tree of plain files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from faultboard import board

CGROUPS = board("cgroups")
OWN = "4:memory:/jobs/7\n3:cpuset:/\n2:cpu,cpuacct:/slow\n7:blkio:/\n0::/\n"


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A tree of version 1."""
    for folder in ("cpu/slow", "cpuset", "memory/jobs/7", "blkio"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0\n")
    return tmp_path


def group(root: Path, own: str = OWN) -> Any:
    return CGROUPS.RankGroup("x-0", root, CGROUPS.parents(root, own))


def test_a_rank_has_a_group_inside_the_boards_own_of_each_controller(first: Path) -> None:
    mine = group(first)
    name = f"faults-{os.getpid()}-x-0"
    assert mine.path("cpu") == first / "cpu" / "slow" / name
    assert mine.path("memory") == first / "memory" / "jobs" / "7" / name
    assert (mine.path("cpuset") / "cpuset.cpus").read_text() == "0-1\n"  # empty, and no process could enter
    mine.add(42)
    assert [(mine.path(each) / "cgroup.procs").read_text() for each in CGROUPS.CONTROLLERS] == ["42"] * 4


def test_limits_are_written_as_version_1_has_them_and_taken_away(first: Path) -> None:
    mine = group(first)
    mine.cpu(0.25)
    mine.cores({1, 0})
    mine.memory(1000)
    mine.disk(5000)
    assert (mine.path("cpu") / "cpu.cfs_quota_us").read_text() == "25000"
    assert (mine.path("cpu") / "cpu.cfs_period_us").read_text() == "100000"
    assert (mine.path("cpuset") / "cpuset.cpus").read_text() == "0,1"
    assert (mine.path("memory") / "memory.limit_in_bytes").read_text() == "1000"
    number = first.stat().st_dev
    where = f"{os.major(number)}:{os.minor(number)}"
    assert (mine.path("blkio") / "blkio.throttle.read_bps_device").read_text() == f"{where} 5000"
    mine.free()
    assert (mine.path("cpu") / "cpu.cfs_quota_us").read_text() == "-1"
    assert (mine.path("cpuset") / "cpuset.cpus").read_text() == "0-1\n"
    assert (mine.path("memory") / "memory.limit_in_bytes").read_text() == "-1"
    assert (mine.path("blkio") / "blkio.throttle.write_bps_device").read_text() == f"{where} 0"


def test_version_2_has_one_group_for_all(tmp_path: Path) -> None:
    mine = group(tmp_path, "0::/user.slice\n")
    assert {mine.path(each) for each in CGROUPS.CONTROLLERS} == {tmp_path / f"faults-{os.getpid()}-x-0"}
    mine.cpu(0.5)
    mine.memory(1000)
    mine.cores({1})
    folder = mine.path("cpu")
    assert (folder / "cpu.max").read_text() == "50000 100000"
    assert (folder / "memory.max").read_text() == "1000"
    assert (folder / "cpuset.cpus").read_text() == "1"
    mine.free()
    assert [(folder / file).read_text() for file in ("cpu.max", "memory.max", "cpuset.cpus")] == ["max", "max", ""]


def test_groups_of_boards_that_are_no_more_are_removed_wherever_they_lie(first: Path) -> None:
    left = [first / "cpu" / "slow" / "faults-7-ab-0", first / "memory" / "jobs" / "7" / "faults-7-ab-0"]
    others = [first / "cpu" / "slow" / "faults-8-ab-0", first / "cpu" / "slow" / "eroica-7-ab"]
    for folder in (*left, *others):
        folder.mkdir()
    CGROUPS.sweep(lambda pid: pid == 7, first)
    assert [folder.exists() for folder in (*left, *others)] == [False, False, True, True]
