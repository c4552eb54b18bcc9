"""bench/gpu_check.sh, which no machine without a GPU can run: it parses, and its part for the agent's sources runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpu_load import compared, iterations

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = """
import sys
from factories_nvml import Gpu, Recorded
gpu = Gpu("h200", "GPU-a")
gpu.fields = {197: 1000, 198: 2000, 138: 3, 139: 4}
library = Recorded(gpu)
library.gpm = dict.fromkeys((1, 2, 3, 5, 10, 20, 21, 60, 61), 50.0)
library.driver = DRIVER
if CLOCK:
    gpu.said["Clocks", "SM"] = CLOCK
sys.modules["pynvml"] = library
"""


def ran(folder: Path, *words: str, driver: int = 0, clock: str = "") -> subprocess.CompletedProcess[str]:
    """Run the check of the sources on a recorded GPU."""
    (folder / "pynvml.py").write_text(LIBRARY.replace("DRIVER", str(driver)).replace("CLOCK", repr(clock)))
    path = os.pathsep.join(map(str, (folder, ROOT / "tests", ROOT, ROOT / "exporters")))
    return subprocess.run(
        [sys.executable, "-m", "bench.gpu_hardware", "--seconds", "0.5", *words],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_shell_parses() -> None:
    subprocess.run(["bash", "-n", ROOT / "bench" / "gpu_check.sh"], check=True)


def test_without_a_gpu_it_says_so_and_why(tmp_path: Path) -> None:
    done = ran(tmp_path, driver=12)
    assert done.returncode == 3
    assert "missing nvml: nvml shared library not found" in done.stdout
    assert done.stderr == "gpu_hardware: NVML tells of no GPU, see above; nothing was measured\n"


def test_a_recorded_gpu_passes(tmp_path: Path) -> None:
    done = ran(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "gpu_hardware: NVML and GPM are live, mu in [0, 1]"
    # 1,980 MHz is the most that this GPU has; GPM says 50 per cent.
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[4] for line in lines if line[:3] == ["nvml", "GPU-a", "sm_clock"]] == ["1.0000"] * 2
    assert [line[4] for line in lines if line[:3] == ["gpm", "GPU-a", "sm"]] == ["0.5000"] * 2


def test_the_load_tells_what_sampling_does_to_an_iteration(tmp_path: Path) -> None:
    """What stands for a Python with torch prints a time every 20 ms, as the load does."""
    load = tmp_path / "python"
    code = "import time\nwhile True:\n    print(time.monotonic(), flush=True)\n    time.sleep(0.02)"
    load.write_text(f"#!{sys.executable}\n{code}\n")
    load.chmod(0o755)
    done = ran(tmp_path, "--load", str(load))
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("iteration time: "))
    assert "not sampled" in line
    assert "100 Hz" in line
    assert "in a window" in line


def test_iterations_count_where_they_lie_wholly_in_a_stretch() -> None:
    """The first stretch has iterations of 1 s, the second of 2 s; that between the two belongs to none."""
    ends = [0.5, 1.5, 2.5, 4.5, 6.5, 8.5]
    found = iterations(ends, [("not sampled", 0.0, 3.0), ("100 Hz", 4.0, 9.0)])
    assert found == {"not sampled": [1.0, 1.0], "100 Hz": [2.0, 2.0]}
    assert compared(found) == "iteration time: not sampled 1000.00 ms (+-0.00%); 100 Hz +100.00%"
    assert "not measured" in compared(found | {"in a window": []})


def test_a_gpu_that_does_not_tell_its_clock_fails(tmp_path: Path) -> None:
    done = ran(tmp_path, clock="nan MHz")
    assert done.returncode == 1
    assert "missing GPU-a sm_clock" in done.stdout


@pytest.mark.parametrize("name", ["hardware.py", "hardware_agent.py"])
def test_the_benchmark_of_the_agent_explains_itself(name: str) -> None:
    path = os.pathsep.join(map(str, (ROOT / "tests", ROOT, ROOT / "exporters")))
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / name, "--help"], env=os.environ | {"PYTHONPATH": path}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert "100 Hz" in done.stdout or "8 GPUs" in done.stdout
