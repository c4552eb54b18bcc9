"""What a node's kernel tells of all at once: pressure, NUMA misses, disks."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from eroica_otel.hardware.disks import DiskSource
from eroica_otel.hardware.pressure import PressureSource
from factories_hardware import Tree, Turned, peaks, reading

LINE = "{} avg10=0.12 avg60=0.00 avg300=0.00 total={}"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "machine")


def pressure(tree: Tree) -> PressureSource:
    source = PressureSource(tree.proc, tree.sys, Turned())
    source.look()
    return source


def disks(tree: Tree) -> DiskSource:
    source = DiskSource(tree.sys, Turned())
    source.look()
    return source


def psi(tree: Tree, kind: str, some: int, full: int) -> Path:
    path = tree.proc / "pressure" / kind
    tree.write(path, LINE.format("some", some) + "\n" + LINE.format("full", full))
    return path


def test_pressure_is_time_of_which_a_second_a_second_is_the_most(tree: Tree) -> None:
    for index, kind in enumerate(("cpu", "memory", "io")):
        psi(tree, kind, 10 + index, index)
    tree.node()
    source = pressure(tree)
    assert reading(source) == {
        "cpu_pressure_some": 10_000,
        "memory_pressure_some": 11_000,
        "memory_pressure_full": 1_000,
        "io_pressure_some": 12_000,
        "io_pressure_full": 2_000,
        "node0 numa_hit": 5,
        "node0 numa_miss": 6,
        "node0 other_node": 7,
    }
    assert peaks(source)["io_pressure_full"] == 1e9


def test_a_kernel_without_pressure(tree: Tree) -> None:
    source = pressure(tree)
    assert source.resources == ()
    assert len(source.missing) == 5


def test_one_kind_refused_or_of_another_form(tree: Tree) -> None:
    psi(tree, "io", 1, 2)
    tree.refuse(psi(tree, "memory", 1, 2))
    tree.write(tree.proc / "pressure" / "cpu", "some avg10=0.12")
    source = pressure(tree)
    values = reading(source)
    assert values["io_pressure_some"] == 1000
    assert math.isnan(values["memory_pressure_some"])
    assert math.isnan(values["cpu_pressure_some"])
    assert source.missing.keys() == {"cpu_pressure_some", "memory_pressure_some", "memory_pressure_full"}


def disk(tree: Tree, name: str, line: str, device: bool = True) -> None:
    tree.write(tree.sys / "block" / name / "stat", line)
    if device:
        (tree.sys / "block" / name / "device").mkdir()


def test_a_disk(tree: Tree) -> None:
    disk(tree, "nvme0n1", "  1 2 30 4   5 6 70 8   9 10 11")
    disk(tree, "loop0", "1 2 3 4 5 6 7 8 9 10 11", device=False)
    source = disks(tree)
    assert reading(source) == {"nvme0n1 disk_read": 30 * 512, "nvme0n1 disk_write": 70 * 512, "nvme0n1 disk_busy": 10e6}
    assert source.missing == {}


def test_a_disk_of_another_form_and_a_node_without_disks(tree: Tree) -> None:
    assert list(disks(tree).missing) == ["disk"]
    disk(tree, "sda", "1 2 3")
    values = reading(disks(tree))
    assert values["sda disk_read"] == 3 * 512
    assert math.isnan(values["sda disk_busy"])
