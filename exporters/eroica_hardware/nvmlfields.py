"""NVML's field values: several numbers of a GPU by one call, into memory that is prepared once.

Facts: NVML API reference, field value queries (nvmlFieldValue_t: a field and a scope in, a type, a value and an error
of its own out). pynvml's wrapper makes that memory anew at each call, which costs several times what the call does; so
where a real library is behind it, the library's function is called with memory of ours.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eroica_hardware.gpus import Handle, Nvml

VALUE_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
Read = Callable[[], list[float]]


def fields(nvml: Nvml, handle: Handle, *wanted: tuple[int, int]) -> list[float]:
    """Return the values of (field, scope) pairs by one call; raises what ``failures`` holds, also for one of them."""
    return [_value(nvml, answer) for answer in nvml.nvmlDeviceGetFieldValues(handle, list(wanted))]


def field(nvml: Nvml, handle: Handle, number: int) -> float:
    """Return one field value; raises what ``failures`` holds."""
    return fields(nvml, handle, (number, 0))[0]


def _value(nvml: Nvml, answer: Nvml) -> float:
    if answer.nvmlReturn:
        raise nvml.NVMLError(answer.nvmlReturn)
    return float(getattr(answer.value, VALUE_TYPES[answer.valueType]))


def prepared(nvml: Nvml, handle: Handle, wanted: Sequence[tuple[int, int]]) -> Read:
    """Return what does as ``fields`` does, again and again, from one thread."""
    call = getattr(getattr(nvml, "nvmlLib", None), "nvmlDeviceGetFieldValues", None)
    if call is None:
        return lambda: fields(nvml, handle, *wanted)
    room = (nvml.c_nvmlFieldValue_t * len(wanted))()
    for answer, (number, scope) in zip(room, wanted, strict=True):
        answer.fieldId, answer.scopeId = number, scope
    answers, place, count = tuple(room), ctypes.byref(room), ctypes.c_int32(len(wanted))

    def read() -> list[float]:
        if code := call(handle, count, place):
            raise nvml.NVMLError(code)
        return [_value(nvml, answer) for answer in answers]

    return read


@dataclass(frozen=True, slots=True)
class Fields:
    """Values of some fields of one scope, in a unit of so many of ours."""

    unit: int
    scope: int
    numbers: tuple[int, ...]

    def __call__(self, nvml: Nvml, handle: Handle) -> list[float]:
        """Return the values; raises what ``failures`` holds."""
        return self.bound(nvml, handle)()

    def bound(self, nvml: Nvml, handle: Handle) -> Read:
        """Return what reads the values of one GPU, again and again."""
        read, unit = prepared(nvml, handle, [(number, self.scope) for number in self.numbers]), self.unit
        return read if unit == 1 else lambda: [value * unit for value in read()]
