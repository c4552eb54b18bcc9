"""AMD GPUs as sources, on folders written after the kernel's documentation; no such GPU was at hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from eroica_otel.hardware.rocm import RocmSource, current_mhz
from factories_hardware import Tree, Turned, peaks, reading

FILES = {
    "vendor": "0x1002",
    "unique_id": "a1b2c3",
    "gpu_busy_percent": "97",
    "mem_busy_percent": "40",
    "mem_info_vram_total": "1000",
    "mem_info_vram_used": "250",
    "pp_dpm_sclk": "0: 500Mhz\n1: 1200Mhz *\n2: 2100Mhz",
    "pp_dpm_mclk": "0: 900Mhz\n1: 1300Mhz *",
    "hwmon/hwmon3/power1_average": "300000000",
    "hwmon/hwmon3/power1_cap": "750000000",
    "hwmon/hwmon3/temp1_input": "61000",
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "machine")


def gpu(tree: Tree, card: str = "card0", **files: str) -> Path:
    folder = tree.sys / "class" / "drm" / card / "device"
    for name, text in (FILES | files).items():
        tree.write(folder / name, text)
    return folder


def rocm(tree: Tree) -> RocmSource:
    source = RocmSource(tree.sys, Turned())
    source.look()
    return source


def test_a_gpu(tree: Tree) -> None:
    gpu(tree)
    gpu(tree, "card1", vendor="0x10de")
    gpu(tree, "card0-HDMI-A-1")
    source = rocm(tree)
    assert reading(source) == {
        "a1b2c3 gpu_util": 97,
        "a1b2c3 mem_util": 40,
        "a1b2c3 gpu_memory": 250,
        "a1b2c3 sm_clock": 1200,
        "a1b2c3 mem_clock": 1300,
        "a1b2c3 power": 300,
        "a1b2c3 temperature": 61,
    }
    most = peaks(source)
    assert (most["a1b2c3 sm_clock"], most["a1b2c3 power"], most["a1b2c3 gpu_memory"]) == (2100, 750, 1000)
    assert source.missing.keys() == {"a1b2c3 soc_clock", "a1b2c3 fabric_clock"}


@pytest.mark.parametrize("text", ["", "0: 500Mhz", "0: fast *", "*", "0: 500 *"])
def test_clocks_of_another_form(text: str, tree: Tree) -> None:
    gpu(tree, pp_dpm_sclk=text)
    source = rocm(tree)
    assert math.isnan(reading(source)["a1b2c3 sm_clock"])
    assert source.missing["a1b2c3 sm_clock"] == "the file has another form"


def test_a_deep_sleep_state_is_a_level_as_well() -> None:
    assert current_mhz(b"S: 19Mhz *\n0: 500Mhz\n1: 2100Mhz\n") == 19


def test_a_file_that_is_refused(tree: Tree) -> None:
    folder = gpu(tree)
    tree.refuse(folder / "gpu_busy_percent")
    source = rocm(tree)
    values = reading(source)
    assert math.isnan(values["a1b2c3 gpu_util"])
    assert values["a1b2c3 mem_util"] == 40


def test_a_machine_without_an_amd_gpu(tree: Tree) -> None:
    assert list(rocm(tree).missing) == ["rocm"]
