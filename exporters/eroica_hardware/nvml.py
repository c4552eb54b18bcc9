"""Source `nvml`: clocks, utilisation, memory, power, temperature, throttling, PCIe, NVLink and errors of NVIDIA GPUs.

Takes pynvml or an object with its calls (gpus.GpuSource) and the table nvmlcalls.CALLS; devices are UUIDs. A GPU cut
into instances (MIG) has no utilisation of its own: that is missing, the rest is of the whole GPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from eroica_hardware import nvmlbulk
from eroica_hardware.gpus import (
    WITHOUT_DRIVER,
    WITHOUT_GPU,
    Bulk,
    GpuSource,
    Handle,
    Nvml,
    Part,
    code_of,
    failures,
)
from eroica_hardware.nvmlcalls import CALLS, LINK_S, Call
from eroica_hardware.nvmlfacts import facts
from eroica_hardware.nvmlfields import Fields, together
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.source import Resource


class _Asked:
    """One call of one GPU."""

    def __init__(self, nvml: Nvml, gpu: str, handle: Handle, call: Call) -> None:
        self.gpu, self.kind, self.interval_s = gpu, call.names[0], call.interval_s
        self._nvml, self.handle, self._call = nvml, handle, call
        self.fields, self.raw = (call.values if isinstance(call.values, Fields) else None), call.raw
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
            return [float(peak) for peak in self._call.peaks(self._nvml, self.handle)]
        except failures(self._nvml) as error:
            if code_of(error) in WITHOUT_DRIVER | WITHOUT_GPU:
                raise
            return [math.nan] * len(self._call.names)


class _Together:
    """Several calls for fields of one GPU that are made as one; a field that fails later than at the look is NaN."""

    def __init__(self, nvml: Nvml, handle: Handle, parts: Sequence[_Asked]) -> None:
        self.gpu, self.kind, self.interval_s = parts[0].gpu, "fields", parts[0].interval_s
        self.resources = tuple(resource for part in parts for resource in part.resources)
        self.handle, self.fields = handle, [part.fields for part in parts if part.fields is not None]
        self.read = together(nvml, handle, self.fields)

    def close(self) -> None:
        """Nothing is lent."""


def _fields(part: _Asked | _Together) -> list[Fields]:
    found = part.fields if isinstance(part, _Together) else [part.fields]
    return [each for each in found if each is not None]


class NvmlSource(GpuSource):
    """What NVML tells without privilege and without the lock of the profilers.

    ``quick`` chooses calls, as two sources hold up each other less than one and write shorter rows: True for those that
    may be made up to a thousand times a second (clock of the SMs, links), family "nvml"; False for the others, which a
    GPU renews ten times a second or seldom and which may take long, family "nvml_state"; None for all.
    """

    family = "nvml"

    def __init__(self, nvml: Nvml | None = None, clock: Clock = time.monotonic, quick: bool | None = None) -> None:
        super().__init__(nvml, clock)
        self.facts: dict[str, dict[str, str]] = {}
        """Labels of each GPU by its UUID, where all but the quick calls are made."""
        self._quick = quick
        if quick is False:
            self.family = "nvml_state"

    def look(self) -> None:
        self.facts = {}
        super().look()

    def parts(self, nvml: Nvml, gpu: str, handle: Handle) -> Iterator[Part]:
        if not self._quick:
            self.facts |= {gpu: facts(nvml, handle)}
        links = []
        for row in CALLS:
            part = self._first(nvml, gpu, handle, row)
            if part is None or not self._is_mine(part.interval_s):
                continue
            if part.interval_s == LINK_S and part.fields is not None:
                links.append(part)
            else:
                yield part
        if links:
            yield _Together(nvml, handle, links)

    def bulk(self, nvml: Nvml, parts: Sequence[Part]) -> Bulk | None:
        """Return what makes a call, or reads fields, of all GPUs at once."""
        raw = [part.raw for part in parts if isinstance(part, _Asked) and part.raw is not None]
        if len(raw) == len(parts) and all(each == raw[0] for each in raw):
            return nvmlbulk.numbers(nvml, [part.handle for part in parts if isinstance(part, _Asked)], raw[0])
        asked = [(part.handle, _fields(part)) for part in parts if isinstance(part, _Asked | _Together)]
        return nvmlbulk.fields(nvml, asked) if all(wanted for _, wanted in asked) else None

    def _is_mine(self, interval_s: float) -> bool:
        return self._quick is None or self._quick == (interval_s <= LINK_S)

    def _first(self, nvml: Nvml, gpu: str, handle: Handle, row: Sequence[Call]) -> _Asked | None:
        """Return the first call that the GPU answers; None with the reason in ``missing``."""
        reason = ""
        if not any(self._is_mine(call.interval_s) for call in row):
            return None
        for call in row if self._quick is not True else row[:1]:
            try:
                part = _Asked(nvml, gpu, handle, call)
                part.read()
            except failures(nvml) as error:
                if code_of(error) in WITHOUT_DRIVER | WITHOUT_GPU:
                    raise
                reason = reason or str(error).lower()
                continue
            return part
        if self._is_mine(row[-1].interval_s):
            self.missing |= dict.fromkeys((f"{gpu} {name}" for name in row[0].names), reason)
        return None
