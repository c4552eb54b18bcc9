"""NVIDIA GPUs as sources, on what an H100, an H200 and an H200 with MIG answered, and on drivers and GPUs that go."""

from __future__ import annotations

import math

import pytest

from eroica_hardware.nvml import NvmlSource
from factories_hardware import Turned, known, peaks, reading
from factories_nvml import Gpu, Recorded

TX, RX, NVLINK_TX, NVLINK_RX = 197, 198, 138, 139
THROTTLES = 11


def source_of(nvml: Recorded, clock: Turned | None = None) -> NvmlSource:
    source = NvmlSource(nvml, clock or Turned())
    source.look()
    return source


def h200(uuid: str = "GPU-a") -> Gpu:
    gpu = Gpu("h200", uuid)
    gpu.fields = {TX: 1000, RX: 2000, NVLINK_TX: 3, NVLINK_RX: 4}
    gpu.energy_mj = 123_456
    return gpu


def test_an_h200_under_load() -> None:
    source = source_of(Recorded(h200()))
    values = reading(source)
    assert {name.removeprefix("GPU-a "): value for name, value in values.items() if "throttle" not in name} == {
        "sm_clock": 1980,
        "mem_clock": 3201,
        "gpu_util": 100,
        "mem_util": 7,
        "gpu_memory": 32362 << 20,
        "power": 625.24,
        "energy": 123.456,
        "temperature": 52,
        "mem_temperature": 41,
        "pcie_tx": 1000,
        "pcie_rx": 2000,
        "nvlink_tx": 3 * 1024,
        "nvlink_rx": 4 * 1024,
        "pcie_replays": 0,
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
        "remapped_rows_corrected": 0,
        "remapped_rows_uncorrected": 0,
        "remap_pending": 0,
        "remap_failed": 0,
    }
    assert sum(name.startswith("GPU-a throttle_") for name in values) == THROTTLES
    assert {name.removeprefix("GPU-a ") for name in source.missing} == {
        "retired_pages_sbe",
        "retired_pages_dbe",
        "power_mean",
        "power_most",
    }


def test_the_peaks_of_an_h200() -> None:
    most = peaks(source_of(Recorded(h200())))
    assert most["GPU-a sm_clock"] == 1980
    assert most["GPU-a gpu_util"] == most["GPU-a mem_util"] == 100
    assert most["GPU-a gpu_memory"] == 143771 << 20
    assert most["GPU-a power"] == 700
    assert most["GPU-a pcie_tx"] == pytest.approx(16 * 32e9 * 128 / 130 / 8)
    assert most["GPU-a nvlink_tx"] == pytest.approx(18 * 26.562e9)
    assert math.isnan(most["GPU-a temperature"])


def test_the_h100_of_the_recording_is_limited_by_its_power() -> None:
    gpu = Gpu("h100", "GPU-b")
    gpu.said["Clocks Event Reasons", "SW Power Cap"] = "Active"
    values = reading(source_of(Recorded(gpu)))
    assert values["GPU-b power"] == 588.39
    assert [name for name, value in values.items() if "throttle" in name and value] == ["GPU-b throttle_sw_power_cap"]


REASONS = {
    "Idle": "idle",
    "Applications Clocks Setting": "application_clocks",
    "SW Power Cap": "sw_power_cap",
    "HW Slowdown": "hw_slowdown",
    "Sync Boost": "sync_boost",
    "SW Thermal Slowdown": "sw_thermal",
    "HW Thermal Slowdown": "hw_thermal",
    "HW Power Brake Slowdown": "hw_power_brake",
    "Display Clock Setting": "display_clocks",
    "Board Limit": "board_limit",
    "Reliability": "reliability",
}


@pytest.mark.parametrize(("told", "name"), REASONS.items())
def test_each_reason_of_a_lower_clock_is_a_resource_of_its_own(told: str, name: str) -> None:
    gpu = h200()
    gpu.said["Clocks Event Reasons", told] = "Active"
    values = reading(source_of(Recorded(gpu)))
    assert {key: value for key, value in values.items() if "throttle" in key and value} == {f"GPU-a throttle_{name}": 1}


