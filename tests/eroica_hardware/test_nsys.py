"""Source nsys, with an `nsys` on the path that is a script of ours: it writes exports as the documentation has them."""

from __future__ import annotations

import os
import shlex
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from eroica_hardware import nsysexport
from eroica_hardware.deadlines import SECOND
from eroica_hardware.nsys import HELD, NO_UUID, NsysSampler, NsysSource, command
from eroica_hardware.rings import KeptRing
from eroica_otel.errors import HardwareError
from eroica_otel.hardware.ringreader import Samples, open_ring
from eroica_otel.hardware.shared import open_folder
from factories_nsight import Table, export

UUIDS = ("11111111-2222-3333-4444-555555555555", "GPU-99999999-2222-3333-4444-555555555555")
NAMES = ("SMs Active [Throughput %]", "DRAM Read Bandwidth [Throughput %]", "DRAM Write Bandwidth [Throughput %]")
BEGAN = 1_779_000_000 * SECOND
MS = 1_000_000
METRIC = "typeId, metricId, metricName"


def tables(milliseconds: int = 100, hertz: int = 10_000, began: int = BEGAN, gpus: int = 2) -> dict[str, Table]:
    """Two GPUs: SMs 50 % on the first, 90 % on the second; memory reads 30 % and writes 20 %."""
    kinds = [(5 << 8) | gpu for gpu in range(gpus)]
    step = SECOND // hertz
    rows = [
        (time_, kind, metric, (50 + 40 * (kind & 1), 30, 20)[metric])
        for time_ in range(0, milliseconds * MS, step)
        for kind in kinds
        for metric in range(len(NAMES))
    ]
    return {
        "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", [(began,)]),
        "TARGET_INFO_GPU": ("id, pwGpuId, uuid", [(gpu, gpu, UUIDS[gpu]) for gpu in range(gpus)]),
        "TARGET_INFO_GPU_METRICS": (METRIC, [(kind, *each) for kind in kinds for each in enumerate(NAMES)]),
        "GPU_METRICS": ("timestamp, typeId, metricId, value", rows),
    }  # fmt: skip


def read(path: Path, most: int = 1 << 17) -> nsysexport.Export:
    return nsysexport.read(path, lambda resources: most)


def test_every_sample_of_every_gpu_by_its_uuid(tmp_path: Path) -> None:
    found = read(export(tmp_path / "a.sqlite", tables()))
    assert [(one.name, one.device) for one in found.resources] == [
        ("sm", f"GPU-{UUIDS[0]}"), ("dram", f"GPU-{UUIDS[0]}"), ("sm", UUIDS[1]), ("dram", UUIDS[1])
    ]  # fmt: skip
    assert {(one.unit, one.peak) for one in found.resources} == {("%", 100.0)}
    assert len(found.times) == 1000
    assert np.all(np.diff(found.times) > 0)
    assert BEGAN <= found.times[0] < found.times[-1] < BEGAN + 100 * MS
    assert np.all(found.values == [50, 30 + 20, 90, 30 + 20])


def test_more_samples_than_rows_become_means_of_equal_stretches(tmp_path: Path) -> None:
    made = tables()
    columns, rows = made["GPU_METRICS"]
    # In the second half the first GPU stands still.
    late = [(when, kind, metric, 0 if when >= 50 * MS else value) for when, kind, metric, value in rows]  # type: ignore[operator]
    found = read(export(tmp_path / "a.sqlite", made | {"GPU_METRICS": (columns, late)}), most=10)
    assert found.values[:, 0].tolist() == [50] * 5 + [0] * 5
    assert np.diff(found.times) == pytest.approx(10 * MS, rel=0.01)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"GPU_METRICS": None}, "no samples of a GPU"),
        ({"GPU_METRICS": ("timestamp, typeId, metricId, value", [])}, "no samples of a GPU"),
        ({"GPU_METRICS": ("typeId, metricId, value", [])}, "no samples of a GPU"),
        ({"TARGET_INFO_GPU_METRICS": None}, "no metrics of a GPU that are known"),
        ({"TARGET_INFO_GPU_METRICS": ("typeId, metricId, metricName", [(1, 1, "GR Something")])}, "no metrics"),
        ({"TARGET_INFO_SESSION_START_TIME": None}, "does not tell when it began"),
    ],
)
def test_tables_that_are_missing(change: dict[str, Table | None], complaint: str, tmp_path: Path) -> None:
    made = {name: table for name, table in (tables() | change).items() if table is not None}
    with pytest.raises(HardwareError, match=complaint):
        read(export(tmp_path / "a.sqlite", made))


