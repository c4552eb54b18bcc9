"""The numbers and calls of NVML against nvidia-ml-py itself, as no machine here has a GPU to refuse a wrong one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from bench.hardware import stand_in
from eroica_hardware import gpm, gpus, nvmlbuffers, nvmlcalls, nvmlfields

ROOT = Path(__file__).parents[2]
NUMBERS = {
    "NVML_CLOCK_SM": nvmlcalls.CLOCK_SM,
    "NVML_CLOCK_MEM": nvmlcalls.CLOCK_MEM,
    "NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS": nvmlcalls.RETIRED_SBE,
    "NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR": nvmlcalls.RETIRED_DBE,
    "NVML_MEMORY_ERROR_TYPE_CORRECTED": nvmlcalls.CORRECTED,
    "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": nvmlcalls.UNCORRECTED,
    "NVML_VOLATILE_ECC": nvmlcalls.VOLATILE,
    "NVML_PCIE_UTIL_TX_BYTES": nvmlcalls.PCIE_TX,
    "NVML_PCIE_UTIL_RX_BYTES": nvmlcalls.PCIE_RX,
    "NVML_TEMPERATURE_GPU": nvmlcalls.SENSOR_GPU,
    "NVML_FI_DEV_MEMORY_TEMP": nvmlcalls.FIELD_MEM_TEMPERATURE,
    "NVML_FI_DEV_POWER_INSTANT": nvmlcalls.FIELD_POWER_INSTANT,
    "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX": nvmlcalls.FIELD_NVLINK_TX,
    "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX": nvmlcalls.FIELD_NVLINK_RX,
    "NVML_FI_DEV_NVLINK_GET_SPEED": nvmlcalls.FIELD_NVLINK_SPEED,
    "NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON": nvmlcalls.FIELD_NVLINK_COMMON_SPEED,
    "NVML_FI_DEV_NVLINK_LINK_COUNT": nvmlcalls.FIELD_NVLINK_COUNT,
    "NVML_FI_DEV_PCIE_COUNT_TX_BYTES": nvmlcalls.FIELD_PCIE_TX,
    "NVML_FI_DEV_PCIE_COUNT_RX_BYTES": nvmlcalls.FIELD_PCIE_RX,
    "NVML_TOTAL_POWER_SAMPLES": nvmlbuffers.POWER_SAMPLES,
    "NVML_ERROR_NOT_FOUND": nvmlbuffers.NOT_FOUND,
    "NVML_ERROR_UNINITIALIZED": gpus.UNINITIALIZED,
    "NVML_ERROR_DRIVER_NOT_LOADED": gpus.DRIVER_NOT_LOADED,
    "NVML_ERROR_LIBRARY_NOT_FOUND": gpus.LIBRARY_NOT_FOUND,
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": gpus.VERSION_MISMATCH,
    "NVML_ERROR_GPU_IS_LOST": gpus.GPU_IS_LOST,
    "NVML_ERROR_RESET_REQUIRED": gpus.RESET_REQUIRED,
    "NVML_ERROR_GPU_NOT_FOUND": gpus.GPU_NOT_FOUND,
    "NVML_GPM_METRIC_GRAPHICS_UTIL": gpm.SHARES["gr_engine"],
    "NVML_GPM_METRIC_SM_UTIL": gpm.SHARES["sm"],
    "NVML_GPM_METRIC_SM_OCCUPANCY": gpm.SHARES["sm_occupancy"],
    "NVML_GPM_METRIC_ANY_TENSOR_UTIL": gpm.SHARES["tensor"],
    "NVML_GPM_METRIC_DRAM_BW_UTIL": gpm.SHARES["dram"],
    "NVML_GPM_METRIC_PCIE_TX_PER_SEC": gpm.PCIE["gpm_pcie_tx"],
    "NVML_GPM_METRIC_PCIE_RX_PER_SEC": gpm.PCIE["gpm_pcie_rx"],
    "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC": gpm.NVLINK["gpm_nvlink_tx"],
    "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC": gpm.NVLINK["gpm_nvlink_rx"],
}
REASONS = {
    "GpuIdle": "idle",
    "ApplicationsClocksSetting": "application_clocks",
    "SwPowerCap": "sw_power_cap",
    "HwSlowdown": "hw_slowdown",
    "SyncBoost": "sync_boost",
    "SwThermalSlowdown": "sw_thermal",
    "HwThermalSlowdown": "hw_thermal",
    "HwPowerBrakeSlowdown": "hw_power_brake",
    "DisplayClockSetting": "display_clocks",
    "BoardLimit": "board_limit",
    "Reliability": "reliability",
}


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_a_number_is_the_one_of_its_name(name: str, number: int) -> None:
    assert getattr(pynvml, name) == number


def test_every_reason_of_a_lower_clock_that_the_library_knows_is_told() -> None:
    every = pynvml.nvmlClocksThrottleReasonAll | pynvml.nvmlClocksEventReasonAll
    assert not every & ~sum(nvmlcalls.THROTTLES.values())
    told = {name: getattr(pynvml, f"nvmlClocksThrottleReason{name}", None) for name in REASONS}
    assert nvmlcalls.THROTTLES | {REASONS[name]: bit for name, bit in told.items() if bit} == nvmlcalls.THROTTLES


def test_types_of_values_have_their_numbers() -> None:
    names = ("DOUBLE", "UNSIGNED_INT", "UNSIGNED_LONG", "UNSIGNED_LONG_LONG", "SIGNED_LONG_LONG", "SIGNED_INT")
    types = [getattr(pynvml, f"NVML_VALUE_TYPE_{name}") for name in names]
    assert types == list(range(len(names)))
    assert set(nvmlfields.VALUE_TYPES) <= {name for name, *_ in pynvml.c_nvmlValue_t._fields_}


GPUS = ("GPU-00000000-0000-0000-0000-000000000001", "GPU-00000000-0000-0000-0000-000000000002")
QUIET = (
    *(f"throttle_{name}" for name in nvmlcalls.THROTTLES), "ecc_corrected", "ecc_uncorrected", "pcie_replays",
    "remapped_rows_corrected", "remapped_rows_uncorrected", "remap_pending", "remap_failed",
)  # fmt: skip
ACTIVITY = (*gpm.SHARES, *gpm.PCIE, *gpm.NVLINK)
READ = """
import json
from eroica_hardware.gpm import GpmSource
from eroica_hardware.nvml import NvmlSource
from factories_hardware import Turned, reading
clock, found, missing = Turned(), [{}, {}, {}], {}
for source in (NvmlSource(clock=clock, quick=True), NvmlSource(clock=clock, quick=False), GpmSource(clock=clock)):
    source.look()
    for turn in found:  # after the first the library's own functions are asked of all GPUs at once
        turn.update(reading(source))
        clock.now += 11
    missing |= source.missing
    source.close()
