"""Network interfaces as sources: own namespace, another's, interfaces that come, go, count backwards or are silent."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eroica_otel.hardware.interfaces import MOST, InterfaceSource
from factories_hardware import Tree, Turned, known, peaks, reading


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "machine")


def own(tree: Tree, mbit: float = 0.0) -> InterfaceSource:
    source = InterfaceSource(sys=tree.sys, mbit=mbit, clock=Turned())
    source.look()
    return source


def test_an_interface_is_read_with_its_speed_as_peak(tree: Tree) -> None:
    tree.interface("eth0", speed=25_000, tx_bytes=123, rx_bytes=456, tx_errors=7)
    source = own(tree)
    values = reading(source)
    assert (values["eth0 nic_tx"], values["eth0 nic_rx"], values["eth0 nic_tx_errors"]) == (123, 456, 7)
    assert peaks(source)["eth0 nic_tx"] == 25e9 / 8
    assert {resource.unit for resource in source.resources} == {"By", "1"}
    assert all(resource.counter for resource in source.resources)
    assert source.missing == {}


@pytest.mark.parametrize("speed", ["-1", "", "fast"])
def test_without_a_speed_the_bytes_are_there_and_the_peak_is_missing(speed: str, tree: Tree) -> None:
    tree.interface("lo", speed=speed, tx_bytes=5)
    source = own(tree)
    assert reading(source)["lo nic_tx"] == 5
    assert math.isnan(peaks(source)["lo nic_tx"])
    assert list(source.missing) == ["lo speed"]
    assert peaks(own(tree, mbit=800))["lo nic_tx"] == 1e8


def test_the_speed_is_asked_for_once_and_after_each_change_of_the_link(tree: Tree) -> None:
    """The speed is answered under the lock of the whole network, by the driver."""
    folder = tree.interface("eth0", speed=25_000)
    tree.write(folder / "carrier_changes", 2)
    source = own(tree)
    tree.write(folder / "speed", 1000)
    source.look()
    assert peaks(source)["eth0 nic_tx"] == peaks(source)["eth0 nic_rx"] == 25e9 / 8
    tree.write(folder / "carrier_changes", 4)
    source.look()
    assert peaks(source)["eth0 nic_tx"] == 1e9 / 8
    tree.write(folder / "operstate", "down")
    tree.write(folder / "speed", -1)
    source.look()
    assert math.isnan(peaks(source)["eth0 nic_tx"])
    assert "eth0 speed" in source.missing


def test_an_interface_that_vanishes_and_comes_again(tree: Tree) -> None:
    folder = tree.interface("eth0", tx_bytes=5)
    tree.interface("eth1", tx_bytes=6)
    source = own(tree)
    shutil.rmtree(folder)
    source.look()
    assert known(reading(source)).keys() >= {"eth1 nic_tx"}
    assert not [name for name in peaks(source) if name.startswith("eth0")]
    tree.interface("eth0", tx_bytes=1)
    source.look()
    assert reading(source)["eth0 nic_tx"] == 1


def test_permission_denied_on_one_file(tree: Tree) -> None:
    folder = tree.interface("eth0", tx_bytes=5, rx_bytes=6)
    tree.refuse(folder / "statistics" / "tx_bytes")
    source = own(tree)
    values = reading(source)
    assert math.isnan(values["eth0 nic_tx"])
    assert values["eth0 nic_rx"] == 6
    assert list(source.missing) == ["eth0 nic_tx"]


def test_a_counter_that_goes_back_is_missing_once(tree: Tree) -> None:
    folder = tree.interface("eth0", tx_bytes=5000, rx_bytes=5)
    source = own(tree)
    reading(source)
    tree.write(folder / "statistics" / "tx_bytes", 10)
    values = reading(source)
    assert math.isnan(values["eth0 nic_tx"])
    assert values["eth0 nic_rx"] == 5
    assert source.missing == {"eth0 nic_tx": "the counter went back"}
    tree.write(folder / "statistics" / "tx_bytes", 11)
    assert reading(source)["eth0 nic_tx"] == 11
    assert source.missing == {}


@pytest.mark.parametrize("text", ["", "many", "1.5"])
def test_another_form_is_missing(text: str, tree: Tree) -> None:
    folder = tree.interface("eth0")
    tree.write(folder / "statistics" / "rx_bytes", text)
    source = own(tree)
    assert math.isnan(reading(source)["eth0 nic_rx"])
    assert source.missing == {"eth0 nic_rx": "the file has another form"}


def test_errors_are_asked_for_once_a_second(tree: Tree) -> None:
    tree.interface("eth0", tx_bytes=1)
    clock = Turned()
    source = InterfaceSource(sys=tree.sys, clock=clock)
    source.look()
    reading(source)
    clock.now += 0.5
    assert known(reading(source)).keys() == {"eth0 nic_tx", "eth0 nic_rx"}
    clock.now += 0.5
    assert "eth0 nic_tx_errors" in known(reading(source))


def test_of_very_many_interfaces_those_with_a_device_are_read(tree: Tree) -> None:
    for index in range(MOST + 3):
        tree.interface(f"cali{index:03}", device=False)
    tree.interface("eth0")
    source = own(tree)
    reading(source)
    assert "eth0 nic_tx" in peaks(source)
    assert len({resource.device for resource in source.resources}) == MOST
    assert [name for name in source.missing if name.startswith("cali")] == ["cali031", "cali032", "cali033", "cali034"]


def test_no_sysfs_at_all(tmp_path: Path) -> None:
    source = InterfaceSource(sys=tmp_path)
    source.look()
    assert source.resources == ()
    assert list(source.read()) == []
    assert list(source.missing) == ["net"]


def test_this_machine_has_interfaces_and_long_lists_are_read_whole() -> None:
    source = InterfaceSource()
    source.look()
    assert len(known(reading(source))) == len(source.resources) > 0
    source.close()


VANISHING = """
import math, subprocess
from eroica_otel.hardware.columns import key_of
from eroica_otel.hardware.interfaces import InterfaceSource

