"""Cgroups as sources: versions 1 and 2, the quota that throttles, and what is missing without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from eroica_otel.hardware.quotas import CgroupSource
from factories_hardware import Tree, Turned, peaks, reading


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "machine")


def cgroups(tree: Tree) -> CgroupSource:
    source = CgroupSource([42], tree.proc, tree.sys, Turned())
    source.look()
    return source


def test_v2_the_tightest_quota_around_the_process_is_read(tree: Tree) -> None:
    tree.running()
    tree.process(42, "cgroup", "0::/job/step")
    tree.cgroup("job", cpu_max="25000 100000", cpu_stat="usage_usec 7\nnr_throttled 3\nthrottled_usec 5")
    tree.cgroup("job/step", cpu_max="200000 100000", cpu_stat="usage_usec 1\nnr_throttled 0\nthrottled_usec 0")
    source = cgroups(tree)
    assert reading(source) == {
        "pid 42 cgroup_cpu": 7000,
        "pid 42 cgroup_throttled": 5000,
        "pid 42 cgroup_throttled_periods": 3,
    }
    assert peaks(source)["pid 42 cgroup_cpu"] == 0.25e9
    assert list(source.missing) == ["pid 42 cgroup_memory"]


def test_v1_with_cpu_and_cpuacct_apart(tree: Tree) -> None:
    tree.running()
    tree.process(42, "cgroup", "2:cpuacct:/job\n1:cpu:/job\n0::/")
    tree.cgroup("job", "cpu", cpu_cfs_quota_us=50_000, cpu_cfs_period_us=100_000,
                cpu_stat="nr_throttled 2\nthrottled_time 900")  # fmt: skip
    tree.cgroup("job", "cpuacct", cpuacct_usage=12345)
    tree.cgroup("", "cpuacct", cpuacct_usage=99999)
    source = cgroups(tree)
    assert reading(source) == {
        "pid 42 cgroup_cpu": 12345,
        "pid 42 cgroup_throttled": 900,
        "pid 42 cgroup_throttled_periods": 2,
    }
    assert peaks(source)["pid 42 cgroup_cpu"] == 0.5e9


def test_without_a_quota_the_cores_are_the_peak_and_throttling_is_missing(tree: Tree) -> None:
    tree.running()
    tree.process(42, "cgroup", "0::/job")
    tree.cgroup("job", cpu_max="max 100000", cpu_stat="usage_usec 7")
    source = cgroups(tree)
    assert reading(source) == {"pid 42 cgroup_cpu": 7000}
    assert peaks(source)["pid 42 cgroup_cpu"] == 4e9
    assert source.missing["pid 42 cgroup_throttled"] == "no CPU quota is set around it"


@pytest.mark.parametrize("quota", ["", "max", "0 100000", "50000 0", "a b", "-1 100000"])
def test_a_quota_that_says_nothing_is_none(quota: str, tree: Tree) -> None:
    tree.running()
    tree.process(42, "cgroup", "0::/job")
    tree.cgroup("job", cpu_max=quota, cpu_stat="usage_usec 7")
    assert peaks(cgroups(tree))["pid 42 cgroup_cpu"] == 4e9


def test_memory_against_the_limit(tree: Tree) -> None:
    tree.running()
    tree.process(42, "cgroup", "0::/job/step")
    tree.cgroup("job/step", memory_max="max", memory_current=5)
    tree.cgroup("job", memory_max=1000, memory_current=600)
    source = cgroups(tree)
    assert reading(source) == {"pid 42 cgroup_memory": 600}
    assert peaks(source) == {"pid 42 cgroup_memory": 1000}


def test_v1_no_limit_is_a_number_near_the_largest(tree: Tree) -> None:
    tree.running()
    tree.process(42, "cgroup", "4:memory:/job")
    tree.cgroup("job", "memory", memory_limit_in_bytes=9223372036854771712, memory_usage_in_bytes=5)
    assert "pid 42 cgroup_memory" in cgroups(tree).missing


@pytest.mark.parametrize("text", ["", "nonsense", "0::/../../else"])
def test_without_cgroups_everything_is_missing(text: str, tree: Tree) -> None:
    tree.process(42, "cgroup", text)
    source = cgroups(tree)
    assert source.resources == ()
    assert {"pid 42 cgroup_cpu", "pid 42 cgroup_memory"} <= source.missing.keys()
