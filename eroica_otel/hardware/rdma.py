"""Source `rdma`: data, packets, errors, retransmits and link of each port under /sys/class/infiniband.

Files and units: kernel documentation, Documentation/ABI/stable/sysfs-class-infiniband (port_xmit_data and port_rcv_data
count octets divided by 4; `state` is "4: ACTIVE", `rate` is "100 Gb/sec (4X EDR)"; hw_counters are refreshed every
`lifespan` milliseconds). An adapter without port_xmit_data counts octets in hw_counters/tx_bytes (kernel source,
drivers/infiniband/hw/efa/efa_verbs.c). What is asked may be answered by firmware, hence the rate caps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from eroica_otel.hardware.columns import Column, FileSource, names, number, text_of
from eroica_otel.hardware.net import SYS
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.source import Resource

# A slow link shows in the 90th percentile of the data rate at 200 Hz; everything else moves slowly. A little less than
# 5 ms, so that a reading that comes a little early is due.
DATA_S = 0.0045
SELDOM_S = 1.0

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


class RdmaSource(FileSource):
    """All ports of all RDMA devices; a device is named "mlx5_0/1"."""

    family = "rdma"

    def __init__(
        self,
        sys: Path = SYS,
        data_s: float = DATA_S,
        seldom_s: float = SELDOM_S,
        clock: Clock = time.monotonic,
        only: str = "",
    ) -> None:
        """``data_s`` and ``seldom_s`` are the least times between two readings of the data and of the rest.

        ``only`` is the one port ("mlx5_0/1") whose data are wanted, and nothing else.
        """
        super().__init__(clock)
        self._only = only
        self._root = sys / "class" / "infiniband"
        self._data_s, self._seldom_s = data_s, seldom_s

    def columns(self) -> Iterator[Column]:
        ports = [(name, port) for name in names(self._root) for port in names(self._root / name / "ports")]
        if self._only:
            ports = [(name, port) for name, port in ports if f"{name}/{port}" == self._only]
        if not ports:
            self.missing["rdma"] = "no port under /sys/class/infiniband"
        for name, port in ports:
            yield from self._port(self._root / name / "ports" / port, f"{name}/{port}")

    def _port(self, folder: Path, device: str) -> Iterator[Column]:
        peak = self._peak(folder, device)
        for resource, places in DATA.items():
            for place, factor in self._first(folder, resource, device, places):
                column = Resource(resource, device, "By", peak, counter=True)
                yield Column(column, folder / place, number, self._data_s, factor)
        if not self._only:
            yield from self._other(folder, device)

    def _other(self, folder: Path, device: str) -> Iterator[Column]:
        for resource, files in PACKETS.items():
            for place, _ in self._first(folder, resource, device, [(file, 1) for file in files]):
                yield self._seldom(resource, device, folder / place)
        for group, known in (("counters", COUNTERS), ("hw_counters", HW_COUNTERS)):
            for name in sorted(known & set(names(folder / group))):
                yield self._seldom(f"rdma_{SHORTER.get(name, name)}", device, folder / group / name)
        active = Resource("rdma_active", device, "1", 1.0, counter=False)
        yield Column(active, folder / "state", is_active, self._seldom_s)
        rate = Resource("rdma_rate", device, "By/s", math.nan, counter=False)
        yield Column(rate, folder / "rate", rate_bytes, self._seldom_s)

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

    def _seldom(self, name: str, device: str, path: Path) -> Column:
        return Column(Resource(name, device, "1", math.nan, counter=True), path, number, self._seldom_s)
