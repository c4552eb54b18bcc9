"""The NVML calls that are made of each GPU, as a table: names, units, peaks, and how often each may be asked.

Facts: NVML API reference, device queries and field value enums; and the comments of nvml.h beside the fields
(PCIE_COUNT_*: bytes, may wrap; NVLINK_THROUGHPUT_DATA_*: KiB, the scope UINT_MAX sums over all links). Constants are
numbers here because older pynvml lacks the newer names; NVML never changes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from eroica_hardware.gpus import Handle, Nvml, failures
from eroica_hardware.nvmlbuffers import POWER_SAMPLES, Buffered
from eroica_hardware.nvmlfields import Clock, Fields, Raw, field, fields

Values = Callable[[Nvml, Handle], Sequence[float]]

# The clock of the SMs and the links tell how a step went; a GPU renews utilisation one to six times a second (NVML API
# reference, nvmlDeviceGetUtilizationRates), power and reasons to throttle tell of a window by their mean. The first
# three are less than the distance of readings (1, 5 and 200 ms), so that one that comes a little early is due.
FAST_S, LINK_S, STATE_S, SELDOM_S, SLOW_S = 0.0005, 0.0045, 0.195, 1.0, 10.0
BUFFER_S = 0.5
"""A buffer holds some seconds."""
CLOCK_SM, CLOCK_MEM = 1, 2
RETIRED_SBE, RETIRED_DBE = 0, 1
CORRECTED, UNCORRECTED, VOLATILE = 0, 1, 0
PCIE_TX, PCIE_RX = 0, 1
SENSOR_GPU = 0
FIELD_MEM_TEMPERATURE, FIELD_POWER_INSTANT = 82, 186
FIELD_NVLINK_TX, FIELD_NVLINK_RX = 138, 139
FIELD_NVLINK_SPEED, FIELD_NVLINK_COMMON_SPEED, FIELD_NVLINK_COUNT = 164, 90, 91
FIELD_PCIE_TX, FIELD_PCIE_RX = 197, 198
ALL_LINKS = 0xFFFFFFFF
KIB = 1024
# Bytes per second and lane in one direction, generations 1 to 6 (PCI Express base specification: 2.5 and 5 GT/s carry
# 8 bits in 10, 8 to 32 GT/s 128 in 130, 64 GT/s 242 bytes in 256).
PER_LANE = (2.5e9 * 0.8 / 8, 5e9 * 0.8 / 8, *(rate * 128 / 130 / 8 for rate in (8e9, 16e9, 32e9)), 64e9 * 242 / 256 / 8)
# Bits of nvmlClocksEventReasons, the last two of newer drivers (nvidia-ml-py 13.615, nvmlClocksThrottleReason*).
THROTTLES = {
    "idle": 0x1,
    "application_clocks": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "hw_power_brake": 0x80,
    "display_clocks": 0x100,
    "board_limit": 0x200,
    "reliability": 0x400,
}
REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
UTILISATION = Raw(("nvmlDeviceGetUtilizationRates",), "II")


@dataclass(frozen=True, slots=True)
class Call:
    """One call: names, their unit, values and peaks, the least time between two calls, whether the values count.

    ``raw`` says how it answers in C, of one that is made often.
    """

    names: tuple[str, ...]
    unit: str
    values: Values
    peaks: Values
    interval_s: float
    counter: bool = False
    raw: Raw | None = None

    def bound(self, nvml: Nvml, handle: Handle) -> Callable[[], Sequence[float]]:
        """Return what makes the call of one GPU, again and again; it raises what ``failures`` holds."""
        if isinstance(self.values, Fields | Clock | Buffered):
            return self.values.bound(nvml, handle)
        return partial(self.values, nvml, handle)


def unknown(nvml: Nvml, handle: Handle) -> list[float]:
    """Return the peaks of what has none."""
    return [math.nan]


def pcie_peak(nvml: Nvml, handle: Handle) -> float:
    """Return the bytes per second and direction of this GPU's link in this slot; raises what ``failures`` holds."""
    per_lane = dict(enumerate(PER_LANE, 1))[int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle))]
    return per_lane * int(nvml.nvmlDeviceGetMaxPcieLinkWidth(handle))


def nvlink_peak(nvml: Nvml, handle: Handle) -> float:
    """Return the bytes per second and direction of all NVLinks together (fields in MB/s and link)."""
    links = int(field(nvml, handle, FIELD_NVLINK_COUNT))
    try:
        return sum(fields(nvml, handle, *((FIELD_NVLINK_SPEED, link) for link in range(links)))) * 1e6
    except failures(nvml):
        return field(nvml, handle, FIELD_NVLINK_COMMON_SPEED) * links * 1e6


def _one(value: Callable[[Nvml, Handle], float]) -> Values:
    return lambda nvml, handle: [value(nvml, handle)]


def _same(value: Callable[[Nvml, Handle], float], count: int = 2) -> Values:
    return lambda nvml, handle: [value(nvml, handle)] * count


def _clock(name: str, kind: int, interval_s: float) -> Call:
    return Call(
        (name,),
        "MHz",
        Clock(kind),
        lambda nvml, handle: [nvml.nvmlDeviceGetMaxClockInfo(handle, kind)],
        interval_s,
        raw=Raw(("nvmlDeviceGetClockInfo",), "I", before=(kind,)),
    )