def test_without_uuids_a_gpu_has_its_number(tmp_path: Path) -> None:
    made = {name: table for name, table in tables(gpus=1).items() if name != "TARGET_INFO_GPU"}
    assert {one.device for one in read(export(tmp_path / "a.sqlite", made)).resources} == {"gpu 0"}


def test_names_of_older_versions_and_only_raw_times(tmp_path: Path) -> None:
    kind = 5 << 8
    made = tables(gpus=1) | {
        "TARGET_INFO_GPU_METRICS": (METRIC, [(kind, 0, "SM Active"), (kind, 1, "Tensor Active")]),
        "GPU_METRICS": (
            "rawTimestamp, typeId, metricId, value",
            [(1, kind, 0, 60), (1, kind, 1, 25), (2, kind, 0, 70)],
        ),
    }  # fmt: skip
    found = read(export(tmp_path / "a.sqlite", made))
    assert [one.name for one in found.resources] == ["sm", "tensor"]
    assert found.values[0].tolist() == [60, 25]
    assert found.values[1, 0] == 70
    assert np.isnan(found.values[1, 1])


def test_what_is_no_export(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all, and long enough to be looked at as one")
    for path in (tmp_path / "text", tmp_path / "missing"):
        with pytest.raises(HardwareError, match="cannot be read"):
            read(path)


FAKE = """#!{python}
import os, pathlib, shutil, subprocess, sys
words = sys.argv[1:]
with open({log!r}, "a") as file:
    file.write(" ".join(words) + "\\n")
output = next(word for word in words if word.startswith("--output=")).partition("=")[2]
subprocess.run(words[words.index("sleep"):])
shutil.copy({made!r}, output + ".sqlite")
{more}
"""


class Scene:
    """A sampler in a folder, and what stands for nsys; ``go`` lets real time pass."""

    def __init__(self, path: Path) -> None:
        self.path, self.bin = path, path / "bin"
        self.bin.mkdir()
        (path / "shared").mkdir()
        self.folder = open_folder(path / "shared")
        self.until = 0
        self.dcgm: Callable[[], str] = self._no_exporter
        self.source = NsysSource(lambda: self.dcgm(), str(self.bin / "nsys"))
        self.sampler = NsysSampler(
            self.source, KeptRing(self.folder, "nsys", 1 << 17), lambda: self.until, least_seconds=0.3
        )
        self.log = path / "log"

    def install(self, more: str = "", made: dict[str, Table] | None = None) -> None:
        """Put an nsys there whose export begins now."""
        began = time.time_ns()
        made_at = export(self.path / f"made-{began}.sqlite", made or tables(300, 1000, began))
        program = self.bin / "nsys"
        program.write_text(FAKE.format(python=sys.executable, log=str(self.log), made=str(made_at), more=more))
        program.chmod(0o755)

    def window(self, seconds: float = 0.6) -> None:
        self.until = time.monotonic_ns() + round(seconds * SECOND)

    def go(self, done: Callable[[], bool]) -> None:
        """Tick until ``done``."""
        end = time.monotonic() + 60
        while not done():
            assert time.monotonic() < end, (self.source.missing, self.source.failed)
            self.sampler.tick()
            time.sleep(0.05)

    def samples(self) -> Samples:
        ring = open_ring(self.folder, "nsys.ring")
        try:
            return ring.read(0, time.monotonic_ns())
        finally:
            ring.close()

    def close(self) -> None:
        self.sampler.close()
        self.sampler.ring.close()
        os.close(self.folder)

    def _no_exporter(self) -> str:
        raise OSError("nobody listens")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def test_a_window_becomes_samples_at_the_times_at_which_they_were_taken(scene: Scene) -> None:
    scene.install()
    scene.window()
    began = time.monotonic_ns()
    scene.go(lambda: scene.sampler.samples > 0)
    samples = scene.samples()
    assert len(samples.times) == scene.sampler.samples == 300
    assert abs(samples.times[0] - began) < SECOND
    assert samples.times[-1] - samples.times[0] == pytest.approx(299 * MS, abs=MS)
    assert np.all(samples.values == [50, 50, 90, 50])
    assert scene.source.missing == {}
    (said,) = scene.log.read_text().splitlines()
    assert "--gpu-metrics-devices=all --gpu-metrics-frequency=10000" in said
    assert not list(Path(os.environ.get("TMPDIR", "/tmp")).glob(f"eroica-nsys-*/{scene.path.name}"))


def test_gpus_that_the_export_does_not_name_are_said(scene: Scene) -> None:
    """Their number is nsys' own: to take it for NVML's could give a rank the samples of another."""
    now = time.time_ns()
    scene.install(made={name: rows for name, rows in tables(300, 1000, now).items() if name != "TARGET_INFO_GPU"})
    scene.window()
    scene.go(lambda: scene.sampler.samples > 0)
    scene.source.look()
    assert set(scene.source.missing.values()) == {NO_UUID}
    assert scene.source.missing.keys() == {one.device for one in scene.source.resources}


def test_without_a_window_and_without_nsys_nothing_is_started(scene: Scene) -> None:
    scene.sampler.tick()
    assert scene.source.missing == {"nsys": "Nsight Systems (nsys) is not installed, or not on PATH"}
    scene.window()
    scene.sampler.tick()
    scene.install()
    scene.until = 0
    scene.sampler.tick()
    assert not scene.log.exists()


def test_while_dcgm_holds_the_counters_it_is_refused_with_the_reason(scene: Scene) -> None:
    scene.install()
    asked: list[int] = []

    def held() -> str:
        asked.append(1)
        return 'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a"} 0.5\n'

    scene.dcgm = held
    scene.window(60)
    for _ in range(5):
        scene.sampler.tick()
    assert scene.source.missing == {"nsys": HELD}
    assert len(asked) == 2  # at the look and for the window, not at each tick
    # Blank values and fields that need no lock do not count.
    scene.dcgm = lambda: (
        'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a"} 9223372036854775794\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 50\n'
    )
    assert scene.source.ready()


@pytest.mark.parametrize(
    ("more", "made", "complaint"),
    [
        ("print('ERR_NVGPUCTRPERM: insufficient privilege'); sys.exit(4)", None, "4: ERR_NVGPUCTRPERM: insufficient"),
        ("os.unlink(output + '.sqlite')", None, "nsys ended with 0: nothing said"),
        ("", tables(began=BEGAN), "the times in the export are not those of the window"),
        ("pathlib.Path(output + '.sqlite').write_bytes(b'x' * 5000)", None, "cannot be read"),
    ],
)
def test_a_session_that_gives_nothing_is_told_and_the_sampler_goes_on(
    more: str, made: dict[str, Table] | None, complaint: str, scene: Scene
) -> None:
    scene.install(more, made)
    scene.window()
    scene.go(lambda: scene.source.failed != "")
    assert complaint in scene.source.failed
    scene.source.look()
    assert complaint in scene.source.missing["session"]
    assert scene.sampler.failures["source"] == 1
    assert scene.sampler.samples == 0


def test_the_end_of_the_agent_ends_nsys(scene: Scene) -> None:
    scene.install()
    scene.window(60)
    scene.go(scene.log.exists)
    scene.close()
    scene.folder = open_folder(scene.path)
    left = subprocess.run(["pgrep", "-f", shlex.quote(str(scene.bin / "nsys"))], capture_output=True, check=False)
    assert left.stdout == b""


def test_the_command_is_one_that_asks_for_gpu_metrics_and_nothing_else() -> None:
    words = command("nsys", Path("/a/out"), 20, 200)
    assert words[words.index("nsys") + 1] == "profile"
    assert {"--trace=none", "--sample=none", "--cpuctxsw=none", "--gpu-metrics-frequency=200"} <= set(words)
    assert words[-2:] == ["sleep", "20.0"]


def test_sqlite_is_opened_for_reading_only(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite", tables(1))
    before = path.read_bytes()
    read(path)
    assert path.read_bytes() == before
    assert sqlite3.connect(path).execute("SELECT count(*) FROM GPU_METRICS").fetchone() == (60,)
