"""An object with the NVML calls that gives the recorded answers of tests/factories_nvml.py at the least possible cost.

Each answer is made once and remembered, so that what is measured around it is ours; ``latency`` is added to every call
as time on the core, which stands for a driver's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from factories_nvml import Gpu, NVMLError, Recorded

PCIE_TX, PCIE_RX, NVLINK_TX, NVLINK_RX = 197, 198, 138, 139
GPM_METRICS = (1, 2, 3, 5, 10, 20, 21, 60, 61)
CHANGING = frozenset({"nvmlInit", "nvmlShutdown", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree"})


def h200(number: int) -> Gpu:
    """Return a GPU of an 8-GPU node; what nvidia-smi does not print of it, its byte counters, is made up."""
    gpu = Gpu("h200", f"GPU-{number:08d}-0000-0000-0000-000000000000")
    gpu.fields = {PCIE_TX: 1000, PCIE_RX: 2000, NVLINK_TX: 3, NVLINK_RX: 4}
    return gpu


class Remembered:
    """The library with its answers remembered by call and arguments."""

    NVMLError = NVMLError
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, gpus: int, latency: float = 0.0) -> None:
        """``latency`` is seconds of CPU that each call takes besides."""
        self._recorded = Recorded(*map(h200, range(gpus)))
        self._recorded.gpm = dict.fromkeys(GPM_METRICS, 50.0)
        self._latency = latency
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        original = getattr(self._recorded, name)
        if name in CHANGING or not name.startswith("nvml"):
            return original
        made = self._gpm(original) if "Gpm" in name else self._remembering(original)
        setattr(self, name, made)
        return made

    def _spent(self) -> None:
        self.calls += 1
        if self._latency:
            until = time.perf_counter() + self._latency
            while time.perf_counter() < until:
                pass

    def _gpm(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Samples are changed by the calls, so nothing is remembered; these answers cost little."""

        def call(*arguments: Any) -> Any:
            self._spent()
            return original(*arguments)

        return call

    def _remembering(self, original: Callable[..., Any]) -> Callable[..., Any]:
        answers: dict[tuple[Any, ...], Any] = {}

        def call(*arguments: Any) -> Any:
            self._spent()
            key = tuple(tuple(each) if isinstance(each, list) else each for each in arguments)
            try:
                return answers[key]
            except KeyError:
                answers[key] = answer = original(*arguments)
                return answer

        return call
