"""Source `gpm`: activity of SMs, tensor cores, memory, PCIe and NVLink of GPUs from Hopper on, from NVML's GPM samples.

GPM needs no lock of a profiler and no privilege. A metric is the mean between two samples, which must lie more than
100 ms apart, the rate at which the GPU renews them (NVML API reference, GPM functions and enums: shares in per cent,
traffic in MiB/s).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from eroica_hardware.gpus import GpuSource, Handle, Nvml, Part, failures
from eroica_hardware.nvmlcalls import nvlink_peak, pcie_peak
from eroica_otel.hardware.source import Resource

INTERVAL_S = 0.105
MIB = 1 << 20
# resource -> (nvmlGpmMetricId_t, unit)
SHARES = {"gr_engine": 1, "sm": 2, "sm_occupancy": 3, "tensor": 5, "dram": 10}
PCIE = {"gpm_pcie_tx": 20, "gpm_pcie_rx": 21}
NVLINK = {"gpm_nvlink_rx": 60, "gpm_nvlink_tx": 61}


class _Gpm:
    """The two samples of one GPU, of which the older is filled anew at each reading."""

    def __init__(self, nvml: Nvml, gpu: str, handle: Handle) -> None:
        self.gpu = gpu
        self._nvml, self._handle = nvml, handle
        self.kind, self.interval_s = "gpm", INTERVAL_S
        metrics = (*SHARES.values(), *PCIE.values(), *NVLINK.values())
        self._wanted = nvml.c_nvmlGpmMetricsGet_t()  # 19 KB, made once
        self._wanted.version, self._wanted.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(metrics)
        self._answers = [self._wanted.metrics[place] for place in range(len(metrics))]
        for answer, metric in zip(self._answers, metrics, strict=True):
            answer.metricId = metric
        peaks = (_known(nvml, pcie_peak, handle) / MIB, _known(nvml, nvlink_peak, handle) / MIB)
        self.resources = (
            *(Resource(name, gpu, "%", 100.0, counter=False) for name in SHARES),
            *(Resource(name, gpu, "MiBy/s", peaks[0], counter=False) for name in PCIE),
            *(Resource(name, gpu, "MiBy/s", peaks[1], counter=False) for name in NVLINK),
        )
        self._filled = False
        self._old = nvml.nvmlGpmSampleAlloc()
        self._new = nvml.nvmlGpmSampleAlloc()

    def read(self) -> Sequence[float]:
        filled, self._filled = self._filled, False
        self._nvml.nvmlGpmSampleGet(self._handle, self._new)
        values = self._between() if filled else [math.nan] * len(self.resources)
        # Only now: a sample that failed leaves no pair whose first is older than it seems.
        self._old, self._new, self._filled = self._new, self._old, True
        return values

    def close(self) -> None:
        self._nvml.nvmlGpmSampleFree(self._old)
        self._nvml.nvmlGpmSampleFree(self._new)

    def _between(self) -> list[float]:
        """Return the metrics between the two samples, NaN for one that this GPU does not have."""
        self._wanted.sample1, self._wanted.sample2 = self._old, self._new
        self._nvml.nvmlGpmMetricsGet(self._wanted)
        return [math.nan if answer.nvmlReturn else float(answer.value) for answer in self._answers]


def _known(nvml: Nvml, peak: Callable[[Nvml, Handle], float], handle: Handle) -> float:
    try:
        return peak(nvml, handle)
    except failures(nvml):
        return math.nan


class GpmSource(GpuSource):
    """GPUs that support GPM; of a GPU cut into instances (MIG) each instance would have samples of its own."""

    family = "gpm"

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
