"""Every series of the node agent: its name, type, labels and help text.

`hw_*` are those of OpenTelemetry's semantic conventions for hardware (1.44, status Development: docs/hardware/gpu.md,
network.md, temperature.md, common.md), in the names that every translator to Prometheus gives them; `eroica_hardware_*`
are ours. `hw_id` is the UUID of a GPU, the name of a network interface, or "mlx5_0/1" for a port; `eroica_worker_info`
has the first as gpu_uuid. A temperature has the hw_id of the GPU it was measured in. Ratios are means over the latest
10 s; what was not read for a minute is absent.
"""

from __future__ import annotations

from eroica_otel.names import COUNTER, GAUGE, Metric

AGENT = "agent"
HARDWARE = ("host", "hw_id", "hw_type")
RESOURCE = ("host", "source", "device", "resource")
SOURCE = ("host", "source")


def _hw(name: str, instrument: str, unit: str, help_: str, *more: str, type_: str = GAUGE) -> Metric:
    return Metric(name, instrument, unit, type_, HARDWARE + more, help_, AGENT, cpu_job=False)


def _own(
    name: str, labels: tuple[str, ...], unit: str, help_: str, *, type_: str = GAUGE, always: bool = True
) -> Metric:
    instrument = name.removesuffix("_total").replace("_", ".", 1)
    return Metric(name, instrument, unit, type_, labels, help_, AGENT, cpu_job=always)


GPU_UTILIZATION = _hw(
    "hw_gpu_utilization_ratio",
    "hw.gpu.utilization",
    "1",
    "Share of the time in which the GPU ran any kernel, 0 to 1; task general.",
    "hw_gpu_task",
)
GPU_MEMORY_UTILIZATION = _hw(
    "hw_gpu_memory_utilization_ratio", "hw.gpu.memory.utilization", "1", "Share of the GPU's memory in use, 0 to 1."
)
GPU_MEMORY_USAGE = _hw("hw_gpu_memory_usage_bytes", "hw.gpu.memory.usage", "By", "Memory of the GPU in use.")
GPU_MEMORY_LIMIT = _hw("hw_gpu_memory_limit_bytes", "hw.gpu.memory.limit", "By", "Size of the GPU's memory.")
GPU_IO = _hw(
    "hw_gpu_io_bytes_total",
    "hw.gpu.io",
    "By",
    "Bytes that the GPU sent (transmit) and received over PCIe; absent where the GPU only tells rates.",
    "network_io_direction",
    type_=COUNTER,
)
POWER = _hw("hw_power_watts", "hw.power", "W", "Power that the GPU draws.")
ENERGY = _hw("hw_energy_joules_total", "hw.energy", "J", "Energy that the GPU has used.", type_=COUNTER)
TEMPERATURE = _hw(
    "hw_temperature_celsius", "hw.temperature", "Cel", "Temperature in the GPU: gpu or memory.", "hw_sensor_location"
)
ERRORS = _hw(
    "hw_errors_total",
    "hw.errors",
    "{error}",
    "Errors of a GPU (corrected, uncorrected, pcie_replay), of an interface (error, dropped) or of a port.",
    "error_type",
    "network_io_direction",
    type_=COUNTER,
)
STATUS = _hw(
    "hw_status",
    "hw.status",
    "1",
    "1 for the state an NVIDIA GPU is in: ok, failed (it was there and is lost), predicted_failure (rows to remap).",
    "hw_state",
)
NETWORK_IO = _hw(
    "hw_network_io_bytes_total",
    "hw.network.io",
    "By",
    "Bytes sent (transmit) and received.",
    "network_io_direction",
    type_=COUNTER,
)
NETWORK_PACKETS = _hw(
    "hw_network_packets_total",
    "hw.network.packets",
    "{packet}",
    "Packets sent (transmit) and received.",
    "network_io_direction",
    type_=COUNTER,
)
NETWORK_LIMIT = _hw(
    "hw_network_bandwidth_limit_bytes_per_second",
    "hw.network.bandwidth.limit",
    "By/s",
    "Speed of the link in one direction; absent where the driver does not tell it.",
)
NETWORK_UP = _hw("hw_network_up", "hw.network.up", "1", "1 where the port is active, else 0; ports of RDMA only.")

GPU_INFO = _own(
    "eroica_hardware_gpu_info",
    (*HARDWARE, "hw_model", "hw_vendor", "hw_driver_version", "pci_bus_id", "gpu"),
    "",
    "What an NVIDIA GPU is, always 1; gpu is its number on the node.",
    always=False,
)
POWER_LIMIT = _own(
    "eroica_hardware_power_limit_watts",
    HARDWARE,
    "W",
    "What a GPU may draw at most now, after all limits that are set.",
    always=False,
)
RESOURCE_RATIO = _own(
    "eroica_hardware_resource_ratio",
    RESOURCE,
    "1",
    "Use of a resource as a share of its peak, mean of the latest 10 s, 0 to 1.",
)
EVENTS = _own(
    "eroica_hardware_events_total",
    RESOURCE,
    "{event}",
    "What a device counted and has no series of its own above.",
    type_=COUNTER,
)
BYTES = _own(
    "eroica_hardware_io_bytes_total",
    RESOURCE,
    "By",
    "Bytes over NVLink and of disks, and of what has no series of its own above.",
    type_=COUNTER,
    always=False,
)
STATE = _own(
    "eroica_hardware_state",
    RESOURCE,
    "",
    "What a device tells of itself: pages retired, rows remapped or to be remapped, the latest XID.",
    always=False,
)
RESOURCES = _own("eroica_hardware_resources", SOURCE, "{resource}", "Resources that the source samples; 0 = none.")
MISSING = _own(
    "eroica_hardware_missing",
    (*SOURCE, "what", "reason"),
    "",
    "1 for what a source cannot read, with the reason; at most 64 of a source.",
)
SAMPLES = _own("eroica_hardware_samples_total", SOURCE, "{sample}", "Rows written for workers.", type_=COUNTER)
MISSED = _own("eroica_hardware_missed_total", SOURCE, "{tick}", "Samples that were due and not taken.", type_=COUNTER)
RATE = _own("eroica_hardware_rate_hertz", SOURCE, "Hz", "Samples per second in the latest whole second.")
JITTER = _own("eroica_hardware_jitter_seconds", SOURCE, "s", "Mean lateness of the samples of the latest whole second.")
JITTER_MOST = _own(
    "eroica_hardware_jitter_most_seconds", SOURCE, "s", "Largest lateness of a sample of the latest whole second."
)
FAILURES = _own(
    "eroica_hardware_failures_total",
    (*SOURCE, "stage"),
    "{failure}",
    "Failures: source (reading), ring (shared folder full, read-only or gone).",
    type_=COUNTER,
)
ANNOUNCEMENTS = _own(
    "eroica_hardware_announcements_total",
    ("host", "outcome"),
    "{announcement}",
    "Announced windows: accepted, refused (too often), stranger, rubbish, silent, failed.",
    type_=COUNTER,
)
WINDOW = _own("eroica_hardware_window", ("host",), "", "1 while a window is sampled at up to 1 kHz, else 0.")
CPU = _own("eroica_hardware_cpu_seconds_total", ("host",), "s", "CPU time of the agent.", type_=COUNTER)
MEMORY = _own("eroica_hardware_memory_bytes", ("host",), "By", "Memory that the agent has in use, its rings apart.")
BUILD_INFO = _own("eroica_hardware_build_info", ("host", "version"), "", "Version of the running agent, always 1.")

ALL: tuple[Metric, ...] = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
BY_NAME = {metric.name: metric for metric in ALL}