def test_errors_pages_and_rows_are_told_apart() -> None:
    gpu = h200()
    gpu.said |= {
        ("ECC Errors", "Volatile", "DRAM Correctable"): "1",
        ("ECC Errors", "Volatile", "DRAM Uncorrectable"): "2",
        ("Retired Pages", "Single Bit ECC"): "3",
        ("Retired Pages", "Double Bit ECC"): "4",
        ("Remapped Rows", "Correctable Error"): "5",
        ("Remapped Rows", "Uncorrectable Error"): "6",
        ("Remapped Rows", "Remapping Failure Occurred"): "Yes",
        ("PCI", "Replays Since Reset"): "7",
    }
    values = reading(source_of(Recorded(gpu)))
    wanted = {
        "ecc_corrected": 1,
        "ecc_uncorrected": 2,
        "retired_pages_sbe": 3,
        "retired_pages_dbe": 4,
        "remapped_rows_corrected": 5,
        "remapped_rows_uncorrected": 6,
        "remap_pending": 0,
        "remap_failed": 1,
        "pcie_replays": 7,
    }
    assert {name: values[f"GPU-a {name}"] for name in wanted} == wanted


def test_without_the_byte_counters_the_throughput_is_asked_for_which_takes_20_ms_a_call() -> None:
    gpu = Gpu("h200", "GPU-a")
    clock = Turned()
    source = source_of(Recorded(gpu), clock)
    values = reading(source)
    assert (values["GPU-a pcie_tx"], values["GPU-a pcie_rx"]) == (4217e3, 8691e3)
    assert not [resource for resource in source.resources if resource.name == "pcie_tx" and resource.counter]
    assert source.missing["GPU-a nvlink_tx"] == "not supported"
    clock.now += 0.5
    assert "GPU-a pcie_tx" not in known(reading(source))


def test_a_gpu_that_tells_no_power_of_the_moment_tells_the_average() -> None:
    gpu = h200()
    gpu.said["GPU Power Readings", "Instantaneous Power Draw"] = "N/A"
    assert reading(source_of(Recorded(gpu)))["GPU-a power"] == 627.32


def test_the_drivers_own_samples_of_power_are_taken_once_each() -> None:
    """20 ms apart, after one from before: 600 W, a spike of 900 W, 600 W; in the next reading what came since."""
    gpu, clock = h200(), Turned()
    gpu.power_samples = [(1, 5_000_000)]
    source = source_of(Recorded(gpu), clock)
    gpu.power_samples += [(1000, 600_000), (21_000, 900_000), (41_000, 600_000)]
    values = reading(source)
    assert (values["GPU-a power_mean"], values["GPU-a power_most"]) == (700, 900)
    assert peaks(source)["GPU-a power_most"] == 700
    clock.now += 1
    assert "GPU-a power_mean" not in known(reading(source))
    assert "GPU-a power_mean" not in source.missing
    gpu.power_samples.append((61_000, 500_000))
    clock.now += 1
    values = reading(source)
    assert (values["GPU-a power_mean"], values["GPU-a power_most"]) == (500, 500)


def test_a_gpu_cut_into_instances_has_no_utilisation_and_no_nvlink_the_rest_goes_on() -> None:
    source = source_of(Recorded(Gpu("h200_mig", "GPU-m"), h200()))
    values = reading(source)
    assert values["GPU-m sm_clock"] == 1980
    assert values["GPU-m power"] == 292.14
    assert values["GPU-a gpu_util"] == 100
    assert {"GPU-m gpu_util", "GPU-m mem_util", "GPU-m nvlink_tx"} <= source.missing.keys()
    assert "GPU-m gpu_util" not in values


def test_a_gpu_that_falls_off_the_bus_and_comes_back() -> None:
    nvml = Recorded(h200("GPU-a"), h200("GPU-b"))
    clock = Turned()
    source = source_of(nvml, clock)
    nvml.gpus[0].lost = True
    values = reading(source)
    assert {name.split()[0] for name in known(values)} == {"GPU-b"}
    assert source.missing["GPU-a"] == "gpu is lost"
    source.look()
    assert {resource.device for resource in source.resources} == {"GPU-b"}
    assert source.missing["gpu 0"] == "gpu is lost"
    nvml.gpus[0].lost = False
    source.look()
    assert {resource.device for resource in source.resources} == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize("code", [1, 9, 18])
def test_a_driver_that_is_reset_is_taken_up_at_the_next_look(code: int) -> None:
    nvml = Recorded(h200())
    source = source_of(nvml)
    nvml.driver = code
    assert known(reading(source)) == {}
    asked = nvml.calls.total()
    assert known(reading(source)) == {}
    assert nvml.calls.total() == asked
    source.look()
    assert (source.resources, list(source.missing)) == ((), ["nvml"])
    nvml.driver = 0
    source.look()
    assert reading(source)["GPU-a sm_clock"] == 1980


