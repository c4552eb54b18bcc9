"""NVML's sample buffers: what the driver itself has sampled of a GPU since it was asked last, faster than we ask.

Facts: NVML API reference, nvmlDeviceGetSamples (a buffer of some seconds, times in microseconds, NOT_FOUND where
nothing is newer than the time that was given). For power it knows more than polling: a brake of a few milliseconds
between two readings shows in the largest sample. Of utilisation it has no more than the reading, of clocks less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from eroica_hardware.gpus import Handle, Nvml, code_of, failures
from eroica_hardware.nvmlfields import VALUE_TYPES

POWER_SAMPLES = 0
NOT_FOUND = 6


@dataclass(frozen=True, slots=True)
class Buffered:
    """Mean and largest of the samples of one kind since the last reading, in a unit of so many of ours."""

    kind: int
    unit: float

    def __call__(self, nvml: Nvml, handle: Handle) -> list[float]:
        """Return both over the whole buffer; raises what ``failures`` holds."""
        return self.bound(nvml, handle)()

    def bound(self, nvml: Nvml, handle: Handle) -> Callable[[], list[float]]:
        """Return what reads them of one GPU, again and again; NaN where there is no newer sample."""
        newest = 0

        def read() -> list[float]:
            nonlocal newest
            try:
                value_type, samples = nvml.nvmlDeviceGetSamples(handle, self.kind, newest)
            except failures(nvml) as error:
                if code_of(error) != NOT_FOUND:
                    raise
                return [math.nan, math.nan]
            fresh = [sample for sample in samples if sample.timeStamp > newest]
            if not fresh:
                return [math.nan, math.nan]
            newest = max(int(sample.timeStamp) for sample in fresh)
            values = [getattr(sample.sampleValue, VALUE_TYPES[value_type]) * self.unit for sample in fresh]
            return [sum(values) / len(values), max(values)]

        return read
