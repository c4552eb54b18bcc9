"""The demo's training on nodes of their own: one rank in each network namespace, so that a link can be made slow.

Only the training's own traffic is on the links. The text server and the localizer stay on this machine's loopback; a
relay carries them to the loopback of each node.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from eroica_otel.demo.ending import die_with_parent
from eroica_otel.demo.nodes import MEGABITS, Node

MEETING_PORT = 29500
ROWS = 8192
"""Of the model's embedding: 2 MB of gradients an iteration, since a link that is hardly used says nothing."""
_RELAY = (sys.executable, "-u", "-m", "eroica_otel.demo.relay")


def carry(places: Sequence[Node], addresses: Sequence[str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """Make ``addresses`` of this machine's loopback reachable at the same addresses on each node.

    Returns this machine's relay, which the caller ends; the nodes' end with them.
    """
    sockets = [str(folder / f"relay-{number}") for number in range(len(addresses))]
    for node in places:
        inside = [part for pair in zip(addresses, sockets, strict=True) for part in pair]
        node.start([*_RELAY, *inside], {}, log)
    outside = [part for pair in zip(sockets, addresses, strict=True) for part in pair]
    with log.open("ab") as output:
        return subprocess.Popen(
            [*_RELAY, *outside],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def launch(
    places: Sequence[Node], script: Sequence[str], environment: Mapping[str, str], log: Path
) -> list[subprocess.Popen[bytes]]:
    """Start one rank of the training ``script`` on each node; return their launchers."""
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{places[0].address}:{MEETING_PORT}", "--rdzv-id", "demo"]
    launcher = ["-m", "torch.distributed.run", "--nnodes", str(len(places)), "--nproc-per-node", "1", *meeting]
    wired = {"EROICA_NIC": "eth0", "EROICA_NIC_MBIT": str(MEGABITS)}
    return [
        node.start(
            [sys.executable, *launcher, "--local-addr", node.address, *script, "--rows", str(ROWS)],
            {**environment, **wired},
            log,
        )
        for node in places
    ]
