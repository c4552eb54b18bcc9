"""What all sources over NVML share: the library, its GPUs, and what its errors mean for one reading, one GPU or all.

`pynvml` (nvidia-ml-py) is imported at the first look, or an object with its calls is given. Errors: NVML API reference,
nvmlReturn_t. A driver that is absent or was reset, a GPU that fell off the bus and a call that the GPU does not know
each become NaN and a reason; the rest goes on.
"""

from __future__ import annotations

import importlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any, Protocol

from eroica_otel.hardware.columns import BACK, key_of
from eroica_otel.hardware.pace import MOST_OF_THE_TIME, Clock, Pace
from eroica_otel.hardware.source import Resource

# The library has no types, and tests give an object that answers as recorded.
Nvml = Any
Handle = Any

UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, VERSION_MISMATCH = 1, 9, 12, 18
WITHOUT_DRIVER = frozenset({UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, VERSION_MISMATCH})
GPU_IS_LOST, RESET_REQUIRED, GPU_NOT_FOUND = 15, 16, 28
WITHOUT_GPU = frozenset({GPU_IS_LOST, RESET_REQUIRED, GPU_NOT_FOUND})


def failures(nvml: Nvml) -> tuple[type[BaseException], ...]:
    """Return what a call may raise: NVML's errors, and what a pynvml raises that does not have the call."""
    return (nvml.NVMLError, AttributeError, LookupError, TypeError, ValueError, OSError)


def code_of(error: BaseException) -> int:
    """Return NVML's number of the error, 0 for another error."""
    value = getattr(error, "value", 0)
    return value if isinstance(value, int) else 0


class Part(Protocol):
    """Resources of one GPU that are read by one call.

    Attributes:
        gpu: UUID of the GPU.
        resources: What ``read`` gives, in its order.
        pace: When ``read`` is due.
    """

    gpu: str
    resources: tuple[Resource, ...]
    pace: Pace

    def read(self) -> Sequence[float]:
        """Return the raw values; raises what ``failures`` holds."""

    def close(self) -> None:
        """Give back what the library lent."""


