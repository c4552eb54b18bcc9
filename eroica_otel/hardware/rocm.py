"""Source `rocm`: clocks, utilisation, memory, power and temperature of AMD GPUs from sysfs.

Written from the kernel's documentation (gpu/amdgpu/thermal.rst: gpu_busy_percent, mem_busy_percent, pp_dpm_*, hwmon;
gpu/amdgpu/driver-misc.rst: mem_info_vram_*) and UNTESTED ON HARDWARE. `pcie_bw` is left out: the driver counts for a
second before it answers; speed and width of the link are in source `pcie`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from eroica_otel.hardware.columns import Column, FileSource, names, number, text_of
from eroica_otel.hardware.net import SYS
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.source import Resource

AMD = "0x1002"
FAST_S = 0.01
SELDOM_S = 1.0
# pp_dpm_<file> -> resource: clocks of shader engines, memory, system on chip and fabric
CLOCKS = {"sclk": "sm_clock", "mclk": "mem_clock", "socclk": "soc_clock", "fclk": "fabric_clock"}


def _mhz(word: bytes) -> float:
    """Return the number of "1700Mhz"; raises ValueError for another form."""
    if not word.lower().endswith(b"mhz"):
        raise ValueError(word)
    return float(word[:-3])


def current_mhz(text: bytes) -> float:
    """Return the clock of the level with the star: "0: 500Mhz" newline "1: 1700Mhz *"; raises LookupError without."""
    starred = [line for line in text.splitlines() if line.rstrip().endswith(b"*")]
    return _mhz(starred[0].split()[1])


def most_mhz(text: bytes) -> float:
    """Return the highest clock of all levels; raises ValueError or LookupError for another form."""
    return max(_mhz(line.split()[1]) for line in text.splitlines())


def _millionth(text: bytes) -> float:
    return number(text) / 1e6


def _thousandth(text: bytes) -> float:
    return number(text) / 1e3


class RocmSource(FileSource):
    """AMD GPUs; a device is the GPU's unique_id, else its card's name."""

    family = "rocm"

    def __init__(self, sys: Path = SYS, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._root = sys / "class" / "drm"

    def columns(self) -> Iterator[Column]:
        cards = [name for name in names(self._root) if name.startswith("card") and name[4:].isdigit()]
        found = [card for card in cards if text_of(self._root / card / "device" / "vendor") == AMD]
        if not found:
            self.missing["rocm"] = "no AMD GPU in sysfs"
        for card in found:
            folder = self._root / card / "device"
            device = text_of(folder / "unique_id") or card
            yield from self._shares(folder, device)
            yield from self._clocks(folder, device)
            yield from self._sensors(folder, device)

    def _shares(self, folder: Path, device: str) -> Iterator[Column]:
        for name, file in (("gpu_util", "gpu_busy_percent"), ("mem_util", "mem_busy_percent")):
            yield Column(Resource(name, device, "%", 100.0, counter=False), folder / file, number, FAST_S)
        total = self._peak(folder / "mem_info_vram_total", number)
        used = Resource("gpu_memory", device, "By", total, counter=False)
        yield Column(used, folder / "mem_info_vram_used", number, SELDOM_S)

    def _clocks(self, folder: Path, device: str) -> Iterator[Column]:
        for file, name in CLOCKS.items():
            path = folder / f"pp_dpm_{file}"
            resource = Resource(name, device, "MHz", self._peak(path, most_mhz), counter=False)
            yield Column(resource, path, current_mhz, FAST_S)

    def _sensors(self, folder: Path, device: str) -> Iterator[Column]:
        for sensor in names(folder / "hwmon")[:1]:
            inside = folder / "hwmon" / sensor
            # Which of the two there is depends on the GPU.
            power = "power1_average" if (inside / "power1_average").exists() else "power1_input"
            limit = self._peak(inside / "power1_cap", _millionth)
            yield Column(Resource("power", device, "W", limit, counter=False), inside / power, _millionth, FAST_S)
            temperature = Resource("temperature", device, "Cel", math.nan, counter=False)
            yield Column(temperature, inside / "temp1_input", _thousandth, SELDOM_S)

    def _peak(self, path: Path, take: Callable[[bytes], float]) -> float:
        try:
            return take(text_of(path).encode())
        except (ValueError, LookupError):
            return math.nan
