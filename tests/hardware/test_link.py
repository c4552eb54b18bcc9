"""Which link carries the collectives, by the libraries' variables and by PCI; and the worker's own counters of it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from eroica_otel.hardware.link import Link, OwnCounters, active_ports, interface_link, over_rdma, rdma_link
from factories_hardware import Tree

GPU = "0000:83:00.0"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def placed(tree: Tree, *below: str, name: str = "", numa: int = 0) -> None:
    """Put a device below these bridges; with a ``name`` it is an RDMA adapter, else a GPU."""
    folder = tree.sys.joinpath("devices", *below)
    tree.write(folder / "numa_node", numa)
    link = tree.sys / "bus" / "pci" / "devices" / below[-1]
    if name:
        tree.port(name)
        link = tree.sys / "class" / "infiniband" / name / "device"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)


def machine(tree: Tree) -> None:
    """A GPU and four adapters: behind its switch, behind its host bridge, on its node, on the other node."""
    placed(tree, "pci0000:80", "0000:80:01.0", "0000:81:00.0", "0000:82:00.0", GPU)
    placed(tree, "pci0000:20", "0000:20:01.0", "0000:21:00.0", name="mlx5_0", numa=1)
    placed(tree, "pci0000:a0", "0000:a0:01.0", "0000:a1:00.0", name="mlx5_1")
    placed(tree, "pci0000:80", "0000:80:02.0", "0000:90:00.0", name="mlx5_2")
    placed(tree, "pci0000:80", "0000:80:01.0", "0000:81:00.0", "0000:82:01.0", "0000:84:00.0", name="mlx5_3")


@pytest.mark.parametrize(
    ("without", "found"),
    [
        ("", "mlx5_3"),
        ("^mlx5_3", "mlx5_2"),
        ("^mlx5_3,mlx5_2", "mlx5_1"),
        ("^mlx5_1,mlx5_2,mlx5_3", "mlx5_0"),
    ],
)
def test_the_nearest_adapter_that_is_left_carries_the_collectives(without: str, found: str, tree: Tree) -> None:
    machine(tree)
    environment = {"NCCL_IB_HCA": without}
    link = rdma_link(environment, backend="nccl", gpu=GPU, local_rank=5, sys=tree.sys)
    assert link == Link(found, f"{found}/1", rdma=True)


def test_of_several_that_are_equally_near_each_local_rank_has_its_own(tree: Tree) -> None:
    for name in ("mlx5_0", "mlx5_1"):
        tree.port(name)
    links = [rdma_link({}, backend="nccl", local_rank=rank, sys=tree.sys) for rank in range(3)]
    assert [link.name for link in links if link is not None] == ["mlx5_0", "mlx5_1", "mlx5_0"]


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("mlx5_1", "mlx5_1/1"),
        ("mlx5_1:1,mlx5_0:2", "mlx5_1/1"),
        ("mlx5_1:2", None),
        ("=mlx5_1", "mlx5_1/1"),
        ("=mlx5", None),
        ("^=mlx5_0", "mlx5_1/1"),
        ("mlx", "mlx5_0/1"),
        (" , ", "mlx5_0/1"),
    ],
)
def test_the_adapters_that_nccl_is_told(listed: str, found: str | None, tree: Tree) -> None:
    for name in ("mlx5_0", "mlx5_1"):
        tree.port(name)
    link = rdma_link({"NCCL_IB_HCA": listed}, backend="nccl", sys=tree.sys)
    assert (link.device if link is not None else None) == found


def test_a_port_that_is_down_carries_nothing(tree: Tree) -> None:
    tree.port("mlx5_0", state="1: DOWN")
    tree.port("mlx5_1")
    tree.port("odd", state="up")
    assert active_ports(tree.sys) == ["mlx5_1/1"]


@pytest.mark.parametrize(
    ("environment", "backend", "over"),
    [
        ({}, "nccl", True),
        ({}, "cpu:gloo,cuda:nccl", True),
        ({}, "gloo", False),
        ({}, "", False),
        ({"NCCL_IB_DISABLE": "1"}, "nccl", False),
        ({"NCCL_IB_DISABLE": "0"}, "nccl", True),
        ({"NCCL_NET": "Socket"}, "nccl", False),
    ],
)
def test_whether_a_backend_goes_over_rdma(environment: dict[str, str], backend: str, over: bool) -> None:
    assert over_rdma(environment, backend) is over


def test_what_the_user_says_comes_first(tree: Tree) -> None:
    tree.port("mlx5_0")
    tree.port("mlx5_1")
    tree.interface("eth0")
    assert rdma_link({}, "mlx5_1", "gloo", sys=tree.sys) == Link("mlx5_1", "mlx5_1/1", rdma=True)
    assert rdma_link({}, "mlx5_1/1", "nccl", sys=tree.sys) == Link("mlx5_1", "mlx5_1/1", rdma=True)
    assert rdma_link({}, "eth0", "nccl", sys=tree.sys) is None
    assert interface_link({}, "eth0", tree.sys, tree.proc) == Link("eth0", "eth0")
    assert interface_link({}, "", tree.sys, tree.proc) == Link()


def test_own_counters_of_an_interface_are_two_files_read_anew_and_can_be_closed_twice(tree: Tree) -> None:
    folder = tree.interface("eth0", speed=10000, tx_bytes=100, rx_bytes=200)
    tree.interface("eth1", tx_bytes=7)
    before = len(os.listdir("/proc/self/fd"))
    counters = OwnCounters(Link("eth0", "eth0"), sys=tree.sys)
    assert len(os.listdir("/proc/self/fd")) == before + 2
    assert counters.read() == (100, 200)
    assert counters.peak_bytes == 1.25e9
    tree.write(folder / "statistics" / "tx_bytes", 4_000_000_000_000_000)
    assert counters.read() == (4_000_000_000_000_000, 200)
    counters.close()
    counters.close()
    assert counters.read() is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_own_counters_that_go_back_or_vanish_are_missing_and_not_zero(tree: Tree) -> None:
    folder = tree.interface("eth0", tx_bytes=100, rx_bytes=200)
    counters = OwnCounters(Link("eth0", "eth0"), sys=tree.sys)
    assert counters.read() == (100, 200)
    tree.write(folder / "statistics" / "rx_bytes", 3)
    assert counters.read() is None
    assert counters.read() == (100, 3)
    tree.write(folder / "statistics" / "tx_bytes", "")
    assert counters.read() is None


def test_the_speed_is_what_was_given_else_what_the_link_tells_else_unknown(tree: Tree) -> None:
    tree.interface("eth0", speed=-1)
    link = Link("eth0", "eth0")
    assert OwnCounters(link, sys=tree.sys).peak_bytes is None
    assert OwnCounters(link, 100.0, tree.sys).peak_bytes == 12.5e6


def test_own_counters_of_a_port_are_in_bytes(tree: Tree) -> None:
    tree.port("mlx5_0", files={"counters/port_xmit_data": 25, "counters/port_rcv_data": 50, "counters/symbol_error": 1})
    counters = OwnCounters(Link("mlx5_0", "mlx5_0/1", rdma=True), sys=tree.sys)
    assert counters.read() == (100, 200)
    assert counters.peak_bytes == 12.5e9
    assert OwnCounters(Link("mlx5_0", "mlx5_0/1", rdma=True), 800.0, tree.sys).peak_bytes == 1e8


def test_a_link_without_counters_is_an_error_and_leaves_no_open_file(tree: Tree) -> None:
    folder = tree.interface("eth0")
    (folder / "statistics" / "rx_bytes").unlink()
    before = len(os.listdir("/proc/self/fd"))
    for link in (Link("eth0", "eth0"), Link("eth9", "eth9"), Link("mlx5_0", "mlx5_0/1", rdma=True)):
        with pytest.raises(OSError, match="has no counters of bytes: set EROICA_NIC"):
            OwnCounters(link, sys=tree.sys)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_a_process_sends_to_itself_is_counted_on_loopback() -> None:
    counters = OwnCounters(Link("lo", "lo"))
    before = counters.read()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(10):
                sender.sendto(bytes(10_000), receiver.getsockname())
    after = counters.read()
    counters.close()
    assert before is not None
    assert after is not None
    assert all(new - old >= 100_000 for old, new in zip(before, after, strict=True))
