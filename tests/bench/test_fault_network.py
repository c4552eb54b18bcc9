"""What the fault board's nodes can have done to their links: one direction limited, two behind one port."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eroica_otel.demo.nodes import Node, nodes
from faultboard import board

UPLINK = board("uplink")
GONE = 4_194_303
"""A number that no process has: above any of a kernel with its usual limit."""


@pytest.fixture
def places(tmp_path: Path) -> Iterator[list[Node]]:
    with nodes(3, tmp_path) as made:
        yield made


def shown(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def limits(node: Node) -> list[str]:
    """Return what a node may send and receive, as tc shows it."""
    both = node.run("tc", "qdisc", "show", "dev", "eth0"), shown("tc", "qdisc", "show", "dev", node.link)
    return [text.split(" rate ")[1].split()[0] for text in both]


def test_one_direction_of_one_link_is_limited(places: list[Node]) -> None:
    places[0].send_limit(50)
    places[1].receive_limit(0.5)
    places[2].limit(20)
    assert [limits(node) for node in places] == [["50Mbit", "1Gbit"], ["1Gbit", "500Kbit"], ["20Mbit", "20Mbit"]]


def reaches(node: Node, other: Node) -> bool:
    """Whether one node can open a connection to a port of another, which refuses it."""
    code = f"import socket; print(socket.socket().connect_ex(('{other.address}', 9)))"
    return node.run("timeout", "20", "python3", "-c", code).strip() == "111"


def test_two_nodes_behind_one_port_reach_all_others_and_go_back(places: list[Node]) -> None:
    first = places[0].link.rpartition("v")[0]
    with UPLINK.shared(places[:2], 50):
        assert "rate 50Mbit" in shown("tc", "qdisc", "show", "dev", f"{first}u")
        assert "rate 50Mbit" in shown("tc", "qdisc", "show", "dev", f"{first}d")
        assert f"master {first}s" in shown("ip", "-o", "link", "show", places[1].link)
        assert all(reaches(one, other) for one in places for other in places if one is not other)
    assert [f"master {first} " in shown("ip", "-o", "link", "show", node.link) for node in places] == [True] * 3
    assert f"{first}s" not in shown("ip", "-o", "link", "show")
    assert f"{first}u" not in shown("ip", "-o", "link", "show")


def test_the_port_of_a_board_that_was_killed_is_removed_by_the_next(tmp_path: Path) -> None:
    name = f"er{GONE}xabc"
    subprocess.run(["ip", "link", "add", f"{name}s", "type", "bridge"], check=True)
    subprocess.run(["ip", "link", "add", f"{name}u", "type", "veth", "peer", "name", f"{name}d"], check=True)
    with nodes(1, tmp_path):
        assert name not in shown("ip", "-o", "link", "show")
