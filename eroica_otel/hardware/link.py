"""Which link carries this rank's collectives, and what was sent and received on it: takes sysfs, gives counters.

A communication library goes over RDMA ports (NCCL_IB_HCA, NCCL_IB_DISABLE, NCCL_NET: NCCL user guide, environment
variables) or over sockets on an interface (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, else the route). NCCL takes the
ports nearest to a GPU; of several equally near ones we take one by the local rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eroica_otel.hardware.affinity import nearest
from eroica_otel.hardware.columns import FileSource, names
from eroica_otel.hardware.interfaces import InterfaceSource
from eroica_otel.hardware.net import PROC, SYS, find_interface
from eroica_otel.hardware.rdma import RdmaSource, is_up

NOT_FOUND = "no network interface found: set EROICA_NIC"
OWN_DATA_S = 0.004
"""Least time between two readings of a port by the worker: a little less than a period of its 200 Hz."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link.

    Attributes:
        name: Of the interface or of the RDMA adapter, as node_exporter labels it (``device``); "" where none is known.
        device: Its name in the agent's rings: the interface, or "mlx5_0/1".
        rdma: Whether it is a port of an RDMA adapter.
    """

    name: str = ""
    device: str = ""
    rdma: bool = False


def interface_link(environment: Mapping[str, str], wanted: str = "", sys: Path = SYS, proc: Path = PROC) -> Link:
    """Return the interface of the collectives; asks the resolver for MASTER_ADDR, which may take its time."""
    name = find_interface(environment, wanted, sys, proc)
    return Link(name, name)


def rdma_link(
    environment: Mapping[str, str],
    wanted: str = "",
    backend: str = "",
    gpu: str = "",
    local_rank: int = 0,
    sys: Path = SYS,
) -> Link | None:
    """Return the RDMA port of the collectives, None where they do not go over one.

    Args:
        environment: Of the training, with the variables of the communication libraries.
        wanted: What the user said (EROICA_NIC): an RDMA adapter, a port of one ("mlx5_0/1"), or an interface.
        backend: Of the process groups ("nccl", "cpu:gloo,cuda:nccl"); "" where there are none yet.
        gpu: PCI address of the GPU, "" where it is not known.
        local_rank: Settles between ports that are equally near.
    """
    ports = active_ports(sys)
    chosen = [port for port in ports if wanted and wanted in (port, port.partition("/")[0])]
    if not wanted and over_rdma(environment, backend):
        listed = _listed(environment.get("NCCL_IB_HCA", ""), ports)
        near = nearest(gpu, list(dict.fromkeys(port.partition("/")[0] for port in listed)), sys)
        chosen = [port for port in listed if port.partition("/")[0] in near]
    if not chosen:
        return None
    port = chosen[local_rank % len(chosen)]
    return Link(port.partition("/")[0], port, rdma=True)


def over_rdma(environment: Mapping[str, str], backend: str) -> bool:
    """Return whether the backend goes over RDMA where there is any."""
    off = environment.get("NCCL_IB_DISABLE", "0").strip() not in ("", "0")
    return "nccl" in backend.lower() and not off and environment.get("NCCL_NET", "IB").lower() != "socket"


def active_ports(sys: Path = SYS) -> list[str]:
    """Return the RDMA ports whose link is up, as "mlx5_0/1"."""
    root = sys / "class" / "infiniband"
    found = [(name, port) for name in names(root) for port in names(root / name / "ports")]
    return [f"{name}/{port}" for name, port in found if is_up(root / name / "ports" / port)]


def _listed(text: str, ports: Sequence[str]) -> list[str]:
    """Return the ports that NCCL_IB_HCA leaves: "mlx5", "mlx5_0:1,mlx5_1", "=mlx5_0" exact, "^mlx5_3" all but it."""
    without, exact = text.startswith("^"), text.lstrip("^").startswith("=")
    items = [item.strip() for item in text.lstrip("^=").split(",") if item.strip()]
    if not items:
        return list(ports)
    return [port for port in ports if any(_matches(port, item, exact) for item in items) != without]


def _matches(port: str, item: str, exact: bool) -> bool:
    name, number = port.split("/")
    wanted, _, wanted_number = item.partition(":")
    return (name == wanted if exact else name.startswith(wanted)) and wanted_number in ("", number)


class OwnCounters:
    """What was sent and received on a link, read by the worker itself; a read takes some 10 us.

    Attributes:
        peak_bytes: Bytes per second and direction that the link can carry; None where it does not tell.
    """

    def __init__(self, link: Link, mbit: float = 0.0, sys: Path = SYS) -> None:
        """Open the counters; raises OSError where there are none. ``mbit`` is the speed where the link is silent."""
        source: FileSource = (
            RdmaSource(sys, data_s=OWN_DATA_S, only=link.device)
            if link.rdma
            else InterfaceSource(sys=sys, mbit=mbit, only=link.device)
        )
        source.look()
        self._source = source
        self._places = [
            next((place for place, one in enumerate(source.resources) if one.name.endswith(way)), -1)
            for way in ("_tx", "_rx")
        ]
        if -1 in self._places:
            source.close()
            raise OSError(f"{link.device} has no counters of bytes: set EROICA_NIC")
        peak = mbit * 1e6 / 8 if mbit > 0 else source.resources[self._places[0]].peak
        self.peak_bytes = peak if math.isfinite(peak) else None

    def read(self) -> tuple[int, int] | None:
        """Return (bytes sent, bytes received), cumulative; None where they cannot be read now, or are not due."""
        values = self._source.read()
        if not values:  # closed
            return None
        sent, received = (values[place] for place in self._places)
        return None if math.isnan(sent) or math.isnan(received) else (int(sent), int(received))

    def close(self) -> None:
        """Close the files; may be called twice."""
        self._source.close()
