"""The GPU check cannot run here; that its script still fits the code can."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import torch

BENCH = Path(__file__).parents[2] / "bench"


def test_without_a_gpu_the_check_says_so_and_fails() -> None:
    if torch.cuda.is_available():  # then the check itself is the test
        done = subprocess.run(["bash", str(BENCH / "gpu_check.sh"), sys.executable], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    done = subprocess.run(["bash", str(BENCH / "gpu_check.sh"), sys.executable], capture_output=True, text=True)
    assert done.returncode == 3
    assert "sees no CUDA device; nothing was measured" in done.stderr


def test_a_window_of_the_check_runs_on_the_cpu_and_counts_no_kernel() -> None:
    command = [str(BENCH / "window_cost.py"), "--mode", "light", "--device", "cpu", "--iterations", "5"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["kernels"] == 0
    assert figures["events"] > 0
    assert figures["blocked_seconds"] > 0
