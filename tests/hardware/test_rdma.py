"""RDMA ports as sources: units, adapters of several makes, links that are down, slow firmware."""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path

import pytest

from eroica_otel.hardware.rdma import COUNTERS, HW_COUNTERS, MOST, RdmaSource, RdmaStateSource
from eroica_otel.hardware.ring import MOST_RESOURCES
from eroica_otel.hardware.shares import share
from factories_hardware import Tree, Turned, known, peaks, reading


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "machine")


def rdma(tree: Tree, clock: Turned | None = None) -> RdmaSource:
    source = RdmaSource(tree.sys, clock=clock or Turned())
    source.look()
    return source


def state(tree: Tree, clock: Turned | None = None) -> RdmaStateSource:
    source = RdmaStateSource(tree.sys, clock=clock or Turned())
    source.look()
    return source


def test_data_counts_four_octets_and_the_peak_is_the_rate(tree: Tree) -> None:
    tree.port(files={"counters/port_xmit_data": 10, "counters/port_rcv_data": 20, "counters/port_xmit_packets": 3})
    source, other = rdma(tree), state(tree)
    assert reading(source) == {"mlx5_0/1 rdma_tx": 40, "mlx5_0/1 rdma_rx": 80}
    values = reading(other)
    assert values["mlx5_0/1 rdma_tx_packets"] == 3
    assert values["mlx5_0/1 rdma_active"] == 1
    assert values["mlx5_0/1 rdma_rate"] == peaks(source)["mlx5_0/1 rdma_rx"] == 12.5e9
    assert source.missing == {}
    assert other.missing == {"mlx5_0/1 rdma_rx_packets": "the port does not count it"}


def test_errors_and_retransmits_that_the_port_has(tree: Tree) -> None:
    tree.port(files={"counters/symbol_error": 1, "hw_counters/out_of_sequence": 2, "hw_counters/lifespan": 10})
    values = reading(state(tree))
    assert values["mlx5_0/1 rdma_symbol_error"] == 1
    assert values["mlx5_0/1 rdma_out_of_sequence"] == 2
    assert "mlx5_0/1 rdma_lifespan" not in values


def test_every_name_fits_into_a_ring(tree: Tree) -> None:
    files = {f"counters/{name}": 1 for name in COUNTERS} | {f"hw_counters/{name}": 1 for name in HW_COUNTERS}
    tree.port(files=files)
    found = {resource.name for resource in state(tree).resources}
    assert len(found) == len(files) + 2
    assert max(map(len, found)) <= 32


def test_an_adapter_that_counts_octets(tree: Tree) -> None:
    tree.port("rdmap0s6", files={"hw_counters/tx_bytes": 40, "hw_counters/rx_bytes": 50, "hw_counters/rx_pkts": 6})
    values = reading(rdma(tree)) | reading(state(tree))
    assert (values["rdmap0s6/1 rdma_tx"], values["rdmap0s6/1 rdma_rx"]) == (40, 50)
    assert values["rdmap0s6/1 rdma_rx_packets"] == 6


def test_wide_counters_are_preferred(tree: Tree) -> None:
    tree.port(files={"counters_ext/port_xmit_data_64": 7, "counters/port_xmit_data": 1})
    assert reading(rdma(tree))["mlx5_0/1 rdma_tx"] == 28


@pytest.mark.parametrize("told", ["1: DOWN", "2: INIT"])
def test_a_link_that_is_down_has_no_peak(told: str, tree: Tree) -> None:
    tree.port(state=told, rate="2.5 Gb/sec (1X SDR)")
    source = rdma(tree)
    assert reading(state(tree))["mlx5_0/1 rdma_active"] == 0
    assert math.isnan(peaks(source)["mlx5_0/1 rdma_tx"])
    assert source.missing["mlx5_0/1 rate"] == "the link is not active"


@pytest.mark.parametrize(("told", "rate"), [("", "100 Gb/sec"), ("4: ACTIVE", ""), ("4: ACTIVE", "fast")])
def test_a_port_that_speaks_otherwise(told: str, rate: str, tree: Tree) -> None:
    tree.port(state=told, rate=rate)
    source = rdma(tree)
    assert math.isnan(peaks(source)["mlx5_0/1 rdma_tx"])
    assert "mlx5_0/1 rate" in source.missing
    assert reading(source)["mlx5_0/1 rdma_tx"] == 0


def test_one_port_refuses_the_others_go_on(tree: Tree) -> None:
    folder = tree.port("mlx5_0")
    tree.port("mlx5_1", files={"counters/port_xmit_data": 2})
    tree.refuse(folder / "counters" / "port_xmit_data")
    source = rdma(tree)
    values = reading(source)
    assert math.isnan(values["mlx5_0/1 rdma_tx"])
    assert values["mlx5_1/1 rdma_tx"] == 8
    assert "mlx5_0/1 rdma_tx" in source.missing


