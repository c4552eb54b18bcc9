"""Interfaces of workers in other network namespaces, in real ones: seen, named apart, and told where they cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eroica_hardware.announce import Announcements
from eroica_hardware.listener import listen
from eroica_hardware.windows import Windows
from eroica_otel.hardware.netns import UNSEEN, NamespaceSource, namespace, own_name
from eroica_otel.hardware.shared import open_folder
from factories_hardware import Tree, reading

WORKER = """
import os, sys
from pathlib import Path
from eroica_otel.hardware.announce import Announcement, announce
said = Announcement(0, os.getpid(), 1, 5.0)
print(announce(Path(sys.argv[1]), said, patience_seconds=30.0) or "accepted", flush=True)
sys.stdin.read()
"""


class Pod:
    """A worker in a network namespace of its own, with one interface whose other end is on the node."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.outside = f"er{os.getpid()}{name}", f"er{os.getpid() % 100000}{name}"
        self.run("ip", "netns", "add", self.name)
        self.run("ip", "link", "add", self.outside, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        self.run("ip", "addr", "add", f"10.231.{ord(name)}.1/24", "dev", self.outside)
        self.run("ip", "link", "set", self.outside, "up")
        self.run("ip", "-n", self.name, "addr", "add", f"10.231.{ord(name)}.2/24", "dev", "eth0")
        self.run("ip", "-n", self.name, "link", "set", "eth0", "up")
        self.worker = subprocess.Popen(
            ["ip", "netns", "exec", self.name, sys.executable, "-c", WORKER, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *words: str) -> None:
        subprocess.run(words, check=True)

    def send(self, packets: int) -> None:
        """Send so many packets of 1,000 bytes out of the namespace."""
        code = (
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            f"for _ in range({packets}): s.sendto(bytes(1000), ('10.231.{ord(self.name[-1])}.1', 9))"
        )
        self.run("ip", "netns", "exec", self.name, sys.executable, "-c", code)

    def close(self) -> None:
        self.worker.kill()
        self.worker.communicate()
        subprocess.run(["ip", "netns", "del", self.name], check=False)
        subprocess.run(["ip", "link", "del", self.outside], check=False, stderr=subprocess.DEVNULL)


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[list[Pod]]:
    made: list[Pod] = []
    try:
        made += [Pod(name, tmp_path) for name in "ab"]
        yield made
    finally:
        for pod in made:
            pod.close()


def test_the_interfaces_of_two_pods_are_known_from_what_the_kernel_says_of_who_spoke(
    pods: list[Pod], tmp_path: Path
) -> None:
    folder = open_folder(tmp_path)
    received = Announcements(listen(folder), Windows(0), clock=lambda: 10**9)
    met: list[int] = []
    received.met = lambda: met.append(1)
    for pod in pods:
        while pod.worker.pid not in received.workers():  # `ip netns exec` becomes the worker
            received.round()
        assert pod.worker.stdout is not None
        assert pod.worker.stdout.readline() == "accepted\n"
    source = NamespaceSource(received.workers)
    source.look()
    names = [f"eth0@{namespace(pod.worker.pid)}" for pod in pods]
    assert len(met) == len(set(names)) == 2
    before = reading(source)
    assert sorted(before) == sorted(f"{name} {way}" for name in names for way in ("nic_rx", "nic_tx"))
    pods[0].send(50)
    after = reading(source)
    rise = {name: after[f"{name} nic_tx"] - before[f"{name} nic_tx"] for name in names}
    assert 50 * 1028 <= rise[names[0]] < 60 * 1100  # and headers
    assert rise[names[1]] < 1000
    assert source.missing == {}
    pods[0].worker.kill()
    pods[0].worker.wait()
    source.look()
    assert {one.device for one in source.resources} == {names[1]}
    source.close()
    received.close()
    os.close(folder)


def test_processes_of_our_own_namespace_or_gone_are_no_resources() -> None:
    source = NamespaceSource(lambda: (os.getpid(), 2**22 + 1))
    source.look()
    assert source.resources == ()
    assert source.missing == {}
    assert own_name("eth0") == f"eth0@{os.stat('/proc/self/ns/net').st_ino}"


def test_a_worker_that_cannot_be_seen_is_told(tmp_path: Path) -> None:
    source = NamespaceSource(lambda: (0,))
    source.look()
    assert list(source.missing.values()) == [UNSEEN]


def test_a_namespace_that_may_not_be_asked_is_told_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes 7 and 8, the namespace of the first is refused as the kernel does it to other users."""
    tree = Tree(tmp_path)
    for pid in ("self", "7", "8"):
        tree.write(tree.proc / pid / "ns" / "net", "")
    tree.write(
        tree.proc / "8" / "net" / "dev", "Inter-|\n face |\n    lo: 1 0 0 0 0 0 0 0 1 0\n  eth0: 5 0 0 0 0 0 0 0 6 0\n"
    )
    real = os.stat

    def refusing(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if "/7/ns" in str(path):
            raise PermissionError(13, "Permission denied")
        return real(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr("eroica_otel.hardware.netns.os.stat", refusing)
    source = NamespaceSource(lambda: (7, 8), proc=tree.proc)
    source.look()
    number = real(tree.proc / "8" / "ns" / "net").st_ino
    assert reading(source) == {f"eth0@{number} nic_tx": 6, f"eth0@{number} nic_rx": 5}
    assert list(source.missing) == ["network namespace of process 7"]
    assert "CAP_SYS_PTRACE" in source.missing["network namespace of process 7"]
