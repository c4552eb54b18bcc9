"""An object with the NVML calls that answers what nvidia-smi printed on an H100, an H200 and an H200 with MIG."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FOLDER = Path(__file__).parent / "golden" / "nvidia_smi"
NOT_SUPPORTED, NOT_FOUND, GPU_IS_LOST, UNINITIALIZED = 3, 6, 15, 1
DOUBLE, UNSIGNED_LONG_LONG = 0, 3
CLOCKS = {1: "SM", 2: "Memory"}
REASONS = {
    "Idle": 0x1,
    "Applications Clocks Setting": 0x2,
    "SW Power Cap": 0x4,
    "HW Slowdown": 0x8,
    "Sync Boost": 0x10,
    "SW Thermal Slowdown": 0x20,
    "HW Thermal Slowdown": 0x40,
    "HW Power Brake Slowdown": 0x80,
    "Display Clock Setting": 0x100,
    "Board Limit": 0x200,
    "Reliability": 0x400,
}


WORDS = {
    1: "Uninitialized",
    3: "Not Supported",
    4: "Insufficient Permissions",
    9: "Driver Not Loaded",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    15: "GPU is lost",
    18: "RM has detected an NVML/RM version mismatch.",
}


class NVMLError(Exception):
    """As pynvml's: a number, and words for it."""

    def __init__(self, value: int) -> None:
        super().__init__(WORDS.get(value, "Unknown Error"))
        self.value = value


def parsed(text: str) -> dict[tuple[str, ...], str]:
    """Return path -> value of the indented lines of nvidia-smi -q; the first of equal paths."""
    found: dict[tuple[str, ...], str] = {}
    stack: list[tuple[int, str]] = []
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        stack = [(above, name) for above, name in stack if above < depth]
        name, colon, value = line.partition(" : ")
        if not colon:
            stack.append((depth, line.strip()))
        elif depth:
            # The deeper reasons of HW Slowdown stand below a line that has a value itself.
            found.setdefault((*(name for _, name in stack[1:]), name.strip()), value.strip())
    return found


class Gpu:
    """One recorded GPU; a test changes what it says by its path."""

    def __init__(self, capture: str, uuid: str) -> None:
        text = (FOLDER / f"{capture}.txt").read_text()
        self.said = parsed(text[text.index("GPU 0000") :])
        self.links = [float(speed) * 1000 for speed in re.findall(r"Link \d+: ([\d.]+) GB/s", text)]
        self.uuid = uuid
        self.fields: dict[int, int] = {}
        self.energy_mj = 0
        """Not in what nvidia-smi prints; 0 = the GPU does not tell it."""
        self.power_samples: list[tuple[int, int]] = []
        """(microseconds, milliwatts) in the driver's buffer; empty = it has none."""
        self.lost = False

    def number(self, *path: str) -> float:
        """Return the number in front of the unit; raises NVMLError as the library does for what it shows as N/A."""
        found = re.match(r"-?[\d.]+", self.said.get(path, "N/A"))
        if not found:
            raise NVMLError(NOT_SUPPORTED)
        return float(found[0])

    def field(self, number: int, scope: int) -> float:
        if number == 82:
            return self.number("Temperature", "Memory Current Temp")
        if number == 186:
            return self.number("GPU Power Readings", "Instantaneous Power Draw") * 1000
        if number == 91 and self.links:
            return len(self.links)
        if number == 164 and scope < len(self.links):
            return self.links[scope]
        if number in self.fields:
            return self.fields[number]
        raise NVMLError(NOT_SUPPORTED)