class GpuSource(ABC):
    """A source of hardware samples (source.Source) of NVIDIA GPUs; a subclass says what is read of each."""

    family = ""

    def __init__(self, nvml: Nvml | None = None, clock: Clock = time.monotonic) -> None:
        """``nvml`` is pynvml or an object with its calls; None imports pynvml at the first look."""
        self.resources: tuple[Resource, ...] = ()
        self.missing: dict[str, str] = {}
        self._clock, self._most = clock, MOST_OF_THE_TIME
        self._nvml = nvml
        self._ready = False
        self._parts: list[Part] = []
        self._due: list[tuple[float, int]] = []
        self._places: list[int] = [0]
        self._blank: list[float] = []
        self._counters: list[list[tuple[int, Resource]]] = []
        self._last: list[list[float]] = []
        self._seen = -math.inf
        self._failing: set[int] = set()
        self._lost: set[str] = set()

    @abstractmethod
    def parts(self, nvml: Nvml, gpu: str, handle: Handle) -> Iterable[Part]:
        """Return what one GPU can tell, and say in ``missing`` what it cannot; raises what ``failures`` holds."""

    def pace(self, interval_s: float) -> Pace:
        """Return the pace of one call of one GPU: all GPUs share the time that a call may take."""
        return Pace(interval_s, self._clock, self._most)

    def look(self) -> None:
        """Find the GPUs anew, where the driver went away also the driver; never raises."""
        self._forget()
        self.missing = {}
        nvml = self._start()
        if nvml is not None:
            count = self._count(nvml)
            self._most = MOST_OF_THE_TIME / max(1, count)
            for index in range(count):
                self._parts += self._of_gpu(nvml, index)
        self.resources = tuple(resource for part in self._parts for resource in part.resources)
        sizes = [len(part.resources) for part in self._parts]
        self._places = [0, *accumulate(sizes)]
        self._blank = [math.nan] * self._places[-1]
        self._due = [(-math.inf, index) for index in range(len(sizes))]
        self._counters = [
            [(place, resource) for place, resource in enumerate(part.resources) if resource.counter]
            for part in self._parts
        ]
        self._last = [[-math.inf] * size for size in sizes]

    def read(self) -> list[float]:
        """Return the raw values of all resources, NaN for one that could not be read or is not due; never raises."""
        values = self._blank.copy()
        now = self._clock()
        if now < self._seen:  # a clock that went back would make all wait
            self._due = [(-math.inf, index) for _, index in sorted(self._due)]
        self._seen = now
        due = []
        while self._due and self._due[0][0] <= now:
            due.append(heappop(self._due)[1])
        for index in due:
            part, place = self._parts[index], self._places[index]
            if not self._ready or part.gpu in self._lost:
                continue  # none of its calls is made until the next look
            got = self._ask(index, part, now)
            values[place : place + len(got)] = got
            heappush(self._due, (part.pace.due, index))
        return values

    def close(self) -> None:
        """Give back what the library lent, and the library; never raises."""
        self._forget()
        self.resources = ()
        self._shut_down()

    def _shut_down(self) -> None:
        if not self._ready or self._nvml is None:
            return
        self._ready = False
        try:
            self._nvml.nvmlShutdown()
        except failures(self._nvml):
            return

    def _forget(self) -> None:
        if self._nvml is not None:
            for part in self._parts:
                try:
                    part.close()
                except failures(self._nvml):
                    continue
        self._parts, self._due, self._blank = [], [], []
        self._failing.clear()
        self._lost.clear()

    def _start(self) -> Nvml | None:
        """Return the library, ready for calls; None with the reason in ``missing``."""
        if self._nvml is None:
            try:
                self._nvml = importlib.import_module("pynvml")
            except ImportError:
                self.missing[self.family] = "nvidia-ml-py is not installed"
                return None
        if not self._ready:
            try:
                self._nvml.nvmlInit()
            except failures(self._nvml) as error:
                self.missing[self.family] = str(error).lower()
                return None
        self._ready = True
        return self._nvml

    def _count(self, nvml: Nvml) -> int:
        try:
            found = int(nvml.nvmlDeviceGetCount())
        except failures(nvml) as error:
            self._without(error)
            return 0
        if not found:
            self.missing[self.family] = "the driver knows no GPU"
        return found

    def _of_gpu(self, nvml: Nvml, index: int) -> list[Part]:
        name = f"gpu {index}"
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = nvml.nvmlDeviceGetUUID(handle)
            name = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
            return list(self.parts(nvml, name, handle))
        except failures(nvml) as error:
            self.missing[name] = str(error).lower()
            if code_of(error) in WITHOUT_DRIVER:
                self._without(error)
            return []

    def _ask(self, index: int, part: Part, now: float) -> list[float]:
        """Return the values, [] where the call failed."""
        part.pace.start(now)
        try:
            got = list(part.read())
        except failures(self._nvml) as error:
            self._failed(index, part, error)
            return []
        finally:
            part.pace.end()
        if index in self._failing:
            self._failing.discard(index)
            for resource in part.resources:
                self.missing.pop(key_of(resource), None)
        for place, resource in self._counters[index]:
            got[place] = self._forward(index, place, resource, got[place])
        return got

    def _failed(self, index: int, part: Part, error: BaseException) -> None:
        code, reason = code_of(error), str(error).lower()
        if code in WITHOUT_DRIVER:
            self._without(error)
        elif code in WITHOUT_GPU:
            self._lost.add(part.gpu)
            self.missing[part.gpu] = reason
        else:
            self._failing.add(index)
            self.missing |= dict.fromkeys(map(key_of, part.resources), reason)

    def _without(self, error: BaseException) -> None:
        """The driver is gone or was reset: the next look initialises the library again."""
        self.missing[self.family] = str(error).lower()
        if code_of(error) in WITHOUT_DRIVER:
            self._shut_down()

    def _forward(self, index: int, place: int, resource: Resource, value: float) -> float:
        """Return the value of a counter; NaN where it went back, as the driver began anew."""
        last = self._last[index][place]
        if math.isnan(value):
            return value
        self._last[index][place] = value
        if value >= last:
            return value
        self._failing.add(index)
        self.missing[key_of(resource)] = BACK
        return math.nan
