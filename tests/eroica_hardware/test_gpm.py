"""GPM metrics: the mean between two samples, on recorded GPUs, older GPUs, GPUs with MIG and GPUs that go."""

from __future__ import annotations

import math

import pytest

from eroica_hardware.gpm import MIB, GpmSource
from factories_hardware import Turned, known, peaks, reading
from factories_nvml import Gpu, Recorded

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