def link(*words):
    subprocess.run(["ip", "link", *words], check=True)

def read():
    return dict(zip(map(key_of, source.resources), source.read()))

link("add", "one", "type", "veth", "peer", "name", "two")
source = InterfaceSource()
source.look()
assert read()["one nic_tx"] == 0
link("del", "one")
values = read()
assert math.isnan(values["one nic_tx"]) and values["lo nic_tx"] >= 0, values
assert "one nic_tx" in source.missing
source.look()
assert "one nic_tx" not in read()
link("add", "one", "type", "veth", "peer", "name", "two")
source.look()
assert read()["one nic_tx"] == 0
print("seen")
"""


def in_a_namespace(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a network namespace of its own."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    script = 'mount -t sysfs sysfs /sys && exec "$@"'
    return subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", code],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_real_interface_that_vanishes_or_the_machine_permits_no_namespace() -> None:
    """Needs root and iproute2; without them unshare says so, and there is nothing to see."""
    try:
        done = in_a_namespace(VANISHING)
    except FileNotFoundError:
        return
    assert done.stdout == "seen\n" or done.stderr.startswith("unshare:"), done.stderr


def linked(tree: Tree, name: str, device: bool = False, iflink: int = 7, kind: str = "") -> None:
    """An interface of number 7 whose link is ``iflink``."""
    folder = tree.interface(name, device=device)
    for file, text in (("ifindex", 7), ("iflink", iflink), ("uevent", f"DEVTYPE={kind}" if kind else "IFINDEX=7")):
        tree.write(folder / file, text)


def test_the_ends_of_containers_pairs_are_left_out_beside_a_real_interface(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    linked(tree, "veth1", iflink=2)
    linked(tree, "vlan5", iflink=2, kind="vlan")
    linked(tree, "bond0", kind="bond")
    linked(tree, "lo")
    source = InterfaceSource(sys=tree.sys)
    source.look()
    assert {resource.device for resource in source.resources} == {"veth1", "vlan5", "bond0", "lo"}
    linked(tree, "eth0", device=True, iflink=2)
    source.look()
    assert {resource.device for resource in source.resources} == {"eth0", "vlan5", "bond0", "lo"}
    assert "veth1" not in source.missing
    only = InterfaceSource(sys=tree.sys, only="veth1")
    only.look()
    assert {resource.device for resource in only.resources} == {"veth1"}