class Recorded:
    """The library. ``driver`` is the error of every call, ``broken`` that of one call, ``calls`` what was asked."""

    NVMLError = NVMLError
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = list(gpus)
        self.driver = 0
        self.broken: dict[str, int] = {}
        self.calls: Counter[str] = Counter()
        self.ready = False
        self.samples: set[int] = set()
        self.taken = 0
        self.gpm: dict[int, float] = {}

    def _asked(self, call: str, gpu: Gpu | None = None) -> None:
        self.calls[call] += 1
        code = self.driver or self.broken.get(call, 0) or (0 if self.ready else UNINITIALIZED)
        if gpu is not None and gpu.lost:
            code = code or GPU_IS_LOST
        if code:
            raise NVMLError(code)

    def nvmlInit(self) -> None:
        self.calls["nvmlInit"] += 1
        if self.driver:
            raise NVMLError(self.driver)
        self.ready = True

    def nvmlShutdown(self) -> None:
        self._asked("nvmlShutdown")
        self.ready = False

    def nvmlDeviceGetCount(self) -> int:
        self._asked("nvmlDeviceGetCount")
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        self._asked("nvmlDeviceGetHandleByIndex", self.gpus[index])
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: Gpu) -> str:
        self._asked("nvmlDeviceGetUUID", gpu)
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu: Gpu) -> str:
        self._asked("nvmlDeviceGetName", gpu)
        return gpu.said["Product Name",]

    def nvmlDeviceGetPciInfo(self, gpu: Gpu) -> SimpleNamespace:
        self._asked("nvmlDeviceGetPciInfo", gpu)
        return SimpleNamespace(busId=gpu.said["PCI", "Bus Id"])

    def nvmlDeviceGetIndex(self, gpu: Gpu) -> int:
        self._asked("nvmlDeviceGetIndex", gpu)
        return self.gpus.index(gpu)

    def nvmlSystemGetDriverVersion(self) -> str:
        self._asked("nvmlSystemGetDriverVersion")
        return "590.48.01"

    def nvmlDeviceGetClockInfo(self, gpu: Gpu, kind: int) -> int:
        self._asked("nvmlDeviceGetClockInfo", gpu)
        return int(gpu.number("Clocks", CLOCKS[kind]))

    def nvmlDeviceGetMaxClockInfo(self, gpu: Gpu, kind: int) -> int:
        self._asked("nvmlDeviceGetMaxClockInfo", gpu)
        return int(gpu.number("Max Clocks", CLOCKS[kind]))

    def nvmlDeviceGetUtilizationRates(self, gpu: Gpu) -> SimpleNamespace:
        self._asked("nvmlDeviceGetUtilizationRates", gpu)
        return SimpleNamespace(gpu=gpu.number("Utilization", "GPU"), memory=gpu.number("Utilization", "Memory"))

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu) -> SimpleNamespace:
        self._asked("nvmlDeviceGetMemoryInfo", gpu)
        used, total = (int(gpu.number("FB Memory Usage", name)) << 20 for name in ("Used", "Total"))
        return SimpleNamespace(used=used, total=total)

    def nvmlDeviceGetPowerUsage(self, gpu: Gpu) -> int:
        self._asked("nvmlDeviceGetPowerUsage", gpu)
        return round(gpu.number("GPU Power Readings", "Average Power Draw") * 1000)

    def nvmlDeviceGetSamples(self, gpu: Gpu, kind: int, since: int) -> tuple[int, list[SimpleNamespace]]:
        self._asked("nvmlDeviceGetSamples", gpu)
        assert kind == 0
        if not gpu.power_samples:
            raise NVMLError(NOT_SUPPORTED)
        fresh = [each for each in gpu.power_samples if each[0] > since]
        if not fresh:
            raise NVMLError(NOT_FOUND)
        return 1, [SimpleNamespace(timeStamp=when, sampleValue=SimpleNamespace(uiVal=value)) for when, value in fresh]

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: Gpu) -> int:
        self._asked("nvmlDeviceGetTotalEnergyConsumption", gpu)
        if not gpu.energy_mj:
            raise NVMLError(NOT_SUPPORTED)
        return gpu.energy_mj

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: Gpu) -> int:
        self._asked("nvmlDeviceGetEnforcedPowerLimit", gpu)
        return round(gpu.number("GPU Power Readings", "Current Power Limit") * 1000)

    def nvmlDeviceGetTemperature(self, gpu: Gpu, sensor: int) -> int:
        self._asked("nvmlDeviceGetTemperature", gpu)
        return int(gpu.number("Temperature", "GPU Current Temp"))

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: Gpu) -> int:
        self._asked("nvmlDeviceGetCurrentClocksEventReasons", gpu)
        active = {path[-1] for path, said in gpu.said.items() if path[0] == "Clocks Event Reasons" and said == "Active"}
        return sum(REASONS[name] for name in active)

    def nvmlDeviceGetTotalEccErrors(self, gpu: Gpu, kind: int, counter: int) -> int:
        self._asked("nvmlDeviceGetTotalEccErrors", gpu)
        return int(gpu.number("ECC Errors", "Volatile", ("DRAM Correctable", "DRAM Uncorrectable")[kind]))

    def nvmlDeviceGetRetiredPages(self, gpu: Gpu, cause: int) -> list[int]:
        self._asked("nvmlDeviceGetRetiredPages", gpu)
        return [0] * int(gpu.number("Retired Pages", ("Single Bit ECC", "Double Bit ECC")[cause]))

    def nvmlDeviceGetRemappedRows(self, gpu: Gpu) -> tuple[int, int, int, int]:
        self._asked("nvmlDeviceGetRemappedRows", gpu)
        rows = [int(gpu.number("Remapped Rows", f"{kind} Error")) for kind in ("Correctable", "Uncorrectable")]
        pending, failed = (gpu.said["Remapped Rows", name] for name in ("Pending", "Remapping Failure Occurred"))
        return rows[0], rows[1], int(pending == "Yes"), int(failed == "Yes")

    def nvmlDeviceGetPcieReplayCounter(self, gpu: Gpu) -> int:
        self._asked("nvmlDeviceGetPcieReplayCounter", gpu)
        return int(gpu.number("PCI", "Replays Since Reset"))

    def nvmlDeviceGetPcieThroughput(self, gpu: Gpu, way: int) -> int:
        self._asked("nvmlDeviceGetPcieThroughput", gpu)
        return int(gpu.number("PCI", ("Tx Throughput", "Rx Throughput")[way]))

    def nvmlDeviceGetMaxPcieLinkGeneration(self, gpu: Gpu) -> int:
        self._asked("nvmlDeviceGetMaxPcieLinkGeneration", gpu)
        return int(gpu.number("PCI", "GPU Link Info", "PCIe Generation", "Max"))

    def nvmlDeviceGetMaxPcieLinkWidth(self, gpu: Gpu) -> int:
        self._asked("nvmlDeviceGetMaxPcieLinkWidth", gpu)
        return int(gpu.number("PCI", "GPU Link Info", "Link Width", "Max"))

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:
        self._asked("nvmlDeviceGetMigMode", gpu)
        return [int(gpu.said["MIG Mode", state] == "Enabled") for state in ("Current", "Pending")]

    def nvmlDeviceGetFieldValues(self, gpu: Gpu, fields: list[tuple[int, int]]) -> list[SimpleNamespace]:
        self._asked("nvmlDeviceGetFieldValues", gpu)
        return [_field_value(gpu, *wanted) for wanted in fields]

    def nvmlGpmQueryDeviceSupport(self, gpu: Gpu) -> SimpleNamespace:
        self._asked("nvmlGpmQueryDeviceSupport", gpu)
        return SimpleNamespace(isSupportedDevice=int(gpu.said["Product Architecture",] == "Hopper"))

    def nvmlGpmSampleAlloc(self) -> SimpleNamespace:
        self._asked("nvmlGpmSampleAlloc")
        sample = SimpleNamespace(taken=None)
        self.samples.add(id(sample))
        return sample

    def nvmlGpmSampleFree(self, sample: SimpleNamespace) -> None:
        self._asked("nvmlGpmSampleFree")
        self.samples.remove(id(sample))

    def nvmlGpmSampleGet(self, gpu: Gpu, sample: SimpleNamespace) -> SimpleNamespace:
        self._asked("nvmlGpmSampleGet", gpu)
        self.taken += 1
        sample.taken = self.taken
        return sample

    def c_nvmlGpmMetricsGet_t(self) -> SimpleNamespace:
        metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(100)]
        return SimpleNamespace(version=0, numMetrics=0, sample1=None, sample2=None, metrics=metrics)

    def nvmlGpmMetricsGet(self, wanted: Any) -> None:
        self._asked("nvmlGpmMetricsGet")
        assert wanted.version == self.NVML_GPM_METRICS_GET_VERSION
        assert wanted.sample1.taken < wanted.sample2.taken
        for metric in wanted.metrics[: wanted.numMetrics]:
            metric.nvmlReturn = 0 if metric.metricId in self.gpm else NOT_SUPPORTED
            metric.value = self.gpm.get(metric.metricId, 0.0)


def _field_value(gpu: Gpu, number: int, scope: int) -> SimpleNamespace:
    try:
        value = gpu.field(number, scope)
    except NVMLError as error:
        return SimpleNamespace(nvmlReturn=error.value, valueType=DOUBLE, value=SimpleNamespace(dVal=0.0))
    return SimpleNamespace(nvmlReturn=0, valueType=UNSIGNED_LONG_LONG, value=SimpleNamespace(ullVal=round(value)))
