"""Source `nvml`: clocks, utilisation, memory, power, temperature, throttling, PCIe, NVLink and errors of NVIDIA GPUs.

Takes pynvml or an object with its calls (gpus.GpuSource) and the table nvmlcalls.CALLS; devices are UUIDs. A GPU cut
into instances (MIG) has no utilisation of its own: that is missing, the rest is of the whole GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from eroica_hardware.gpus import WITHOUT_DRIVER, WITHOUT_GPU, GpuSource, Handle, Nvml, Part, code_of, failures
from eroica_hardware.nvmlcalls import CALLS, Call
from eroica_otel.hardware.source import Resource


class _Asked:
    """One call of one GPU."""

    def __init__(self, nvml: Nvml, gpu: str, handle: Handle, call: Call) -> None:
        self.gpu, self.kind, self.interval_s = gpu, call.names[0], call.interval_s
        self._nvml, self._handle, self._call = nvml, handle, call
        self._ask = call.bound(nvml, handle)
        peaks = self._peaks()
        self.resources = tuple(
            Resource(name, gpu, call.unit, peak, call.counter) for name, peak in zip(call.names, peaks, strict=True)
        )

    def read(self) -> list[float]:
        return [float(value) for value in self._ask()]

    def close(self) -> None:
        """Nothing is lent."""

    def _peaks(self) -> list[float]:
        try:
            return [float(peak) for peak in self._call.peaks(self._nvml, self._handle)]
        except failures(self._nvml) as error:
            if code_of(error) in WITHOUT_DRIVER | WITHOUT_GPU:
                raise
            return [math.nan] * len(self._call.names)


class NvmlSource(GpuSource):
    """What NVML tells without privilege and without the lock of the profilers."""

    family = "nvml"

    def parts(self, nvml: Nvml, gpu: str, handle: Handle) -> Iterator[Part]:
        for row in CALLS:
            part = self._first(nvml, gpu, handle, row)
            if part is not None:
                yield part

    def _first(self, nvml: Nvml, gpu: str, handle: Handle, row: Sequence[Call]) -> Part | None:
        """Return the first call that the GPU answers; None with the reason in ``missing``."""
        reason = ""
        for call in row:
            try:
                part = _Asked(nvml, gpu, handle, call)
                part.read()
            except failures(nvml) as error:
                if code_of(error) in WITHOUT_DRIVER | WITHOUT_GPU:
                    raise
                reason = reason or str(error).lower()
                continue
            return part
        self.missing |= dict.fromkeys((f"{gpu} {name}" for name in row[0].names), reason)
        return None
