"""GPM metrics: the mean between two samples, on recorded GPUs, older GPUs, GPUs with MIG and GPUs that go."""

from __future__ import annotations

import ctypes
import math
from types import SimpleNamespace
from typing import Any

import pytest

from eroica_hardware.gpm import MIB, GpmSource
from factories_hardware import Turned, known, peaks, reading
from factories_nvml import Gpu, NVMLError, Recorded


class Metric(ctypes.Structure):
    """nvmlGpmMetric_t as nvml.h has it."""

    _fields_ = (
        ("metricId", ctypes.c_uint),
        ("nvmlReturn", ctypes.c_uint),
        ("value", ctypes.c_double),
        ("texts", ctypes.c_char_p * 3),
    )


class Wanted(ctypes.Structure):
    """nvmlGpmMetricsGet_t as nvml.h has it."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("numMetrics", ctypes.c_uint),
        ("sample1", ctypes.c_void_p),
        ("sample2", ctypes.c_void_p),
        ("metrics", Metric * 333),
    )


class Behind(Recorded):
    """Recorded GPUs with C functions behind them; a sample is a number, and is filled with the next one."""

    c_nvmlGpmMetricsGet_t = Wanted  # type: ignore[assignment]

    def __init__(self, *gpus: Gpu) -> None:
        super().__init__(*gpus)
        for number, gpu in enumerate(gpus, 1):
            gpu._as_parameter_ = number  # type: ignore[attr-defined]
        self.filled: list[int] = [0]
        self.whose: dict[int, int] = {}
        self.through_c = self.now = 0
        get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        metrics = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Wanted))
        self.nvmlLib = SimpleNamespace(nvmlGpmSampleGet=get(self._get), nvmlGpmMetricsGet=metrics(self._metrics))

    def nvmlGpmSampleAlloc(self) -> Any:
        self.filled.append(0)
        return len(self.filled) - 1

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        """Nothing is kept."""

    def nvmlGpmSampleGet(self, gpu: Gpu, sample: Any) -> Any:
        if code := self._get(self.gpus.index(gpu) + 1, sample):
            raise NVMLError(code)

    def nvmlGpmMetricsGet(self, wanted: Any) -> None:
        self._metrics(ctypes.pointer(wanted))

    def _get(self, handle: int, sample: int) -> int:
        self.through_c += 1
        if self.gpus[handle - 1].lost:
            return 15
        self.now += 1
        self.filled[sample], self.whose[sample] = self.now, handle
        return 0

    def _metrics(self, place: Any) -> int:
        wanted = place.contents
        assert 0 < self.filled[wanted.sample1] < self.filled[wanted.sample2]
        handle = self.whose[wanted.sample1]
        assert self.whose[wanted.sample2] == handle
        for metric in wanted.metrics[: wanted.numMetrics]:
            metric.nvmlReturn = 0 if metric.metricId in self.gpm else 3
            metric.value = handle * self.gpm.get(metric.metricId, 0.0)
        return 0


VALUES = {1: 99.0, 2: 90.0, 3: 40.0, 5: 55.0, 10: 30.0, 20: 1.0, 21: 2.0, 60: 300.0, 61: 400.0}


def hopper(*gpus: Gpu) -> tuple[Recorded, GpmSource, Turned]:
    nvml, clock = Recorded(*(gpus or (Gpu("h200", "GPU-a"),))), Turned()
    nvml.gpm = dict(VALUES)
    source = GpmSource(nvml, clock)
    source.look()
    return nvml, source, clock


def test_a_metric_needs_two_samples_100_ms_apart() -> None:
    _, source, clock = hopper()
    assert known(reading(source)) == {}
    clock.now += 0.05
    assert known(reading(source)) == {}
    clock.now += 0.1
    assert reading(source) == {
        "GPU-a gr_engine": 99,
        "GPU-a sm": 90,
        "GPU-a sm_occupancy": 40,
        "GPU-a tensor": 55,
        "GPU-a dram": 30,
        "GPU-a gpm_pcie_tx": 1,
        "GPU-a gpm_pcie_rx": 2,
        "GPU-a gpm_nvlink_rx": 300,
        "GPU-a gpm_nvlink_tx": 400,
    }
    assert source.missing == {}


def test_peaks() -> None:
    _, source, _ = hopper()
    most = peaks(source)
    assert most["GPU-a dram"] == 100
    assert most["GPU-a gpm_pcie_tx"] == pytest.approx(16 * 32e9 * 128 / 130 / 8 / MIB)
    assert most["GPU-a gpm_nvlink_rx"] == pytest.approx(18 * 26.562e9 / MIB)


def test_each_reading_begins_where_the_last_ended() -> None:
    """The recorded library refuses a pair that is not in order."""
    nvml, source, clock = hopper()
    for _ in range(5):
        reading(source)
        clock.now += 0.2
    assert nvml.calls["nvmlGpmSampleGet"] == 5
    assert nvml.calls["nvmlGpmMetricsGet"] == 4
    assert len(nvml.samples) == 2


def test_a_metric_that_the_gpu_does_not_have_is_nan() -> None:
    nvml, source, clock = hopper()
    del nvml.gpm[5]
    reading(source)
    clock.now += 1
    values = reading(source)
    assert math.isnan(values["GPU-a tensor"])
    assert values["GPU-a sm"] == 90


def test_after_a_failed_sample_the_next_pair_is_a_new_one() -> None:
    nvml, source, clock = hopper()
    reading(source)
    nvml.broken["nvmlGpmSampleGet"] = 999
    clock.now += 1
    assert known(reading(source)) == {}
    assert source.missing["GPU-a sm"] == "unknown error"
    nvml.broken.clear()
    clock.now += 1
    assert known(reading(source)) == {}
    clock.now += 1
    assert reading(source)["GPU-a sm"] == 90
    assert source.missing == {}


def test_older_gpus_and_gpus_cut_into_instances_are_missing_and_the_others_go_on() -> None:
    old = Gpu("h100", "GPU-o")
    old.said["Product Architecture",] = "Ampere"
    _, source, _ = hopper(old, Gpu("h200_mig", "GPU-m"), Gpu("h200", "GPU-a"))
    assert {resource.device for resource in source.resources} == {"GPU-a"}
    assert source.missing.keys() == {"GPU-o", "GPU-m"}


def test_a_library_without_gpm() -> None:
    nvml = Recorded(Gpu("h200", "GPU-a"))
    nvml.broken["nvmlGpmQueryDeviceSupport"] = 13
    source = GpmSource(nvml, Turned())
    source.look()
    assert source.missing == {"GPU-a": "function not found"}


def test_a_gpu_that_is_lost_and_samples_that_are_given_back() -> None:
    nvml, source, clock = hopper(Gpu("h200", "GPU-a"), Gpu("h100", "GPU-b"))
    reading(source)
    nvml.gpus[0].lost = True
    clock.now += 1
    assert {name.split()[0] for name in known(reading(source))} == {"GPU-b"}
    source.look()
    assert len(nvml.samples) == 2
    source.close()
    assert not nvml.samples


def behind() -> tuple[Behind, GpmSource, Turned]:
    nvml, clock = Behind(Gpu("h200", "GPU-a"), Gpu("h200", "GPU-b")), Turned()
    nvml.gpm = dict(VALUES)
    source = GpmSource(nvml, clock)
    source.look()
    assert known(reading(source)) == {}  # the first sample of each
    clock.now += 0.2
    return nvml, source, clock


def test_all_gpus_through_the_librarys_own_functions() -> None:
    """The library refuses a pair that is not in order or of two GPUs; the metrics of the second are twice as large."""
    nvml, source, clock = behind()
    for _ in range(4):
        values = reading(source)
        assert (values["GPU-a sm"], values["GPU-b sm"], values["GPU-b gpm_nvlink_tx"]) == (90, 180, 800)
        clock.now += 0.2
    del nvml.gpm[5]
    assert {name for name, value in reading(source).items() if math.isnan(value)} == {"GPU-a tensor", "GPU-b tensor"}


def test_a_gpu_that_is_lost_between_two_samples_leaves_the_other() -> None:
    nvml, source, clock = behind()
    reading(source)
    nvml.gpus[1].lost = True
    seen = []
    for _ in range(3):
        clock.now += 0.2
        seen.append(known(reading(source)))
    assert seen[0] == {}  # the pairs begin anew
    assert {name.split()[0] for name in seen[1]} == {"GPU-a"}
    assert seen[1] == seen[2]
    assert list(source.missing) == ["GPU-b"]
