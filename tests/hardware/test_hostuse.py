"""What a process and its cgroup did in a window: means, highest levels, shares of time, and what is absent."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from eroica_otel.hardware.hostuse import MOST_SAMPLES, SECOND, HostUse
from eroica_otel.hardware.linkdown import LinkDownSource
from eroica_otel.model import HOST_RATES, HOST_RATIOS
from factories_hardware import Tree

START, END = 100 * SECOND, 110 * SECOND
GROUP = "fs/cgroup/job"


class Watched:
    """Process 42 of a tree of files, and a clock in ns that stands until it is turned."""

    def __init__(self, root: Path) -> None:
        self.tree, self.now = Tree(root), 98 * SECOND
        self.tree.process(42, "status", "Cpus_allowed_list:\t0-3")
        self.tree.process(42, "cgroup", "0::/job")
        self.tree.node("node0", "0-1")
        self.tree.node("node1", "2-3")
        self.state()
        self.use = HostUse(42, self.tree.proc, self.tree.sys, lambda: self.now)

    def state(self, faults: int = 0, core: int = 0, busy_us: int = 0, memory: int = 100, read: int = 0) -> None:
        self.tree.running(user=0, system=0, core=core, major=faults)
        self.tree.process(42, "io", f"read_bytes: {read}\nwrite_bytes: 0")
        folder = self.tree.sys / GROUP
        self.tree.write(folder / "cpu.stat", f"usage_usec {busy_us}\nthrottled_usec 0\nnr_throttled 0")
        self.tree.write(folder / "cpu.max", "200000 100000")
        self.tree.write(folder / "memory.max", 1000)
        self.tree.write(folder / "memory.current", memory)

    def run(self, seconds: float, fast: bool = True, **state: int) -> None:
        self.state(**state)
        for _ in range(round(seconds * 10)):
            self.now += SECOND // 10
            self.use.sample(fast)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_what_happened_in_the_window_counts_and_nothing_else(watched: Watched) -> None:
    """1,000 faults and 10 s of CPU before it; in its 10 s 50 faults, 10 of 20 s of quota, most memory 90 %."""
    watched.run(2.0, faults=1000, busy_us=10_000_000, read=5_000)
    watched.run(5.0, faults=1025, busy_us=15_000_000, memory=900, read=5_000_000)
    watched.run(5.0, faults=1050, core=2, busy_us=20_000_000, memory=500, read=10_005_000)
    found = watched.use.during(START, END)
    assert found["major_faults"] == pytest.approx(5.0, rel=0.02)
    assert found["cgroup_cpu"] == pytest.approx(0.5, rel=0.02)
    assert found["cgroup_memory"] == 0.9
    assert found["numa_away"] == pytest.approx(0.5, abs=0.02)
    assert found["process_disk_read"] == pytest.approx(5_005_000 / 9)  # read once a second: from 100.1 to 109.1 s
    assert found["minor_faults"] == 0
    assert found.keys() <= {*HOST_RATIOS, *HOST_RATES}


@pytest.mark.parametrize(
    ("link", "file"),
    [
        ("eth0", "class/net/eth0/carrier_down_count"),
        ("mlx5_0/1", "class/infiniband/mlx5_0/ports/1/counters/link_downed"),
    ],
)
def test_how_often_the_link_of_the_collectives_went_down(watched: Watched, link: str, file: str) -> None:
    """3 falls before the window, and 2 in its 10 s."""
    watched.tree.write(watched.tree.sys / file, 3)
    watched.use.watch(link)
    watched.run(6.0)
    watched.tree.write(watched.tree.sys / file, 5)
    watched.run(6.0)
    assert watched.use.during(START, END)["link_down"] == pytest.approx(0.2, rel=0.02)


def test_a_link_that_nobody_named_or_that_does_not_tell_is_absent(watched: Watched) -> None:
    watched.run(3.0)
    watched.use.watch("eth7")
    watched.run(9.0)
    assert "link_down" not in watched.use.during(START, END)


def test_a_link_whose_device_hangs_costs_its_own_reading_alone(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading it waits until somebody writes into the pipe, as the file of a port whose firmware hangs."""
    pipe = tmp_path / "link_downed"
    os.mkfifo(pipe)
    file = os.open(pipe, os.O_RDWR)
    monkeypatch.setattr(LinkDownSource, "read", lambda _: [float(os.read(file, 8))])
    monkeypatch.setattr("eroica_otel.hardware.hostuse.PATIENCE_SECONDS", 0.01)
    watched.use.watch("eth0")
    watched.run(3.0)
    watched.run(9.0, faults=90)
    assert watched.use.during(START, END)["major_faults"] > 0
    watched.use.close()
    os.write(file, b"1")  # lets its thread end
    os.close(file)


def test_without_limits_and_without_readings_it_is_absent_and_never_0(watched: Watched) -> None:
    (watched.tree.sys / GROUP / "memory.max").write_text("max")
    os.unlink(watched.tree.proc / "42" / "io")
    watched.run(3.0)
    (watched.tree.sys / GROUP / "memory.max").write_text("max")
    assert watched.use.during(START - 300 * SECOND, END - 300 * SECOND) == {}
    assert "process_cpu" in watched.use.during(98 * SECOND, 101 * SECOND)


def test_a_process_that_is_gone_costs_nothing_but_its_readings(watched: Watched) -> None:
    gone = HostUse(43, watched.tree.proc, watched.tree.sys, lambda: watched.now)
    gone.sample(True)
    assert gone.during(0, END) == {}
    gone.close()
    gone.close()


def test_between_windows_a_reading_a_second_is_enough(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.run(10.0, fast=False)
    assert watched.use._count == 10
    watched.run(1.0)
    assert watched.use._count == 20


def test_the_real_process_has_a_use() -> None:
    now = [100 * SECOND]
    use = HostUse(os.getpid(), clock=lambda: now[0])
    for _ in range(3):
        use.sample(True)
        now[0] += SECOND
    found = use.during(100 * SECOND, now[0])
    assert 0 <= found["process_cpu"] <= 1
    assert found["minor_faults"] >= 0


def test_half_an_hour_of_readings_takes_the_room_of_the_first_one_and_the_latest_are_kept(watched: Watched) -> None:
    watched.run(1.0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        watched.run(MOST_SAMPLES / 10)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 24 * MOST_SAMPLES  # not even one float a reading
    start = watched.now
    watched.run(5.0, faults=0)
    watched.run(5.0, faults=100)
    assert watched.use.during(start, watched.now)["major_faults"] == pytest.approx(10.0, rel=0.02)
