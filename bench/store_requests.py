"""What agreement asks of the job's store: each rank by itself, or one spokesman for the ranks of a node.

Real pollers talk to a real TCPStore in another process, round by round without a pause between them, so that only
requests and the CPU time of the server count; one round stands for one second of a job. "Spokesman" is what it could be
at best, and is no part of the product: the same round once for the node, with the standings of all its ranks in one
request. "Decides" is the reading of all standings by the one rank that proposes a window, from a key for each rank or
for each node. docs/how-it-works.md ("One poller a rank") says what follows.

    python bench/store_requests.py [--ranks 8] [--rounds 2000] [--json FILE]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed

from eroica_otel.agree.poller import Poller
from eroica_otel.agree.store import C10dStore
from eroica_otel.agree.window import Standing

SERVER = """
import datetime, sys, time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=datetime.timedelta(seconds=5))
print(store.port, flush=True)
sys.stdin.read()
"""
REPEATS, WARM_UP, NODES = 3, 20, 1250
ASKS = ("each rank", "spokesman")
DECIDES = ("decides, a key for each rank", "decides, a key for each node")
COUNTED = ("check", "get", "set", "compare_set", "multi_get", "multi_set")


class Measured(NamedTuple):
    requests: float
    server_cpu_seconds: float


class Counting:
    """A client of the store whose requests are counted."""

    def __init__(self, client: Any, counts: Counter[str]) -> None:
        self._client, self._counts = client, counts

    def __getattr__(self, name: str) -> Any:
        if name in COUNTED:
            self._counts[name] += 1
        return getattr(self._client, name)


def standing(rank: int, iteration: int) -> Standing:
    return Standing(rank, iteration, 0.1, 1000, "", 0.0, 0, 0)


def connected(port: int) -> Any:
    distributed: Any = torch.distributed
    patience = datetime.timedelta(seconds=5)
    return distributed.TCPStore("127.0.0.1", port, is_master=False, timeout=patience, wait_for_workers=False)


class Node:
    """The clients of one node: as many as it has ranks, or one."""

    def __init__(self, port: int, ranks: int, spokesman: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._clock = 0.0
        self._ranks, self._spokesman = ranks, spokesman
        self._clients = [Counting(connected(port), self.counts) for _ in range(1 if spokesman else ranks)]
        self._pollers = [self._poller(client, rank) for rank, client in enumerate(self._clients)]

    def _poller(self, client: Counting, rank: int) -> Poller:
        store = C10dStore(client, f"eroica/{self._spokesman}/", "attempt", lambda: self._clock)
        return Poller(lambda: store, self._ranks, 20.0, lambda: self._clock)

    def second(self, number: int) -> None:
        """What the node asks in one second of a training in which nothing happens."""
        self._clock = float(number)
        standings = [standing(rank, number) for rank in range(self._ranks)]
        if self._spokesman:
            others = [one for one in standings if one.rank]
            keys = [f"eroica/True/attempt/rank/{one.rank}" for one in others]
            if keys:
                self._clients[0].multi_set(keys, [one.to_bytes().decode() for one in others])
        for rank, poller in enumerate(self._pollers):
            poller.standing = standings[rank]
            poller.poll()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


def asked(server: int, node: Node, rounds: int) -> Measured:
    """Return requests and the server's CPU seconds for one second of a node."""
    for number in range(WARM_UP):
        node.second(number)
    node.counts.clear()
    cpu = cpu_seconds(server)
    for number in range(WARM_UP, WARM_UP + rounds):
        node.second(number)
    return Measured(sum(node.counts.values()) / rounds, (cpu_seconds(server) - cpu) / rounds)


def deciding(server: int, port: int, keys: int, value: bytes) -> list[Measured]:
    """Return what it takes to read the standings of all, for the first time and again."""
    counts: Counter[str] = Counter()
    store = C10dStore(Counting(connected(port), counts), f"eroica/{keys}/", None)
    names = [f"rank/{key}" for key in range(keys)]
    for name in names:
        store.set(name, value)
    found = []
    for _ in range(2):
        counts.clear()
        cpu = cpu_seconds(server)
        store.get_all(names)
        found.append(Measured(sum(counts.values()), cpu_seconds(server) - cpu))
    return found


def measure(ranks: int, rounds: int) -> dict[str, list[Measured]]:
    """Return what each repeat has found, by who asks; both in turn."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline())
        found: dict[str, list[Measured]] = {who: [] for who in ASKS}
        for _ in range(REPEATS):
            for who in ASKS:
                found[who].append(asked(server.pid, Node(port, ranks, who == "spokesman"), rounds))
        said = standing(NODES * ranks, 10**6).to_bytes()
        for who, keys, value in zip(DECIDES, (NODES * ranks, NODES), (said, ranks * said), strict=True):
            found[who] = deciding(server.pid, port, keys, value)
        return found
    finally:
        server.stdin.close()
        server.wait(timeout=30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.ranks, arguments.rounds)
    for who in DECIDES:
        first, again = found[who]
        print(f"{who}: {first.requests:.0f} requests once, then {again.requests:.0f} a second; ", end="")
        print(f"{first.server_cpu_seconds * 1e3:.0f} ms of the server, then {again.server_cpu_seconds * 1e3:.0f}")
    for who in ASKS:
        several = found[who]
        cpu = sorted(of.server_cpu_seconds for of in several)
        each = f"{several[0].requests:.1f} requests a second and node, {cpu[len(cpu) // 2] * 1e6:.0f} us of the server"
        core = f"{NODES} nodes of {arguments.ranks}: {cpu[len(cpu) // 2] * NODES:.1%} of a core"
        print(f"{who:10} {each} ({cpu[0] * 1e6:.0f} to {cpu[-1] * 1e6:.0f}); {core}")
    if arguments.json:
        arguments.json.write_text(json.dumps({who: [of._asdict() for of in several] for who, several in found.items()}))


if __name__ == "__main__":
    main()
