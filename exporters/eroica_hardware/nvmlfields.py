"""NVML's field values and single numbers, each by one call into memory that is prepared once.

Facts: NVML API reference, field value queries (nvmlFieldValue_t: a field and a scope in, a type, a value and an error
of its own out). pynvml's wrapper makes that memory anew at each call, which costs several times what the call does; so
where a real library is behind it, the library's function is called with memory of ours. A reading is for one thread.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from eroica_hardware.gpus import Handle, Nvml

VALUE_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
# nvmlFieldValue_t: ids and times are skipped; type, error, value.
BEFORE, AFTER = "24x", ("d", "I4x", "Q", "Q", "q", "i4x", "H6x")
Read = Callable[[], list[float]]


def fields(nvml: Nvml, handle: Handle, *wanted: tuple[int, int], strict: bool = True) -> list[float]:
    """Return the values of (field, scope) pairs by one call; raises what ``failures`` holds.

    ``strict`` refuses all where one has an error; else that one is NaN, unless all have one.
    """
    return _taken(nvml, nvml.nvmlDeviceGetFieldValues(handle, list(wanted)), strict)


def field(nvml: Nvml, handle: Handle, number: int) -> float:
    """Return one field value; raises what ``failures`` holds."""
    return fields(nvml, handle, (number, 0))[0]


def _taken(nvml: Nvml, answers: Iterable[Nvml], strict: bool) -> list[float]:
    answers = tuple(answers)
    errors = [answer.nvmlReturn for answer in answers]
    if any(errors) if strict else all(errors):
        raise nvml.NVMLError(next(filter(None, errors)))
    return [
        math.nan if answer.nvmlReturn else float(getattr(answer.value, VALUE_TYPES[answer.valueType]))
        for answer in answers
    ]


def function(nvml: Nvml, name: str) -> Callable[..., int] | None:
    """Return the library's own function, None where there is no library of that form behind the object."""
    found: Callable[..., int] | None = getattr(getattr(nvml, "nvmlLib", None), name, None)
    return found


class _Prepared:
    """Fields of one GPU; once it is known which types they have, all are taken out of the memory at once."""

    def __init__(
        self, nvml: Nvml, handle: Handle, call: Callable[..., int], wanted: Sequence[tuple[int, int]], strict: bool
    ) -> None:
        self._nvml, self._handle, self._call, self._strict = nvml, handle, call, strict
        self._room = (nvml.c_nvmlFieldValue_t * len(wanted))()
        for answer, (number, scope) in zip(self._room, wanted, strict=True):
            answer.fieldId, answer.scopeId = number, scope
        self._place, self._count = ctypes.byref(self._room), ctypes.c_int32(len(wanted))
        self._clean: tuple[int, ...] = ()
        self._layout = struct.Struct("")

    def __call__(self) -> list[float]:
        if code := self._call(self._handle, self._count, self._place):
            raise self._nvml.NVMLError(code)
        if self._clean:
            found = self._layout.unpack(self._room)
            if found[::3] + found[1::3] == self._clean:
                return list(found[2::3])
        return self._one_by_one()

    def _one_by_one(self) -> list[float]:
        values = _taken(self._nvml, self._room, self._strict)
        types = tuple(int(answer.valueType) for answer in self._room)
        self._layout = struct.Struct("<" + "".join(f"{BEFORE}II{AFTER[each]}" for each in types))
        self._clean = types + (0,) * len(types)
        return values


def prepared(nvml: Nvml, handle: Handle, wanted: Sequence[tuple[int, int]], strict: bool = True) -> Read:
    """Return what reads (field, scope) pairs of one GPU again and again as ``fields`` does."""
    call = function(nvml, "nvmlDeviceGetFieldValues")
    if call is None:
        return lambda: fields(nvml, handle, *wanted, strict=strict)
    return _Prepared(nvml, handle, call, wanted, strict)


@dataclass(frozen=True, slots=True)
class Fields:
    """Values of some fields of one scope, in a unit of so many of ours."""

    unit: float
    scope: int
    numbers: tuple[int, ...]

    def __call__(self, nvml: Nvml, handle: Handle) -> list[float]:
        """Return the values; raises what ``failures`` holds."""
        return self.bound(nvml, handle)()

    def bound(self, nvml: Nvml, handle: Handle) -> Read:
        """Return what reads the values of one GPU, again and again."""
        return together(nvml, handle, [self], strict=True)


def together(nvml: Nvml, handle: Handle, wanted: Sequence[Fields], strict: bool = False) -> Read:
    """Return what reads all of these of one GPU by one call; one that has an error of its own is NaN."""
    units = [each.unit for each in wanted for _ in each.numbers]
    read = prepared(nvml, handle, [(number, each.scope) for each in wanted for number in each.numbers], strict)
    if set(units) == {1}:
        return read
    return lambda: [value * unit for value, unit in zip(read(), units, strict=True)]


def _same(answers: tuple[int, ...]) -> Sequence[float]:
    return answers


@dataclass(frozen=True, slots=True)
class Raw:
    """How a call answers in C, so that it can be made without pynvml's wrapper (nvmlbulk.py).

    Attributes:
        names: Of the function; the first that the library has is called.
        form: Of the numbers that it answers with (struct).
        before: Numbers that it is given between the GPU and the memory.
        values: Makes the raw values of the numbers of all GPUs.
    """

    names: tuple[str, ...]
    form: str
    before: tuple[int, ...] = ()
    values: Callable[[tuple[int, ...]], Sequence[float]] = _same


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock of a GPU in MHz."""

    kind: int

    def __call__(self, nvml: Nvml, handle: Handle) -> list[float]:
        """Return the value; raises what ``failures`` holds."""
        return [nvml.nvmlDeviceGetClockInfo(handle, self.kind)]

    def bound(self, nvml: Nvml, handle: Handle) -> Read:
        """Return what reads the clock of one GPU, again and again."""
        call = function(nvml, "nvmlDeviceGetClockInfo")
        if call is None:
            return lambda: self(nvml, handle)
        room, kind = ctypes.c_uint(), ctypes.c_uint(self.kind)
        place = ctypes.byref(room)

        def read() -> list[float]:
            if code := call(handle, kind, place):
                raise nvml.NVMLError(code)
            return [room.value]

        return read
