"""Faults of links beyond a plain limit: contexts that take the cable of a node and undo themselves. Needs root.

The cable is a veth pair: ``eth0`` in the node's namespace and the end at the bridge, from which the switch sends to the
node. Packets are lost there by a classifier of three instructions that draws a random number (sch_htb and cls_bpf):
many kernels have no netem, and ``tc`` is needed anyhow.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

from bench.faults.faults.phases import cycling
from eroica_otel.demo.nodes import MEGABITS

BURST_SECONDS = 0.01
"""With less the kernel's clock limits the rate."""
_RANDOM_WORD = 0xFFFFF038
"""Where a classic filter reads a random number of 32 bits (linux/filter.h: SKF_AD_OFF + SKF_AD_RANDOM)."""


class Cable(Protocol):
    """What is needed of a node: the end of its cable at the bridge, and how to give it its usual speed."""

    @property
    def link(self) -> str: ...

    def limit(self, megabits: int) -> None: ...


@contextmanager
def losing(cable: Cable, ratio: float) -> Iterator[None]:
    """Lose that share (0 to 1) of the packets to a node at random, as a dirty connector does.

    A packet is what the kernel hands on: with offloading up to 64 KiB, and an acknowledgement is one, too.
    """
    with ExitStack() as undo:
        undo.callback(cable.limit, MEGABITS)
        _lose(cable.link, ratio)
        yield


@contextmanager
def slow_for(cable: Cable, megabits: int, seconds: float) -> Iterator[None]:
    """Limit what a node sends and receives, for some seconds."""
    with cycling(lambda: cable.limit(megabits), lambda: cable.limit(MEGABITS), seconds):
        yield


@contextmanager
def down(cable: Cable, seconds: float) -> Iterator[None]:
    """Pull a node's cable, and put it back after ``seconds``."""
    with cycling(lambda: _set(cable, "down"), lambda: _set(cable, "up"), seconds):
        yield


@contextmanager
def flapping(cable: Cable, down_seconds: float, up_seconds: float) -> Iterator[None]:
    """Take a node's link down again and again, as a failing transceiver does: the node sees its carrier go and come."""
    with cycling(lambda: _set(cable, "down"), lambda: _set(cable, "up"), down_seconds, up_seconds):
        yield


def _lose(device: str, ratio: float) -> None:
    """Replace the shaping of a device by one with two classes: the second lets nothing through."""
    at = ("dev", device, "parent", "1:")
    rate = ("rate", f"{MEGABITS}mbit", "burst", str(round(MEGABITS * 1e6 / 8 * BURST_SECONDS)), "quantum", "60000")
    _run("tc", "qdisc", "replace", "dev", device, "root", "handle", "1:", "htb", "default", "1")
    _run("tc", "class", "add", *at, "classid", "1:1", "htb", *rate)
    _run("tc", "class", "add", *at, "classid", "1:2", "htb", "rate", "8bit", "quantum", "1000")
    _run("tc", "qdisc", "add", "dev", device, "parent", "1:2", "pfifo", "limit", "0")
    # Load a random word; not below the bound: no match; below: match, which means class 1:2.
    code = f"4,32 0 0 {_RANDOM_WORD},53 1 0 {round(ratio * 2**32)},6 0 0 4294967295,6 0 0 0"
    _run("tc", "filter", "add", *at, "protocol", "all", "bpf", "bytecode", code, "flowid", "1:2")


def _set(cable: Cable, state: str) -> None:
    _run("ip", "link", "set", cable.link, state)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
