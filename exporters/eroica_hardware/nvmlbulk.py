"""One kind of call of all GPUs at once: a tight loop over the library's own function, all answers in one memory.

Takes the library and handles, gives what reads the values of all GPUs in their order, or None at the first sign of
trouble: then each GPU is asked by itself, which tells the trouble. At 100 readings a second most of a reading's cost is
that the core has forgotten the code since the last one, so little code counts more than few calls.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from operator import mul

from eroica_hardware.gpus import Handle, Nvml
from eroica_hardware.nvmlfields import AFTER, BEFORE, Fields, function

AtOnce = Callable[[], Sequence[float] | None]


def clocks(nvml: Nvml, handles: Sequence[Handle], kind: int) -> AtOnce | None:
    """Return what reads a clock of all GPUs (MHz); None where no library is behind the object."""
    call = function(nvml, "nvmlDeviceGetClockInfo")
    if call is None:
        return None
    room = (ctypes.c_uint * len(handles))()
    which = ctypes.c_uint(kind)
    calls = [(handle, ctypes.byref(room, place * ctypes.sizeof(ctypes.c_uint))) for place, handle in enumerate(handles)]

    def read() -> Sequence[float] | None:
        for handle, place in calls:
            if call(handle, which, place):
                return None
        return room[:]

    return read


def fields(nvml: Nvml, wanted: Sequence[tuple[Handle, Sequence[Fields]]]) -> AtOnce | None:
    """Return what reads fields of all GPUs; None where no library is behind the object."""
    call = function(nvml, "nvmlDeviceGetFieldValues")
    return None if call is None else _AllFields(nvml, call, wanted)


class _AllFields:
    def __init__(self, nvml: Nvml, call: Callable[..., int], wanted: Sequence[tuple[Handle, Sequence[Fields]]]) -> None:
        self._call = call
        each = [(number, one.scope, one.unit) for _, many in wanted for one in many for number in one.numbers]
        self._units = [float(unit) for _, _, unit in each]
        self._room = (nvml.c_nvmlFieldValue_t * len(each))()
        for answer, (number, scope, _) in zip(self._room, each, strict=True):
            answer.fieldId, answer.scopeId = number, scope
        self._calls = []
        begin = 0
        for handle, many in wanted:
            count = sum(len(one.numbers) for one in many)
            place = ctypes.byref(self._room, begin * ctypes.sizeof(nvml.c_nvmlFieldValue_t))
            self._calls.append((handle, ctypes.c_int32(count), place))
            begin += count
        self._layout = struct.Struct("")
        self._clean: tuple[int, ...] = (-1,)

    def __call__(self) -> Sequence[float] | None:
        call = self._call
        for handle, count, place in self._calls:
            if call(handle, count, place):
                return None
        if self._clean == (-1,):
            self._lay_out()
        found = self._layout.unpack(self._room)
        if found[::3] + found[1::3] != self._clean:  # an error, or another type, which the next reading knows
            self._clean = (-1,)
            return None
        return list(map(mul, found[2::3], self._units))

    def _lay_out(self) -> None:
        types = tuple(int(answer.valueType) for answer in self._room)
        self._layout = struct.Struct("<" + "".join(f"{BEFORE}II{AFTER[each]}" for each in types))
        self._clean = types + (0,) * len(types)
