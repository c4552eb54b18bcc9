"""Sources `rdma`, data of each port under /sys/class/infiniband, and `rdma_state`: packets, errors, retransmits, link.

Files and units: kernel documentation, Documentation/ABI/stable/sysfs-class-infiniband (port_xmit_data and port_rcv_data
count octets divided by 4; `state` is "4: ACTIVE", `rate` is "100 Gb/sec (4X EDR)"; hw_counters are refreshed every
`lifespan` milliseconds). An adapter without port_xmit_data counts octets in hw_counters/tx_bytes (kernel source,
drivers/infiniband/hw/efa/efa_verbs.c). What is asked may be answered by firmware, hence the rate caps, one for each
port, as one with slow firmware should not hold back the others; and hence two sources, so that the two counters whose
rate shows a slow link are not held up by the forty that move slowly.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from eroica_otel.hardware.columns import Column, FileSource, names, number, text_of
from eroica_otel.hardware.net import SYS
from eroica_otel.hardware.pace import MOST_OF_THE_TIME, Clock
from eroica_otel.hardware.source import Resource

# A slow link shows in the 90th percentile of the data rate at 200 Hz; everything else moves slowly. A little less than
# 5 ms, so that a reading that comes a little early is due.
DATA_S = 0.0045
SELDOM_S = 1.0
# Share of the time for which a port may be asked: firmware that takes 0.3 ms a counter still answers both at 200 Hz.
MOST_FOR_DATA = 0.2

# A node with virtual functions has hundreds of ports; a ring holds 2,048 columns.
MOST = 32

# resource -> files that may hold it, in order of preference, and the octets of one count
DATA = {
    "rdma_tx": (("counters_ext/port_xmit_data_64", 4), ("counters/port_xmit_data", 4), ("hw_counters/tx_bytes", 1)),
    "rdma_rx": (("counters_ext/port_rcv_data_64", 4), ("counters/port_rcv_data", 4), ("hw_counters/rx_bytes", 1)),
}
PACKETS = {
    "rdma_tx_packets": ("counters/port_xmit_packets", "hw_counters/tx_pkts"),
    "rdma_rx_packets": ("counters/port_rcv_packets", "hw_counters/rx_pkts"),
}
# Each is a resource of its own, rdma_<name>, where the port has it.
COUNTERS = frozenset({
    "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery", "local_link_integrity_errors",
    "port_rcv_errors", "port_rcv_remote_physical_errors", "port_xmit_discards", "port_xmit_wait", "symbol_error",
})  # fmt: skip
# No name in a ring is longer than 32 bytes.
SHORTER = {
    "excessive_buffer_overrun_errors": "buffer_overrun_errors",
    "port_rcv_remote_physical_errors": "remote_physical_errors",
    "req_transport_retries_exceeded": "transport_retries_exceeded",
}
HW_COUNTERS = frozenset({
    "duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err", "max_retry_exceeded", "missing_resp",
    "np_cnp_sent", "np_ecn_marked_roce_packets", "out_of_buffer", "out_of_sequence", "packet_seq_err",
    "req_transport_retries_exceeded", "resp_cqe_error", "req_cqe_error", "retrans_bytes", "retrans_pkts",
    "retrans_timeout_events", "rnr_nak_retry_err", "rnr_naks_rcvd", "roce_adp_retrans", "roce_adp_retrans_to",
    "roce_slow_restart", "rp_cnp_handled", "rx_icrc_encapsulated", "seq_err_naks_rcvd", "to_retransmits",
})  # fmt: skip


def rate_bytes(text: bytes) -> float:
    """Return the bytes per second and direction of "100 Gb/sec (4X EDR)"; raises ValueError for another form."""
    value, unit = text.split()[:2]
    if unit != b"Gb/sec":
        raise ValueError(text)
    return float(value) * 1e9 / 8


def is_active(text: bytes) -> float:
    """Return 1 for "4: ACTIVE", 0 for every other state; raises ValueError for another form."""
    return float(int(text.partition(b":")[0]) == 4)


def is_up(port: Path) -> bool:
    """Return whether the link of the port in this folder is active; no if it does not tell."""
    try:
        return bool(is_active(text_of(port / "state").encode()))
    except ValueError:
        return False


class RdmaSource(FileSource):
    """Bytes sent and received of the ports of all RDMA devices; a device is named "mlx5_0/1"."""

    family = "rdma"
    most = MOST_FOR_DATA

    def __init__(
        self, sys: Path = SYS, data_s: float = DATA_S, clock: Clock = time.monotonic, only: str = "", most: int = MOST
    ) -> None:
        """``data_s`` is the least time between two readings of the data.

        ``only`` is the one port ("mlx5_0/1") that is wanted; ``most`` is the number of ports that are read, those whose
        link is up and that are no virtual functions first.
        """
        super().__init__(clock)
        self._only, self._ports_most = only, most
        self._root = sys / "class" / "infiniband"
        self._data_s = data_s

    def columns(self) -> Iterator[Column]:
        ports = [(name, port) for name in names(self._root) for port in names(self._root / name / "ports")]
        if self._only:
            ports = [(name, port) for name, port in ports if f"{name}/{port}" == self._only]
        if not ports:
            self.missing[self.family] = "no port under /sys/class/infiniband"
        for name, port in self._few(ports):
            yield from self._port(self._root / name / "ports" / port, f"{name}/{port}")

    def _few(self, ports: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the ports that are read, and say which are not."""
        if len(ports) <= self._ports_most:
            return ports
        chosen = set(sorted(ports, key=self._rank)[: self._ports_most])
        for name, port in ports:
            if (name, port) not in chosen:
                self.missing[f"{name}/{port}"] = f"only {self._ports_most} ports are sampled"
        return [port for port in ports if port in chosen]

    def _rank(self, port: tuple[str, str]) -> tuple[bool, bool, tuple[str, str]]:
        """Order ports by use: a link that is down carries nothing, a virtual function passes a physical port."""
        device = self._root / port[0]
        return not is_up(device / "ports" / port[1]), (device / "device" / "physfn").exists(), port

    def _port(self, folder: Path, device: str) -> Iterator[Column]:
        peak = self._peak(folder, device)
        for resource, places in DATA.items():
            for place, factor in self._first(folder, resource, device, places):
                column = Resource(resource, device, "By", peak, counter=True)
                yield Column(column, folder / place, number, self._data_s, factor, device)

    def _peak(self, folder: Path, device: str) -> float:
        """Return the link's bytes per second; NaN where it is down, as the rate then told is not that of the link."""
        try:
            if is_active(text_of(folder / "state").encode()):
                return rate_bytes(text_of(folder / "rate").encode())
        except ValueError:
            self.missing[f"{device} rate"] = "the port does not tell its rate, so no share of it is known"
            return math.nan
        self.missing[f"{device} rate"] = "the link is not active"
        return math.nan

    def _first(
        self, folder: Path, resource: str, device: str, places: Sequence[tuple[str, int]]
    ) -> list[tuple[str, int]]:
        """Return the first place that is there, as a list, and say so where none is."""
        found = [place for place in places if (folder / place[0]).exists()]
        if not found:
            self.missing[f"{device} {resource}"] = "the port does not count it"
        return found[:1]


class RdmaStateSource(RdmaSource):
    """What else the ports tell: packets, errors, retransmits, state and rate of the link."""

    family = "rdma_state"
    most = MOST_OF_THE_TIME

    def _port(self, folder: Path, device: str) -> Iterator[Column]:
        for resource, files in PACKETS.items():
            for place, _ in self._first(folder, resource, device, [(file, 1) for file in files]):
                yield _seldom(resource, device, folder / place)
        for group, known in (("counters", COUNTERS), ("hw_counters", HW_COUNTERS)):
            for name in sorted(known & set(names(folder / group))):
                yield _seldom(f"rdma_{SHORTER.get(name, name)}", device, folder / group / name)
        active = Resource("rdma_active", device, "1", 1.0, counter=False)
        yield Column(active, folder / "state", is_active, SELDOM_S, 1.0, device)
        rate = Resource("rdma_rate", device, "By/s", math.nan, counter=False)
        yield Column(rate, folder / "rate", rate_bytes, SELDOM_S, 1.0, device)


def _seldom(name: str, device: str, path: Path) -> Column:
    return Column(Resource(name, device, "1", math.nan, counter=True), path, number, SELDOM_S, 1.0, device)
