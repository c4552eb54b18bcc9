"""Which interface carries the collectives and its speed; on folders and on a real pair of interfaces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eroica_otel.hardware.net import find_interface, peak_bytes_per_second

ROUTES = """\
Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 0101A8C0 0003 0 0 100 00000000 0 0 0
eth0 0001A8C0 00000000 0001 0 0 100 00FFFFFF 0 0 0
ib0 0000010A 00000000 0001 0 0 0 0000FFFF 0 0 0
"""
"""Default and 192.168.1.0/24 by eth0, 10.1.0.0/16 by ib0; addresses in the kernel's byte order."""


def route_6(destination: str, length: int, metric: int, interface: str) -> str:
    none = "0" * 32
    return f"{destination:0<32} {length:02x} {none} 00 {none} {metric:08x} 00000001 00000000 00000001 {interface:>8}\n"


ROUTES_6 = (
    route_6("fd000001", 64, 256, "eth0")
    + route_6("fd000001", 64, 100, "ib0")
    + route_6("", 0, 1024, "eth0")
    + route_6("", 0, 0xFFFFFFFF, "lo")
    + route_6("fd0000010000000000000000000000" + "09", 128, 0, "lo")
)
"""fd00:1::/64 by ib0, which has the better metric, of which fd00:1::9 is this machine's own; default by eth0."""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    for name, speed in (("eth0", "10000"), ("ib0", "-1"), ("lo", "")):
        statistics = tmp_path / "class" / "net" / name / "statistics"
        statistics.mkdir(parents=True)
        (statistics / "tx_bytes").write_text("100\n")
        (statistics / "rx_bytes").write_text("200\n")
        if speed:
            (statistics.parent / "speed").write_text(f"{speed}\n")
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "route").write_text(ROUTES)
    (tmp_path / "net" / "ipv6_route").write_text(ROUTES_6)
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "wanted", "found"),
    [
        ({}, "eth0", "eth0"),
        ({"GLOO_SOCKET_IFNAME": "eth0"}, "ib0", "ib0"),
        ({"GLOO_SOCKET_IFNAME": "ib0,eth0", "NCCL_SOCKET_IFNAME": "eth0"}, "", "ib0"),
        ({"NCCL_SOCKET_IFNAME": "=eth0"}, "", "eth0"),
        ({"NCCL_SOCKET_IFNAME": "^lo,docker0", "MASTER_ADDR": "10.1.2.3"}, "", "ib0"),
        ({"NCCL_SOCKET_IFNAME": "ib", "MASTER_ADDR": "192.168.1.9"}, "", "ib0"),
        ({"NCCL_SOCKET_IFNAME": "=ib", "MASTER_ADDR": "192.168.1.9"}, "", "eth0"),
        ({"NCCL_SOCKET_IFNAME": "ens,et"}, "", "eth0"),
        ({"GLOO_SOCKET_IFNAME": "et", "MASTER_ADDR": "10.1.2.3"}, "", "ib0"),
        ({"MASTER_ADDR": "fd00:1::9"}, "", "ib0"),
        ({"MASTER_ADDR": "2001:db8::1"}, "", "eth0"),
        ({"MASTER_ADDR": "::ffff:10.1.2.3"}, "", "ib0"),
        ({"MASTER_ADDR": "::1"}, "", "lo"),
        ({"MASTER_ADDR": "::"}, "", "lo"),
        ({"MASTER_ADDR": "8.8.8.8"}, "gone0", "eth0"),
        ({"MASTER_ADDR": "127.0.0.1"}, "", "lo"),
        ({"MASTER_ADDR": "localhost"}, "", "lo"),
        ({"MASTER_ADDR": "0.0.0.0"}, "", "lo"),
        ({"MASTER_ADDR": "."}, "", ""),
        ({"MASTER_ADDR": "x" * 70}, "", ""),
        ({}, "", ""),
    ],
)
def test_the_interface_of_the_collectives(environment: dict[str, str], wanted: str, found: str, machine: Path) -> None:
    assert find_interface(environment, wanted, machine, machine) == found


def test_without_routes_it_cannot_be_told(machine: Path) -> None:
    (machine / "net" / "route").unlink()
    (machine / "net" / "ipv6_route").write_text("rubbish")
    assert find_interface({"MASTER_ADDR": "2001:db8::1"}, "", machine, machine) == ""
    assert find_interface({"MASTER_ADDR": "10.1.2.3"}, "", machine, machine) == ""


def test_the_speed_is_what_was_given_else_what_the_interface_says_else_unknown(machine: Path) -> None:
    assert peak_bytes_per_second("eth0", 0.0, machine) == 1.25e9
    assert peak_bytes_per_second("eth0", 100.0, machine) == 12.5e6
    assert peak_bytes_per_second("ib0", 0.0, machine) is None
    assert peak_bytes_per_second("lo", 0.0, machine) is None
    assert peak_bytes_per_second("gone0", 0.0, machine) is None


PAIR = """
ip link add name one type veth peer name two
ip addr add 10.99.0.1/24 dev one
ip link set one up
ip link set two up
ip link set lo up
mount -t sysfs sysfs /sys
exec "$@"
"""
SEND = """
import socket
from eroica_otel.hardware.link import Link, OwnCounters
from eroica_otel.hardware.net import find_interface, peak_bytes_per_second
name = find_interface({"MASTER_ADDR": "10.99.0.7"})
counters, other = OwnCounters(Link(name, name)), OwnCounters(Link("two", "two"))
before, there = counters.read(), other.read()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    for _ in range(100):
        sender.sendto(bytes(1000), ("10.99.0.255", 9))
sent, received = counters.read()[0] - before[0], other.read()[1] - there[1]
print(name, peak_bytes_per_second(name), sent, received)
"""


def namespaces_are_permitted() -> bool:
    script = "mount -t sysfs sysfs /sys && ip link add name one type veth peer name two"
    tried = subprocess.run(["unshare", "--net", "--mount", "sh", "-c", script], capture_output=True, check=False)
    return tried.returncode == 0


def test_a_real_pair_of_interfaces_counts_what_goes_through_or_the_machine_does_not_permit_one() -> None:
    """Needs root and iproute2; where a namespace is not permitted, that is what is found out here."""
    try:
        permitted = namespaces_are_permitted()
    except FileNotFoundError:
        permitted = False
    if not permitted:
        assert find_interface({"GLOO_SOCKET_IFNAME": "one"}) == ""
        return
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-ec", PAIR, "sh", sys.executable, "-c", SEND],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    name, peak, sent, received = done.stdout.split()
    assert (name, peak) == ("one", str(1.25e9)), done.stderr
    # 100 datagrams of 1,000 bytes and their headers.
    assert 100_000 <= int(sent) <= 110_000
    assert int(received) == int(sent)
