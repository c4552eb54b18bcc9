"""Source `gpm`: activity of SMs, tensor cores, memory, PCIe and NVLink of GPUs from Hopper on, from NVML's GPM samples.

GPM needs no lock of a profiler and no privilege. A metric is the mean between two samples, which must lie more than
100 ms apart, the rate at which the GPU renews them (NVML API reference, GPM functions and enums: shares in per cent,
traffic in MiB/s).
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Iterator, Sequence

from eroica_hardware.gpus import Bulk, GpuSource, Handle, Nvml, Part, failures
from eroica_hardware.nvmlcalls import nvlink_peak, pcie_peak
from eroica_hardware.nvmlfields import function
from eroica_otel.hardware.source import Resource

INTERVAL_S = 0.105
MIB = 1 << 20
# resource -> (nvmlGpmMetricId_t, unit)
SHARES = {"gr_engine": 1, "sm": 2, "sm_occupancy": 3, "tensor": 5, "dram": 10}
PCIE = {"gpm_pcie_tx": 20, "gpm_pcie_rx": 21}
NVLINK = {"gpm_nvlink_rx": 60, "gpm_nvlink_tx": 61}
METRICS = (*SHARES.values(), *PCIE.values(), *NVLINK.values())
# nvmlGpmMetricsGet_t: two numbers and two samples, then for each metric its number, an error, a value, three texts.
ANSWERS_AT, ANSWERS = 24, struct.Struct("<" + "4xId24x" * len(METRICS))


class _Gpm:
    """The two samples of one GPU, of which the older is filled anew at each reading.

    Attributes:
        filled: Whether the other sample is one reading old.
        turn: Which of the two is filled next.
    """

    def __init__(self, nvml: Nvml, gpu: str, handle: Handle) -> None:
        self.gpu = gpu
        self._nvml, self.handle = nvml, handle
        self.kind, self.interval_s = "gpm", INTERVAL_S
        peaks = (_known(nvml, pcie_peak, handle) / MIB, _known(nvml, nvlink_peak, handle) / MIB)
        self.resources = (
            *(Resource(name, gpu, "%", 100.0, counter=False) for name in SHARES),
            *(Resource(name, gpu, "MiBy/s", peaks[0], counter=False) for name in PCIE),
            *(Resource(name, gpu, "MiBy/s", peaks[1], counter=False) for name in NVLINK),
        )
        self.filled, self.turn = False, 0
        self.samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
        self.wanted = [self._prepared(self.samples[1], self.samples[0]), self._prepared(*self.samples)]

    def _prepared(self, old: Handle, new: Handle) -> Nvml:
        """Return the question for what was between two samples; it has 19 KB and is made once."""
        wanted = self._nvml.c_nvmlGpmMetricsGet_t()
        wanted.version, wanted.numMetrics = self._nvml.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
        wanted.sample1, wanted.sample2 = old, new
        for place, metric in enumerate(METRICS):
            wanted.metrics[place].metricId = metric
        return wanted

    def read(self) -> Sequence[float]:
        filled, self.filled = self.filled, False
        self._nvml.nvmlGpmSampleGet(self.handle, self.samples[self.turn])
        values = self._between(self.wanted[self.turn]) if filled else [math.nan] * len(self.resources)
        # Only now: a sample that failed leaves no pair whose first is older than it seems.
        self.filled, self.turn = True, 1 - self.turn
        return values

    def close(self) -> None:
        for sample in self.samples:
            self._nvml.nvmlGpmSampleFree(sample)

    def _between(self, wanted: Nvml) -> list[float]:
        """Return the metrics between the two samples, NaN for one that this GPU does not have."""
        self._nvml.nvmlGpmMetricsGet(wanted)
        answers = [wanted.metrics[place] for place in range(len(METRICS))]
        return [math.nan if answer.nvmlReturn else float(answer.value) for answer in answers]


class _All:
    """The readings of all GPUs by the library's own functions: pynvml's wrappers cost more than the calls."""

    def __init__(self, get: Callable[..., int], metrics: Callable[..., int], parts: Sequence[_Gpm]) -> None:
        self._get, self._metrics, self._parts = get, metrics, parts
        self._places = [[ctypes.byref(wanted) for wanted in part.wanted] for part in parts]

    def take(self, row: int) -> bool:
        """Fill a sample of each GPU; where one has no sample before, or does not answer, each is asked by itself."""
        if not all(part.filled for part in self._parts):
            return False
        get, metrics = self._get, self._metrics
        for part, places in zip(self._parts, self._places, strict=True):
            turn = part.turn
            if get(part.handle, part.samples[turn]) or metrics(places[turn]):
                for each in self._parts:
                    each.filled = False
                return False
            part.turn = 1 - turn
        return True

    def row(self, which: int) -> Sequence[float]:
        found = [value for part in self._parts for value in ANSWERS.unpack_from(part.wanted[1 - part.turn], ANSWERS_AT)]
        errors, values = found[::2], found[1::2]
        return [math.nan if error else value for error, value in zip(errors, values, strict=True)]


def _known(nvml: Nvml, peak: Callable[[Nvml, Handle], float], handle: Handle) -> float:
    try:
        return peak(nvml, handle)
    except failures(nvml):
        return math.nan


class GpmSource(GpuSource):
    """GPUs that support GPM; of a GPU cut into instances (MIG) each instance would have samples of its own."""

    family = "gpm"
    most_rows = 1

    def bulk(self, nvml: Nvml, parts: Sequence[Part]) -> Bulk | None:
        """Return what reads all GPUs; None where no library is behind the object."""
        get, metrics = (function(nvml, name) for name in ("nvmlGpmSampleGet", "nvmlGpmMetricsGet"))
        gpus = [part for part in parts if isinstance(part, _Gpm)]
        return None if get is None or metrics is None else _All(get, metrics, gpus)

    def parts(self, nvml: Nvml, gpu: str, handle: Handle) -> Iterator[Part]:
        if self._is_cut(nvml, handle):
            self.missing[gpu] = "the GPU is cut into instances (MIG): its activity is that of no single rank"
        elif not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            self.missing[gpu] = "this GPU has no GPM metrics, which come with Hopper"
        else:
            yield _Gpm(nvml, gpu, handle)

    def _is_cut(self, nvml: Nvml, handle: Handle) -> bool:
        try:
            return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
        except failures(nvml):
            return False
