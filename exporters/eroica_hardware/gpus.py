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
from typing import Any, Protocol

from eroica_otel.hardware.columns import BACK, key_of
from eroica_otel.hardware.pace import MOST_OF_THE_TIME, Clock
from eroica_otel.hardware.source import Resource

# The library has no types, and tests give an object that answers as recorded.
Nvml = Any
Handle = Any

UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, VERSION_MISMATCH = 1, 9, 12, 18
WITHOUT_DRIVER = frozenset({UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, VERSION_MISMATCH})
GPU_IS_LOST, RESET_REQUIRED, GPU_NOT_FOUND = 15, 16, 28
WITHOUT_GPU = frozenset({GPU_IS_LOST, RESET_REQUIRED, GPU_NOT_FOUND})

MOST_ROWS = 16
"""Readings for which there is memory."""


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
        kind: The call; those of all GPUs are made one after the other.
        interval_s: The least time between two.
    """

    gpu: str
    resources: tuple[Resource, ...]
    kind: str
    interval_s: float

    def read(self) -> Sequence[float]:
        """Return the raw values; raises what ``failures`` holds."""

    def close(self) -> None:
        """Give back what the library lent."""


class Asked:
    """A part and where its values belong in a reading."""

    def __init__(self, part: Part, place: int) -> None:
        self.part, self.place, self.end = part, place, place + len(part.resources)
        self.failing = False
        self.counters = [(place, resource) for place, resource in enumerate(part.resources, place) if resource.counter]


class Bulk(Protocol):
    """One kind of call of all GPUs at once, into memory for several readings."""

    def take(self, row: int) -> bool:
        """Make the calls of reading ``row``; return whether all were answered."""

    def row(self, which: int) -> Sequence[float]:
        """Return a reading that was taken, NaN for a value that has an error of its own."""


class Kind:
    """The calls of one kind to all GPUs.

    Attributes:
        bulk: Makes all of them at once; None where there is no such way.
        due: When they are made again.
        careful: Whether each is asked by itself.
        taken: Readings that ``bulk`` has taken and that are not numbers yet.
    """

    def __init__(self, interval: float, calls: Sequence[Asked], bulk: Bulk | None) -> None:
        self.interval, self.calls, self.bulk = interval, calls, bulk
        self.due = -math.inf
        self.places = [place for asked in calls for place in range(asked.place, asked.end)]
        self.counts = any(asked.counters for asked in calls)
        self.careful = bulk is None
        self.taken: list[int] = []


class GpuSource(ABC):
    """A source of hardware samples (source.BatchSource) of NVIDIA GPUs; a subclass says what is read of each."""

    family = ""
    most_rows = MOST_ROWS

    def __init__(self, nvml: Nvml | None = None, clock: Clock = time.monotonic) -> None:
        """``nvml`` is pynvml or an object with its calls; None imports pynvml at the first look."""
        self.resources: tuple[Resource, ...] = ()
        self.missing: dict[str, str] = {}
        self._clock = clock
        self._nvml = nvml
        self._ready = False
        self._asked: list[Asked] = []
        self._kinds: list[Kind] = []
        self._latest = -math.inf
        self._single: dict[int, list[float]] = {}
        self._last: list[float] = []
        self._lost: set[str] = set()

    @abstractmethod
    def parts(self, nvml: Nvml, gpu: str, handle: Handle) -> Iterable[Part]:
        """Return what one GPU can tell, and say in ``missing`` what it cannot; raises what ``failures`` holds."""

    def bulk(self, nvml: Nvml, parts: Sequence[Part]) -> Bulk | None:
        """Return what makes the calls of one kind to all GPUs, in their order; None where there is no such way."""
        return None

    def look(self) -> None:
        """Find the GPUs anew, where the driver went away also the driver; never raises."""
        self._forget()
        self.missing = {}
        nvml = self._start()
        if nvml is not None:
            for index in range(self._count(nvml)):
                for part in self._of_gpu(nvml, index):
                    self._asked.append(Asked(part, self._asked[-1].end if self._asked else 0))
        self.resources = tuple(resource for asked in self._asked for resource in asked.part.resources)
        self._last = [-math.inf] * len(self.resources)
        kinds: dict[tuple[str, float], list[Asked]] = {}
        for asked in self._asked:
            kinds.setdefault((asked.part.kind, asked.part.interval_s), []).append(asked)
        self._kinds = [
            Kind(interval, calls, self.bulk(nvml, [asked.part for asked in calls]))
            for (_, interval), calls in kinds.items()
        ]

    def read(self) -> list[float]:
        """Return the raw values of all resources, NaN for one that could not be read or is not due; never raises."""
        self.take(0)
        return self.rows(1)[0]

    def take(self, row: int) -> None:
        """Make the calls that are due, for reading ``row``.

        A hundred times a second this pays for every step of it; so there is none for what is not due.
        """
        clock = self._clock
        now = began = clock()
        if now < self._latest:  # a clock that went back would make all wait
            for kind in self._kinds:
                kind.due = now
        self._latest = now
        for kind in self._kinds:
            if kind.due > now:
                continue
            if kind.careful or not (self._ready and kind.bulk and kind.bulk.take(row)):
                self._each(kind, self._single.setdefault(row, [math.nan] * len(self.resources)))
            else:
                kind.taken.append(row)
            ended = clock()  # all GPUs share the time that a kind of call may take
            kind.due = now + max(kind.interval, (ended - began) / MOST_OF_THE_TIME)
            began = ended

    def rows(self, count: int) -> list[list[float]]:
        """Return the readings as numbers."""
        blank = [math.nan] * len(self.resources)
        found = [self._single.get(row) or blank.copy() for row in range(count)]
        self._single = {}
        for kind in self._kinds:
            if kind.taken and kind.bulk is not None:
                for row in kind.taken:
                    self._fill(kind, kind.bulk.row(row), found[row])
                kind.taken = []
        return found

    def _fill(self, kind: Kind, got: Sequence[float], values: list[float]) -> None:
        """Put in what was taken at once; where something is odd each GPU is asked by itself from now on."""
        last = self._last
        for place, value in zip(kind.places, got, strict=True):
            if value >= last[place]:
                values[place] = value
                if kind.counts:
                    last[place] = value
            else:
                self._odd(kind, place, value)

    def _odd(self, kind: Kind, place: int, value: float) -> None:
        """A value with an error, or a counter that went back: the driver began anew."""
        kind.careful = True
        if math.isnan(value):
            return
        self._last[place] = value
        for asked in kind.calls:
            if asked.place <= place < asked.end:
                asked.failing = True
        self.missing[key_of(self.resources[place])] = BACK

    def _each(self, kind: Kind, values: list[float]) -> None:
        """Ask each GPU by itself, from now on until there is no trouble left."""
        for asked in kind.calls:
            self._ask(asked, values)
        trouble = not self._ready or bool(self._lost) or any(asked.failing for asked in kind.calls)
        kind.careful = kind.bulk is None or trouble

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
            for asked in self._asked:
                try:
                    asked.part.close()
                except failures(self._nvml):
                    continue
        self._asked, self._kinds, self._single = [], [], {}
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

    def _ask(self, asked: Asked, values: list[float]) -> None:
        """Fill in what one call gives; without driver or GPU none is made until the next look."""
        if not self._ready or asked.part.gpu in self._lost:
            return
        try:
            values[asked.place : asked.end] = asked.part.read()
        except failures(self._nvml) as error:
            self._failed(asked, error)
            return
        if asked.failing:
            asked.failing = False
            for resource in asked.part.resources:
                self.missing.pop(key_of(resource), None)
        last = self._last
        for place, resource in asked.counters:
            value = values[place]
            if value < last[place]:  # the driver began anew
                values[place] = math.nan
                asked.failing = True
                self.missing[key_of(resource)] = BACK
            last[place] = value

    def _failed(self, asked: Asked, error: BaseException) -> None:
        code, reason = code_of(error), str(error).lower()
        if code in WITHOUT_DRIVER:
            self._without(error)
        elif code in WITHOUT_GPU:
            self._lost.add(asked.part.gpu)
            self.missing[asked.part.gpu] = reason
        else:
            asked.failing = True
            self.missing |= dict.fromkeys(map(key_of, asked.part.resources), reason)

    def _without(self, error: BaseException) -> None:
        """The driver is gone or was reset: the next look initialises the library again."""
        self.missing[self.family] = str(error).lower()
        if code_of(error) in WITHOUT_DRIVER:
            self._shut_down()
