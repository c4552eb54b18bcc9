"""One kind of call of all GPUs at once: a tight loop over the library's own function, all answers in one memory.

Takes the library and handles, gives what asks (gpus.Bulk): readings are taken into memory of which numbers are made
later, many at a time. At 100 readings a second most of a reading's cost is that the core has forgotten the code since
the last one, so little code counts more than few calls. Where a call fails, the caller asks each GPU by itself.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from operator import mul

from eroica_hardware.gpus import MOST_ROWS, Handle, Nvml
from eroica_hardware.nvmlfields import AFTER, BEFORE, Fields, Raw, function

BYTES = struct.calcsize("<" + BEFORE + "II8x")
"""Of an nvmlFieldValue_t."""


class _Calls:
    """The calls of all GPUs into memory for several readings; ``calls`` are arguments, and bytes into a reading."""

    def __init__(self, call: Callable[..., int], size: int, calls: Sequence[tuple[Sequence[object], int]]) -> None:
        self.memory, self._call, self._size = bytearray(MOST_ROWS * size), call, size
        memory = (ctypes.c_char * len(self.memory)).from_buffer(self.memory)
        self._calls = [
            [(*arguments, ctypes.byref(memory, row * size + at)) for arguments, at in calls] for row in range(MOST_ROWS)
        ]

    def take(self, row: int) -> bool:
        call = self._call
        for arguments in self._calls[row]:  # noqa: SIM110 - a generator costs as much again
            if call(*arguments):
                return False
        return True


class Numbers(_Calls):
    """A call that answers with one number or a few of one type."""

    def __init__(self, call: Callable[..., int], handles: Sequence[Handle], raw: Raw) -> None:
        self._form = struct.Struct("<" + raw.form * len(handles))
        size, before = struct.calcsize("<" + raw.form), [ctypes.c_uint(each) for each in raw.before]
        calls = [((handle, *before), place * size) for place, handle in enumerate(handles)]
        super().__init__(call, self._form.size, calls)
        self._values = raw.values

    def row(self, which: int) -> Sequence[float]:
        """Return a reading, the values of one GPU after those of the other."""
        return self._values(self._form.unpack_from(self.memory, which * self._size))


class AllFields(_Calls):
    """Fields of all GPUs, of each those that it has."""

    def __init__(self, call: Callable[..., int], wanted: Sequence[tuple[Handle, Sequence[Fields]]]) -> None:
        each = [(number, one.scope, one.unit) for _, many in wanted for one in many for number in one.numbers]
        self._units = [float(unit) for _, _, unit in each]
        calls, begin = [], 0
        for handle, many in wanted:
            count = sum(len(one.numbers) for one in many)
            calls.append(((handle, ctypes.c_int32(count)), begin * BYTES))
            begin += count
        super().__init__(call, len(each) * BYTES, calls)
        for place, (number, scope, _) in enumerate(each * MOST_ROWS):
            struct.pack_into("<II", self.memory, place * BYTES, number, scope)
        self._types = (3,) * len(each)
        self._lay_out()

    def row(self, which: int) -> Sequence[float]:
        """Return a reading, NaN for a field that has an error or a type that is not known."""
        found = self._layout.unpack_from(self.memory, which * self._size)
        types, errors, values = found[::3], found[1::3], found[2::3]
        if types != self._types:  # the first reading, or another driver
            self._types = types
            self._lay_out()
            values = self._layout.unpack_from(self.memory, which * self._size)[2::3]
        if any(errors) or max(types) >= len(AFTER):
            known = [kind < len(AFTER) and not error for kind, error in zip(types, errors, strict=True)]
            values = tuple(value if good else math.nan for value, good in zip(values, known, strict=True))
        return list(map(mul, values, self._units))

    def _lay_out(self) -> None:
        forms = (AFTER[kind] if kind < len(AFTER) else "8s" for kind in self._types)
        self._layout = struct.Struct("<" + "".join(f"{BEFORE}II{form}" for form in forms))


def numbers(nvml: Nvml, handles: Sequence[Handle], raw: Raw) -> Numbers | None:
    """Return what makes a call of all GPUs; None where no library is behind the object."""
    calls = [call for name in raw.names if (call := function(nvml, name)) is not None]
    return Numbers(calls[0], handles, raw) if calls else None


def fields(nvml: Nvml, wanted: Sequence[tuple[Handle, Sequence[Fields]]]) -> AllFields | None:
    """Return what reads fields of all GPUs; None where no library is behind the object."""
    call = function(nvml, "nvmlDeviceGetFieldValues")
    return None if call is None else AllFields(call, wanted)
