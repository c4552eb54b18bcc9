"""Processes as sources: threads, faults, disk, NUMA node, processes that end and files that are refused."""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path

import pytest

from eroica_otel.hardware.processes import ProcessSource, core_list, cores_of
from factories_hardware import Tree, Turned, known, peaks, reading


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "machine")


def processes(tree: Tree, *threads: int) -> ProcessSource:
    source = ProcessSource({42: threads}, tree.proc, tree.sys, ticks_per_second=100, clock=Turned())
    source.look()
    return source


@pytest.mark.parametrize("name", ["python", "a) R 9 (b", "two words"])
def test_everything_of_a_process(name: str, tree: Tree) -> None:
    tree.running(user=30, system=20, core=3, name=name)
    tree.node("node0", "0-1")
    tree.node("node1", "2-3")
    source = processes(tree, 43)
    assert reading(source) == {
        "pid 42 thread 42 cpu": 42_000,
        "pid 42 thread 42 run_delay": 500,
        "pid 42 thread 43 cpu": 43_000,
        "pid 42 thread 43 run_delay": 500,
        "pid 42 process_cpu": 0.5e9,
        "pid 42 minor_faults": 111,
        "pid 42 major_faults": 3,
        "pid 42 numa_node": 1,
        "pid 42 process_disk_read": 4096,
        "pid 42 process_disk_write": 512,
    }
    assert source.missing == {}
    assert peaks(source)["pid 42 thread 43 cpu"] == 1e9
    assert peaks(source)["pid 42 process_cpu"] == 4e9


def test_a_quota_is_the_peak_where_it_is_less_than_the_cores(tree: Tree) -> None:
    tree.running()
    tree.process(42, "cgroup", "0::/job/step")
    tree.cgroup("job", cpu_max="150000 100000", cpu_stat="usage_usec 1")
    tree.cgroup("job/step", cpu_max="max 100000", cpu_stat="usage_usec 1")
    assert cores_of(42, tree.proc, tree.sys) == 1.5


def test_without_numa_nodes_and_without_a_status(tree: Tree) -> None:
    tree.running()
    tree.process(42, "status", "Name: python")
    source = processes(tree)
    assert math.isnan(peaks(source)["pid 42 process_cpu"])
    assert list(source.missing) == ["pid 42 numa_node"]


def test_disk_bytes_of_a_foreign_process_are_refused_and_the_rest_goes_on(tree: Tree) -> None:
    tree.running()
    tree.refuse(tree.proc / "42" / "io")
    source = processes(tree)
    values = reading(source)
    assert math.isnan(values["pid 42 process_disk_read"])
    assert values["pid 42 process_cpu"] == 0.5e9
    assert {"pid 42 process_disk_read", "pid 42 process_disk_write"} <= source.missing.keys()


def test_a_process_that_ends_and_a_thread_that_is_gone(tree: Tree) -> None:
    tree.running()
    source = processes(tree, 77)
    assert "pid 42 thread 77 cpu" in source.missing
    shutil.rmtree(tree.proc / "42")
    source.look()
    assert (source.resources, source.missing) == ((), {"pid 42": "the process is gone"})


def test_a_stat_of_another_form(tree: Tree) -> None:
    tree.running()
    tree.process(42, "stat", "42 (python")
    tree.process(42, "task/42/schedstat", "")
    values = reading(processes(tree))
    assert known(values).keys() == {"pid 42 process_disk_read", "pid 42 process_disk_write"}


@pytest.mark.parametrize(("text", "cores"), [("0", {0}), ("0-2,7", {0, 1, 2, 7}), ("", set())])
def test_lists_of_cores(text: str, cores: set[int]) -> None:
    assert core_list(text) == cores


def test_this_process_has_used_time() -> None:
    source = ProcessSource({os.getpid(): ()})
    source.look()
    values = reading(source)
    assert values[f"pid {os.getpid()} process_cpu"] > 0
    assert values[f"pid {os.getpid()} thread {os.getpid()} cpu"] > 0
    source.close()
