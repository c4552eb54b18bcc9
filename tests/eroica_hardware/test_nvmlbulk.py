"""The library's own functions, called with memory of ours: the same answers as through pynvml, also in trouble."""

from __future__ import annotations

import ctypes
import math
from types import SimpleNamespace

import pytest

from eroica_hardware.nvml import NvmlSource
from factories_hardware import Turned, known, reading
from factories_nvml import Gpu, NVMLError, Recorded

TX, RX, NVLINK_TX, NVLINK_RX = 197, 198, 138, 139
DOUBLE, UNSIGNED_LONG_LONG = 0, 3


class Value(ctypes.Union):
    _fields_ = (("dVal", ctypes.c_double), ("ullVal", ctypes.c_ulonglong))


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t as nvml.h has it."""

    _fields_ = (
        ("fieldId", ctypes.c_uint),
        ("scopeId", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latencyUsec", ctypes.c_longlong),
        ("valueType", ctypes.c_uint),
        ("nvmlReturn", ctypes.c_uint),
        ("value", Value),
    )


class Behind(Recorded):
    """Recorded GPUs with a library of C functions behind them."""

    c_nvmlFieldValue_t = FieldValue

    def __init__(self, *gpus: Gpu) -> None:
        super().__init__(*gpus)
        for number, gpu in enumerate(gpus):
            gpu._as_parameter_ = number + 1  # type: ignore[attr-defined]
        self.type, self.through_c = UNSIGNED_LONG_LONG, 0
        fields = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        clock = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p)
        self.nvmlLib = SimpleNamespace(
            nvmlDeviceGetFieldValues=fields(self._fields), nvmlDeviceGetClockInfo=clock(self._clock)
        )

    def _fields(self, handle: int, count: int, place: int) -> int:
        self.through_c += 1
        gpu = self.gpus[handle - 1]
        try:
            self._asked("nvmlDeviceGetFieldValues", gpu)
        except NVMLError as error:
            return error.value
        for answer in (FieldValue * count).from_address(place):
            answer.valueType, answer.nvmlReturn = self.type, 0
            try:
                value = gpu.field(answer.fieldId, answer.scopeId)
            except NVMLError as error:
                answer.nvmlReturn = error.value
                continue
            if self.type == DOUBLE:
                answer.value.dVal = value
            else:
                answer.value.ullVal = round(value)
        return 0

    def _clock(self, handle: int, kind: int, place: int) -> int:
        self.through_c += 1
        gpu = self.gpus[handle - 1]
        try:
            self._asked("nvmlDeviceGetClockInfo", gpu)
            ctypes.c_uint.from_address(place).value = int(gpu.number("Clocks", {1: "SM", 2: "Memory"}[kind]))
        except NVMLError as error:
            return error.value
        return 0


def gpus() -> list[Gpu]:
    """Two GPUs of which each number is another."""
    made = [Gpu("h200", "GPU-a"), Gpu("h200", "GPU-b")]
    for number, gpu in enumerate(made, 1):
        gpu.fields = {TX: 1000 * number, RX: 2000 * number, NVLINK_TX: 3 * number, NVLINK_RX: 4 * number}
    made[1].said["Clocks", "SM"] = "990 MHz"
    return made


@pytest.fixture
def nvml() -> Behind:
    return Behind(*gpus())


@pytest.fixture
def clock() -> Turned:
    return Turned()


@pytest.fixture
def source(nvml: Behind, clock: Turned) -> NvmlSource:
    made = NvmlSource(nvml, clock, quick=True)
    made.look()
    reading(made)  # the first one learns the types of the fields
    clock.now += 1
    return made


def test_the_values_are_those_of_each_gpu_in_four_calls(nvml: Behind, source: NvmlSource, clock: Turned) -> None:
    nvml.through_c = 0
    assert reading(source) == {
        "GPU-a sm_clock": 1980,
        "GPU-a pcie_tx": 1000,
        "GPU-a pcie_rx": 2000,
        "GPU-a nvlink_tx": 3 * 1024,
        "GPU-a nvlink_rx": 4 * 1024,
        "GPU-b sm_clock": 990,
        "GPU-b pcie_tx": 2000,
        "GPU-b pcie_rx": 4000,
        "GPU-b nvlink_tx": 6 * 1024,
        "GPU-b nvlink_rx": 8 * 1024,
    }
    assert nvml.through_c == 4


def test_without_a_library_behind_it_the_object_gives_the_same(source: NvmlSource, clock: Turned) -> None:
    plain = NvmlSource(Recorded(*gpus()), Turned(), quick=True)
    plain.look()
    assert reading(plain) == reading(source)
    assert plain.resources == source.resources


def test_one_gpu_that_is_lost_leaves_the_other(nvml: Behind, source: NvmlSource, clock: Turned) -> None:
    nvml.gpus[0].lost = True
    for _ in range(2):
        assert {name.split()[0] for name in known(reading(source))} == {"GPU-b"}
        assert source.missing == {"GPU-a": "gpu is lost"}
        clock.now += 1
    nvml.gpus[0].lost = False
    source.look()
    assert len(known(reading(source))) == 10


def test_one_field_that_fails_leaves_the_others_and_is_told_at_the_next_look(
    nvml: Behind, source: NvmlSource, clock: Turned
) -> None:
    del nvml.gpus[0].fields[NVLINK_TX], nvml.gpus[0].fields[NVLINK_RX]
    for _ in range(2):
        values = reading(source)
        assert {name for name, value in values.items() if math.isnan(value)} == {"GPU-a nvlink_tx", "GPU-a nvlink_rx"}
        assert values["GPU-a pcie_tx"] == 1000
        clock.now += 1
    source.look()
    assert source.missing == {"GPU-a nvlink_tx": "not supported", "GPU-a nvlink_rx": "not supported"}


def test_a_call_that_fails_for_a_while(nvml: Behind, source: NvmlSource, clock: Turned) -> None:
    nvml.broken["nvmlDeviceGetClockInfo"] = 999
    assert math.isnan(reading(source)["GPU-b sm_clock"])
    assert source.missing == {"GPU-a sm_clock": "unknown error", "GPU-b sm_clock": "unknown error"}
    del nvml.broken["nvmlDeviceGetClockInfo"]
    clock.now += 1
    assert reading(source)["GPU-b sm_clock"] == 990
    assert source.missing == {}
    clock.now += 1
    nvml.through_c = 0
    assert reading(source)["GPU-b sm_clock"] == 990
    assert nvml.through_c == 4  # all at once again


def test_a_counter_that_goes_back_is_missing_once(nvml: Behind, source: NvmlSource, clock: Turned) -> None:
    reading(source)
    nvml.gpus[1].fields[RX] = 7
    clock.now += 1
    values = reading(source)
    assert math.isnan(values["GPU-b pcie_rx"])
    assert values["GPU-b pcie_tx"] == 2000
    assert source.missing == {"GPU-b pcie_rx": "the counter went back"}
    clock.now += 1
    assert reading(source)["GPU-b pcie_rx"] == 7
    assert source.missing == {}


def test_a_driver_that_changes_the_type_of_its_fields(nvml: Behind, source: NvmlSource, clock: Turned) -> None:
    nvml.type = DOUBLE
    for _ in range(3):
        assert reading(source)["GPU-b nvlink_rx"] == 8 * 1024
        clock.now += 1


def test_a_driver_that_is_reset(nvml: Behind, source: NvmlSource, clock: Turned) -> None:
    nvml.driver = 1
    assert known(reading(source)) == {}
    nvml.driver = 0
    clock.now += 1
    assert known(reading(source)) == {}  # until the next look
    source.look()
    assert len(known(reading(source))) == 10