print(json.dumps([found, missing]))
"""


def test_nvidia_ml_py_itself_on_a_library_that_answers_as_an_h200(tmp_path: Path) -> None:
    """Its wrappers, structures and types are the real ones; the library behind it is bench/nvml_stand_in.c."""
    library = stand_in(tmp_path)
    if not library:  # without a C compiler there is no library to ask
        return
    path = os.pathsep.join(map(str, (ROOT / "tests", ROOT, ROOT / "exporters")))
    done = subprocess.run(
        [sys.executable, "-c", READ], env=os.environ | library | {"PYTHONPATH": path, "NVML_GPUS": "2"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found, missing = json.loads(done.stdout)
    for turn in found[1:]:
        for gpu in GPUS:
            is_an_h200({name.removeprefix(f"{gpu} "): value for name, value in turn.items() if name.startswith(gpu)})
    for gpu in GPUS:
        lacking = {name.removeprefix(f"{gpu} ") for name in missing if name.startswith(gpu)}
        assert lacking == {"power_mean", "power_most", "retired_pages_sbe", "retired_pages_dbe"}


def is_an_h200(told: dict[str, float]) -> None:
    grows = {name: told.pop(name) for name in ("pcie_tx", "pcie_rx", "nvlink_tx", "nvlink_rx", "energy")}
    # The stand-in makes a field of its number and the time; NVLink is told in KiB.
    assert grows["pcie_rx"] / grows["pcie_tx"] == pytest.approx(198 / 197, rel=1e-4)
    assert grows["nvlink_tx"] / grows["pcie_tx"] == pytest.approx(138 * 1024 / 197, rel=1e-4)
    assert grows["nvlink_rx"] / grows["pcie_tx"] == pytest.approx(139 * 1024 / 197, rel=1e-4)
    assert grows["energy"] > 0
    assert {name: told.pop(name) for name in QUIET} == dict.fromkeys(QUIET, 0)
    assert {name: told.pop(name) for name in ACTIVITY} == dict.fromkeys(ACTIVITY, 50)
    assert told == {
        "sm_clock": 1980,
        "mem_clock": 3201,
        "gpu_util": 100,
        "mem_util": 7,
        "gpu_memory": 32362 << 20,
        "power": 625.24,
        "temperature": 52,
        "mem_temperature": 41,
    }