def test_counters_begin_anew_after_a_reset() -> None:
    nvml = Recorded(h200())
    clock = Turned()
    source = source_of(nvml, clock)
    reading(source)
    nvml.gpus[0].fields[TX] = 5
    clock.now += 0.1
    values = reading(source)
    assert math.isnan(values["GPU-a pcie_tx"])
    assert values["GPU-a pcie_rx"] == 2000
    assert source.missing["GPU-a pcie_tx"] == "the counter went back"
    clock.now += 0.1
    assert reading(source)["GPU-a pcie_tx"] == 5
    assert "GPU-a pcie_tx" not in source.missing


@pytest.mark.parametrize("code", [4, 13, 999])
def test_one_call_that_fails_leaves_the_others(code: int) -> None:
    nvml = Recorded(h200())
    nvml.broken["nvmlDeviceGetTotalEccErrors"] = code
    source = source_of(nvml)
    assert "GPU-a ecc_corrected" in source.missing
    assert reading(source)["GPU-a sm_clock"] == 1980
    clock = Turned()
    source = source_of(nvml, clock)
    nvml.broken["nvmlDeviceGetClockInfo"] = code
    values = reading(source)
    assert math.isnan(values["GPU-a sm_clock"])
    assert values["GPU-a temperature"] == 52
    del nvml.broken["nvmlDeviceGetClockInfo"]
    clock.now += 1
    assert reading(source)["GPU-a sm_clock"] == 1980
    assert "GPU-a sm_clock" not in source.missing


def test_a_library_that_lacks_a_call() -> None:
    class Old(Recorded):
        nvmlDeviceGetRemappedRows = property()

    source = source_of(Old(h200()))
    assert "GPU-a remap_failed" in source.missing
    assert reading(source)["GPU-a sm_clock"] == 1980


def test_slow_calls_are_made_seldom() -> None:
    nvml = Recorded(h200())
    clock = Turned()
    source = source_of(nvml, clock)
    nvml.calls.clear()
    for _ in range(100):
        reading(source)
        clock.now += 0.01
    assert nvml.calls["nvmlDeviceGetTotalEccErrors"] == 2
    assert nvml.calls["nvmlDeviceGetTemperature"] == 1
    assert nvml.calls["nvmlDeviceGetClockInfo"] == pytest.approx(100 + 5, abs=1)


def test_a_clock_that_goes_back_stops_no_call() -> None:
    nvml, clock = Recorded(h200()), Turned()
    source = source_of(nvml, clock)
    reading(source)
    clock.now -= 500
    assert reading(source)["GPU-a sm_clock"] == 1980


def test_no_gpu_and_no_driver() -> None:
    assert source_of(Recorded()).missing == {"nvml": "the driver knows no GPU"}
    nvml = Recorded(h200())
    nvml.driver = 12
    source = source_of(nvml)
    assert source.missing == {"nvml": "nvml shared library not found"}
    assert list(source.read()) == []


def test_closing_gives_the_library_back_and_may_be_done_twice() -> None:
    nvml = Recorded(h200())
    source = source_of(nvml)
    source.close()
    source.close()
    assert nvml.calls["nvmlShutdown"] == 1
    assert list(source.read()) == []


def test_quick_calls_and_the_others_are_two_sources_with_nothing_in_common() -> None:
    nvml, clock = Recorded(h200(), Gpu("h100", "GPU-b")), Turned()
    quick, state, both = NvmlSource(nvml, clock, quick=True), NvmlSource(nvml, clock, quick=False), source_of(nvml)
    quick.look()
    state.look()
    assert (quick.family, state.family) == ("nvml", "nvml_state")
    assert {resource.name for resource in quick.resources} == {
        "sm_clock",
        "pcie_tx",
        "pcie_rx",
        "nvlink_tx",
        "nvlink_rx",
    }
    # The H100 of the recording has no byte counters: what its links carry comes seldom, from a call of 20 ms.
    assert ("pcie_tx", "GPU-b") in {(resource.name, resource.device) for resource in state.resources}
    names = [sorted(f"{one.device} {one.name}" for one in source.resources) for source in (quick, state, both)]
    assert sorted(names[0] + names[1]) == names[2]
    assert quick.missing.keys() | state.missing.keys() == both.missing.keys()
    assert not quick.missing.keys() & state.missing.keys()
    assert quick.missing == {"GPU-b nvlink_tx": "not supported", "GPU-b nvlink_rx": "not supported"}