def _temperature(nvml: Nvml, handle: Handle) -> list[float]:
    return [nvml.nvmlDeviceGetTemperature(handle, SENSOR_GPU)]


def _utilisation(nvml: Nvml, handle: Handle) -> list[float]:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return [rates.gpu, rates.memory]


def _power(values: Values, raw: Raw | None = None) -> Call:
    limit = _one(lambda nvml, handle: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3)
    return Call(("power",), "W", values, limit, STATE_S, raw=raw)


def _watts(milliwatts: Sequence[float]) -> list[float]:
    return [value / 1e3 for value in milliwatts]


def _bits_of(reasons: Sequence[int]) -> list[float]:
    return [float(bool(each & bit)) for each in reasons for bit in THROTTLES.values()]


def _bits(nvml: Nvml, handle: Handle) -> list[float]:
    # The call was renamed; older drivers and libraries have the other name only.
    ask = getattr(nvml, REASONS[0], None)
    reasons = int((ask or getattr(nvml, REASONS[1]))(handle))
    return _bits_of([reasons])


def _ecc(nvml: Nvml, handle: Handle) -> list[float]:
    return [nvml.nvmlDeviceGetTotalEccErrors(handle, kind, VOLATILE) for kind in (CORRECTED, UNCORRECTED)]


def _retired(nvml: Nvml, handle: Handle) -> list[float]:
    return [len(nvml.nvmlDeviceGetRetiredPages(handle, cause)) for cause in (RETIRED_SBE, RETIRED_DBE)]


def _pcie_rates(nvml: Nvml, handle: Handle) -> list[float]:
    """Return bytes per second; each of the two calls watches the bus for 20 ms (NVML API reference)."""
    return [nvml.nvmlDeviceGetPcieThroughput(handle, way) * 1e3 for way in (PCIE_TX, PCIE_RX)]


# Of each row the first call that the GPU answers is made.
CALLS: tuple[tuple[Call, ...], ...] = (
    (_clock("sm_clock", CLOCK_SM, FAST_S),),
    (_clock("mem_clock", CLOCK_MEM, STATE_S),),
    (Call(("gpu_util", "mem_util"), "%", _utilisation, _same(lambda nvml, handle: 100.0), STATE_S, raw=UTILISATION),),
    (
        Call(
            ("gpu_memory",),
            "By",
            _one(lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).used),
            _one(lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).total),
            SELDOM_S,
        ),
    ),
    (
        _power(Fields(1e-3, 0, (FIELD_POWER_INSTANT,))),
        _power(
            _one(lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3),
            Raw(("nvmlDeviceGetPowerUsage",), "I", values=_watts),
        ),
    ),
    (
        Call(
            ("power_mean", "power_most"),
            "W",
            Buffered(POWER_SAMPLES, 1e-3),
            _same(lambda nvml, handle: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3),
            BUFFER_S,
        ),
    ),
    (
        Call(
            ("energy",),
            "J",
            _one(lambda nvml, handle: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3),
            unknown,
            SELDOM_S,
            counter=True,
        ),
    ),
    (
        Call(
            ("temperature",),
            "Cel",
            _temperature,
            unknown,
            SELDOM_S,
        ),
    ),
    (Call(("mem_temperature",), "Cel", Fields(1, 0, (FIELD_MEM_TEMPERATURE,)), unknown, SELDOM_S),),
    (
        Call(
            tuple(f"throttle_{name}" for name in THROTTLES),
            "1",
            _bits,
            _same(lambda nvml, handle: 1.0, len(THROTTLES)),
            STATE_S,
            raw=Raw(REASONS, "Q", values=_bits_of),
        ),
    ),
    (
        Call(
            ("pcie_tx", "pcie_rx"),
            "By",
            Fields(1, 0, (FIELD_PCIE_TX, FIELD_PCIE_RX)),
            _same(pcie_peak),
            LINK_S,
            counter=True,
        ),
        Call(("pcie_tx", "pcie_rx"), "By/s", _pcie_rates, _same(pcie_peak), SELDOM_S),
    ),
    (
        Call(
            ("nvlink_tx", "nvlink_rx"),
            "By",
            Fields(KIB, ALL_LINKS, (FIELD_NVLINK_TX, FIELD_NVLINK_RX)),
            _same(nvlink_peak),
            LINK_S,
            counter=True,
        ),
    ),
    (
        Call(
            ("pcie_replays",),
            "1",
            _one(lambda nvml, handle: nvml.nvmlDeviceGetPcieReplayCounter(handle)),
            unknown,
            SELDOM_S,
            counter=True,
        ),
    ),
    (Call(("ecc_corrected", "ecc_uncorrected"), "1", _ecc, _same(lambda n, h: math.nan), SLOW_S, counter=True),),
    (Call(("retired_pages_sbe", "retired_pages_dbe"), "1", _retired, _same(lambda n, h: math.nan), SLOW_S),),
    (
        Call(
            ("remapped_rows_corrected", "remapped_rows_uncorrected", "remap_pending", "remap_failed"),
            "1",
            lambda nvml, handle: nvml.nvmlDeviceGetRemappedRows(handle),
            _same(lambda n, h: math.nan, 4),
            SLOW_S,
        ),
    ),
)
