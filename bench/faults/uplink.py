"""Two nodes behind one port: what workers get that were given the same NIC, as in NVIDIA/nccl#820."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from eroica_otel.demo.nodes import Node, bucket


@contextmanager
def shared(places: Sequence[Node], megabits: float) -> Iterator[None]:
    """Move nodes to a second bridge, of which a port with that many megabits a second leads to the first one.

    Among themselves they are as fast as ever.
    """
    first = places[0].link.rpartition("v")[0]
    second, up, down = f"{first}s", f"{first}u", f"{first}d"  # as the sweep of nodes knows them
    with ExitStack() as undo:
        _run("ip", "link", "add", second, "type", "bridge")
        undo.callback(_run, "ip", "link", "del", second)
        _run("ip", "link", "add", up, "type", "veth", "peer", "name", down)
        undo.callback(_run, "ip", "link", "del", up)
        for device, bridge in ((up, first), (down, second)):
            _run("tc", "qdisc", "replace", "dev", device, *bucket(megabits))
            _run("ip", "link", "set", device, "master", bridge, "up")
        _run("ip", "link", "set", second, "up")
        for place in places:
            undo.callback(_run, "ip", "link", "set", place.link, "master", first)
            _run("ip", "link", "set", place.link, "master", second)
        yield


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
