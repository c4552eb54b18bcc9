"""From readings to the samples of /metrics: which resource of which source is which series, as a table.

Takes the readings of all sources (readings.py), gives (metric, labels, value). What no row of the table names is shown
by its unit: counts, bytes and numbers under names of ours. Of two sources that tell the same of one device the first is
shown. Interfaces without a device behind them (bridges, containers) are shown only where there is no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from eroica_hardware import names
from eroica_hardware.readings import Reading
from eroica_otel.names import Metric

Sample = tuple[Metric, Mapping[str, str], float]
Shown = Callable[[str], bool]
GPUS = ("nvml", "nvml_state", "rocm", "dcgm")
LOOPBACK = "lo"


@dataclass(frozen=True, slots=True)
class Row:
    """One series of a resource.

    Attributes:
        metric: The series.
        take: Its value of a reading, NaN for none.
        labels: Beside those of its device.
    """

    metric: Metric
    take: Callable[[Reading], float]
    labels: Mapping[str, str] = field(default_factory=dict)


def _value(reading: Reading) -> float:
    return reading.value


def _ratio(reading: Reading) -> float:
    return reading.ratio


def _peak(reading: Reading) -> float:
    return reading.resource.peak


def _counted(reading: Reading) -> float:
    """Return the value where it only grows: a rate of bytes is no sum of them."""
    return reading.value if reading.resource.counter else math.nan


def _direction(transmit: bool) -> dict[str, str]:
    return {"network_io_direction": "transmit" if transmit else "receive"}


def _error(kind: str, direction: str = "") -> Row:
    return Row(names.ERRORS, _counted, {"error_type": kind, "network_io_direction": direction})


GPU_ROWS: Mapping[str, tuple[Row, ...]] = MappingProxyType(
    {
        "gpu_util": (Row(names.GPU_UTILIZATION, _ratio, {"hw_gpu_task": "general"}),),
        "gpu_memory": (
            Row(names.GPU_MEMORY_USAGE, _value),
            Row(names.GPU_MEMORY_LIMIT, _peak),
            Row(names.GPU_MEMORY_UTILIZATION, _ratio),
        ),
        "pcie_tx": (Row(names.GPU_IO, _counted, _direction(True)),),
        "pcie_rx": (Row(names.GPU_IO, _counted, _direction(False)),),
        "power": (Row(names.POWER, _value), Row(names.POWER_LIMIT, _peak)),
        "energy": (Row(names.ENERGY, _counted),),
        "temperature": (Row(names.TEMPERATURE, _value, {"hw_sensor_location": "gpu", "hw_type": "temperature"}),),
        "mem_temperature": (
            Row(names.TEMPERATURE, _value, {"hw_sensor_location": "memory", "hw_type": "temperature"}),
        ),
        "ecc_corrected": (_error("corrected"),),
        "ecc_uncorrected": (_error("uncorrected"),),
        "pcie_replays": (_error("pcie_replay"),),
    }
)
NET_ROWS: Mapping[str, tuple[Row, ...]] = MappingProxyType(
    {
        "nic_tx": (Row(names.NETWORK_IO, _counted, _direction(True)), Row(names.NETWORK_LIMIT, _peak)),
        "nic_rx": (Row(names.NETWORK_IO, _counted, _direction(False)),),
        "nic_tx_packets": (Row(names.NETWORK_PACKETS, _counted, _direction(True)),),
        "nic_rx_packets": (Row(names.NETWORK_PACKETS, _counted, _direction(False)),),
        "nic_tx_errors": (_error("error", "transmit"),),
        "nic_rx_errors": (_error("error", "receive"),),
        "nic_tx_dropped": (_error("dropped", "transmit"),),
        "nic_rx_dropped": (_error("dropped", "receive"),),
    }
)
RDMA = ("rdma", "rdma_state")
RDMA_ROWS: Mapping[str, tuple[Row, ...]] = MappingProxyType(
    {
        "rdma_tx": (Row(names.NETWORK_IO, _counted, _direction(True)),),
        "rdma_rx": (Row(names.NETWORK_IO, _counted, _direction(False)),),
        "rdma_tx_packets": (Row(names.NETWORK_PACKETS, _counted, _direction(True)),),
        "rdma_rx_packets": (Row(names.NETWORK_PACKETS, _counted, _direction(False)),),
        "rdma_active": (Row(names.NETWORK_UP, _value),),
        "rdma_rate": (Row(names.NETWORK_LIMIT, _value),),
    }
)
TABLES: Mapping[str, tuple[str, Mapping[str, tuple[Row, ...]]]] = MappingProxyType(
    dict.fromkeys(GPUS, ("gpu", GPU_ROWS))
    | {"net": ("network", NET_ROWS), "netns": ("network", NET_ROWS)}
    | dict.fromkeys(RDMA, ("network", RDMA_ROWS))
)
# What a port counts without anything being wrong: waiting for credits, notices of congestion.
NO_ERRORS = frozenset(
    {
        "rdma_port_xmit_wait",
        "rdma_np_cnp_sent",
        "rdma_np_ecn_marked_roce_packets",
        "rdma_rp_cnp_handled",
        "rdma_roce_slow_restart",
        "rdma_retrans_bytes",
    }
)


def samples(readings: Mapping[str, Sequence[Reading]], has_device: Shown) -> Iterator[Sample]:
    """Yield the samples of all sources, each (series, labels) once; ``has_device`` tells of the name of an interface.

    Labels are those of names.py but host; a label without a value is left out.
    """
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for source, found in readings.items():
        for reading in _shown(source, found, has_device):
            for metric, labels, value in _of(source, reading):
                key = (metric.name, tuple(sorted(labels.items())))
                if not math.isnan(value) and key not in seen:
                    seen.add(key)
                    yield metric, labels, value


def _shown(source: str, readings: Sequence[Reading], has_device: Shown) -> Sequence[Reading]:
    if source != "net":
        return readings
    physical = [reading for reading in readings if has_device(reading.resource.device)]
    return physical or [reading for reading in readings if reading.resource.device != LOOPBACK]


def _of(source: str, reading: Reading) -> Iterator[Sample]:
    resource = reading.resource
    whose = {"source": source, "device": resource.device, "resource": resource.name}
    own = {name: text for name, text in whose.items() if text}
    yield names.RESOURCE_RATIO, own, reading.ratio
    kind, table = TABLES.get(source, ("", {}))
    rows = table.get(resource.name, ())
    for row in rows:
        labels = {"hw_id": resource.device, "hw_type": kind, **row.labels}
        yield row.metric, {name: text for name, text in labels.items() if text}, row.take(reading)
    if not rows:
        yield from _rest(source, reading, own)


def _rest(source: str, reading: Reading, own: Mapping[str, str]) -> Iterator[Sample]:
    """Yield what has no row: by its unit, where its share of a peak does not tell all."""
    resource = reading.resource
    if source in RDMA and resource.counter and resource.name not in NO_ERRORS:
        labels = {"hw_id": resource.device, "hw_type": "network", "error_type": resource.name.removeprefix("rdma_")}
        yield names.ERRORS, labels, reading.value
    elif resource.unit == "By" and resource.counter:
        yield names.BYTES, own, reading.value
    elif resource.unit == "1" and not resource.peak > 0:
        yield names.EVENTS if resource.counter else names.STATE, own, reading.value