def test_a_device_that_vanishes(tree: Tree) -> None:
    folder = tree.port("mlx5_0")
    tree.port("mlx5_1")
    source = rdma(tree)
    shutil.rmtree(folder.parent.parent)
    source.look()
    assert {resource.device for resource in source.resources} == {"mlx5_1/1"}


def test_a_counter_of_32_bits_that_wraps_tells_no_share(tree: Tree) -> None:
    folder = tree.port(files={"counters/port_xmit_data": 2**32 - 1})
    clock = Turned()
    source = rdma(tree, clock)
    before = reading(source)["mlx5_0/1 rdma_tx"]
    tree.write(folder / "counters" / "port_xmit_data", 5)
    clock.now += 1
    assert math.isnan(reading(source)["mlx5_0/1 rdma_tx"])
    assert source.missing["mlx5_0/1 rdma_tx"] == "the counter went back"
    clock.now += 1
    after = reading(source)["mlx5_0/1 rdma_tx"]
    assert after == 20
    assert math.isnan(share(source.resources[0], after, before, 2.0))


def test_data_at_200_hz_the_rest_at_1_hz(tree: Tree) -> None:
    tree.port(files={"counters/port_xmit_data": 1, "counters/port_rcv_data": 1, "counters/symbol_error": 1})
    clock = Turned()
    source, other = rdma(tree, clock), state(tree, clock)
    assert len(known(reading(source))) == 2
    everything = known(reading(other)).keys()
    assert len(everything) == 3
    assert known(reading(source)) == known(reading(other)) == {}
    clock.now += 0.006
    assert known(reading(source)).keys() == {"mlx5_0/1 rdma_tx", "mlx5_0/1 rdma_rx"}
    assert known(reading(other)) == {}
    clock.now += 1
    assert known(reading(other)).keys() == everything


def test_firmware_that_takes_long_is_asked_seldom(tree: Tree) -> None:
    """Each answer takes 20 ms here, which a fifth of the time pays: the next is due 100 ms after the last began."""
    tree.port(files={"counters/port_xmit_data": 1})
    clock = Turned(cost=0.02)
    source = rdma(tree, clock)
    reading(source)
    clock.cost = 0.0
    clock.now += 0.05
    assert known(reading(source)) == {}
    clock.now += 0.1
    assert known(reading(source)).keys() == {"mlx5_0/1 rdma_tx"}


def test_a_port_with_slow_firmware_holds_back_only_itself(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """One adapter takes 6 ms for its two counters, which a fifth of the time pays every 30 ms; the other nothing."""
    slow = tree.port("mlx5_0")
    tree.port("mlx5_1")
    clock = Turned()
    source = rdma(tree, clock)
    real = os.pread

    def pread(file: int, most: int, position: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{file}").startswith(str(slow)):
            clock.now += 0.003
        return real(file, most, position)

    monkeypatch.setattr("os.pread", pread)
    seen = {"mlx5_0/1 rdma_tx": 0, "mlx5_1/1 rdma_tx": 0}
    for _ in range(120):  # of 10 ms
        clock.now = round(clock.now + 0.01, 2)
        for name in known(reading(source)).keys() & seen.keys():
            seen[name] += 1
    assert seen["mlx5_1/1 rdma_tx"] == 120
    assert 30 <= seen["mlx5_0/1 rdma_tx"] <= 40


def test_a_clock_that_goes_back_stops_no_reading(tree: Tree) -> None:
    tree.port(files={"counters/port_xmit_data": 1})
    clock = Turned()
    source = rdma(tree, clock)
    reading(source)
    clock.now -= 500
    assert "mlx5_0/1 rdma_tx" in known(reading(source))


def test_a_machine_without_rdma(tmp_path: Path) -> None:
    source = RdmaSource(tmp_path)
    source.look()
    assert (source.resources, list(source.missing)) == ((), ["rdma"])


def test_a_node_with_virtual_functions_keeps_the_ports_that_are_used(tree: Tree) -> None:
    """Of 72 ports 32 are sampled, physical ones whose link is up first; the rest is said, and a ring holds them."""
    files = {f"counters/{name}": 1 for name in COUNTERS} | {f"hw_counters/{name}": 1 for name in HW_COUNTERS}
    files |= {"counters/port_xmit_data": 1, "counters/port_rcv_data": 1}
    for number in range(72):
        folder = tree.port(f"mlx5_{number}", state="1: DOWN" if number % 9 == 0 else "4: ACTIVE", files=files)
        if number >= 24:
            (folder.parent.parent / "device" / "physfn").mkdir(parents=True)
    for source in (rdma(tree), state(tree)):
        devices = {resource.device for resource in source.resources}
        physical = {f"mlx5_{number}/1" for number in range(24) if number % 9}
        assert len(devices) == MOST == 32
        assert physical < devices
        assert "mlx5_0/1" not in devices
        assert source.missing["mlx5_0/1"] == "only 32 ports are sampled"
        assert len([name for name, why in source.missing.items() if why.startswith("only")]) == 40
        assert len(source.resources) <= MOST_RESOURCES
