"""Network namespaces that serve as nodes: each has an address, a host name and a folder of its own, all on one bridge.

Needs root, ``ip`` and ``tc`` (iproute2) and ``unshare`` (util-linux). Links can be limited, cut and mended. Nothing
stays behind: leaving the context ends every process that was started and removes namespaces and bridge; what a killed
process left is removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from eroica_otel.demo.ending import die_with_parent, owner_is_gone
from eroica_otel.status import Status, live_workers

NETWORK = "10.213.{third}.{last}"
MEGABITS = 1000
"""Usual speed of every link at first: what a fault leaves of it has to be told from what it was."""
_ETC = Path("/etc/netns")
_LEFT = re.compile(r"\b(er(\d+)x[0-9a-f]{2,3}(?:-\d+|[a-u])?)(?=[\s:@]|$)", re.MULTILINE)
"""Names of namespaces and bridges, and of what is made beside a bridge: its name and a letter before the nodes' v."""


def missing() -> str:
    """Return what nodes need and this machine lacks, "" for nothing."""
    if os.geteuid() != 0:
        return "root, to make network namespaces"
    absent = [name for name in ("ip", "tc", "unshare") if shutil.which(name) is None]
    if absent:
        return f"{' and '.join(absent)} (Debian: apt-get install iproute2 util-linux)"
    name = f"er{secrets.token_hex(2)}"
    tried = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    return f"network namespaces ({tried.stderr.strip()})" if tried.returncode else ""


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@dataclass
class Node:
    """One node.

    Attributes:
        host: Its host name, as the label ``host`` shows it.
        address: Its address on the bridge.
        gateway: This machine's address on the bridge.
        folder: A folder that the other nodes do not use.
    """

    host: str
    address: str
    gateway: str
    namespace: str
    link: str
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Run ``command`` on this node; what it writes is appended to ``log``."""
        inside = ["ip", "netns", "exec", self.namespace, "unshare", "--uts"]
        named = ["sh", "-c", f'hostname {self.host}; exec "$@"', "sh", *command]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*inside, *named],
                env=os.environ | {"EROICA_DIR": str(self.folder), "GLOO_SOCKET_IFNAME": "eth0"} | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self.processes.append(process)
        return process

    def cut(self) -> None:
        """Pull the cable."""
        _ip("link", "set", self.link, "down")

    def mend(self) -> None:
        """Put the cable in again."""
        _ip("link", "set", self.link, "up")

    def limit(self, megabits: float) -> None:
        """Let the node send and receive at most that many megabits a second each (tbf at both ends of its link)."""
        self.send_limit(megabits)
        self.receive_limit(megabits)

    def send_limit(self, megabits: float) -> None:
        """Let the node send at most that many megabits a second."""
        self.run("tc", "qdisc", "replace", "dev", "eth0", *bucket(megabits))

    def receive_limit(self, megabits: float) -> None:
        """Let the node receive at most that many megabits a second."""
        command = ["tc", "qdisc", "replace", "dev", self.link, *bucket(megabits)]
        subprocess.run(command, check=True, capture_output=True)

    def run(self, *command: str) -> str:
        """Run a short command on this node; return what it prints.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        inside = ["ip", "netns", "exec", self.namespace, *command]
        return subprocess.run(inside, check=True, capture_output=True, text=True).stdout

    def end(self) -> None:
        """Kill what was started here and has not ended."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _kill_all(self.namespace)


def bucket(megabits: float) -> list[str]:
    """Return the words for tc that limit a device to that many megabits a second."""
    # Bytes in 10 ms: with less, the kernel's clock limits the rate. A packet that waits already may have 64 KiB and its
    # headers, and with a smaller burst would wait for ever.
    burst = max(80_000, int(megabits * 1250))
    return ["root", "tbf", "rate", f"{int(megabits * 1000)}kbit", "burst", str(burst), "latency", "100ms"]


def workers_of(places: Sequence[Node]) -> list[Status]:
    """Return what the workers on nodes say of themselves, by rank."""
    found = [status for node in places for _, status in live_workers(node.folder)]
    return sorted(found, key=lambda status: status.identity.rank)


@contextmanager
def nodes(count: int, folder: Path) -> Iterator[list[Node]]:
    """Make ``count`` nodes that reach each other and, at the first address of their network, this machine.

    Raises CalledProcessError where ``missing`` says so.
    """
    sweep()
    third = secrets.randbelow(250)
    bridge = _unused()
    made: list[Node] = []
    _ip("link", "add", bridge, "type", "bridge")
    try:
        _ip("addr", "add", NETWORK.format(third=third, last=1) + "/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for number in range(count):
            made.append(_node(number, third, bridge, folder))
            made[-1].limit(MEGABITS)
        hosts = "".join(f"{node.address} {node.host}\n" for node in made) + "127.0.0.1 localhost\n"
        for node in made:
            place = _ETC / node.namespace
            place.mkdir(parents=True)
            (place / "hosts").write_text(hosts)
        yield made
    finally:
        for node in made:
            node.end()
            _remove(node.namespace)
        _ip("link", "del", bridge)


def _unused() -> str:
    """Return a name for a bridge; with a letter and the number of a node it has at most 15 characters."""
    while True:
        name = f"er{os.getpid()}x{secrets.token_hex(2)[:3]}"
        # The ends of cables of nodes that are no more stay for a moment.
        if not list(Path("/sys/class/net").glob(f"{name}*")):
            return name


def _kill_all(namespace: str) -> None:
    pids = subprocess.run(["ip", "netns", "pids", namespace], check=False, capture_output=True, text=True)
    for pid in pids.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def _remove(namespace: str) -> None:
    subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)
    shutil.rmtree(_ETC / namespace, ignore_errors=True)


def sweep() -> None:
    """Remove what processes that are no more have left."""
    for kind in (["netns", "list"], ["-o", "link", "show"]):
        listed = subprocess.run(["ip", *kind], check=False, capture_output=True, text=True).stdout
        for name, pid in _LEFT.findall(listed):
            if not owner_is_gone(int(pid)):
                continue
            if "-" in name:
                _kill_all(name)
                _remove(name)
            else:
                subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)


def _node(number: int, third: int, bridge: str, folder: Path) -> Node:
    namespace, link = f"{bridge}-{number}", f"{bridge}v{number}"
    address, gateway = (NETWORK.format(third=third, last=last) for last in (10 + number, 1))
    node = Node(f"node-{number}", address, gateway, namespace, link, folder / str(number))
    node.folder.mkdir(parents=True)
    _ip("netns", "add", namespace)
    _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    _ip("link", "set", link, "master", bridge, "up")
    for inside in (("addr", "add", f"{node.address}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
        _ip("-n", namespace, *inside)
    _ip("-n", namespace, "link", "set", "lo", "up")
    return node
