"""The helper: reads what a worker left, summarises, exports, and ends with its worker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from eroica_otel import names
from eroica_otel.config import WorkerConfig
from eroica_otel.demo.stage import free_port
from eroica_otel.export.handed import read
from eroica_otel.export.outlet import Outlet
from eroica_otel.hardware.hostuse import HostUse
from eroica_otel.helper import Helper
from eroica_otel.model import Window
from eroica_otel.outside import Stops
from eroica_otel.profile import samples
from eroica_otel.spawn import CONFIG_FILE
from eroica_otel.status import POINTS_FILE, STATUS_FILE, StatusWriter
from factories_rings import GPU, MS, every, leave, resource
from factories_summarize import Row, write_kineto
from factories_worker import Endpoint, capture, status
from jobs import scrape, value

WINDOW = 1_764_430_000


class Beside:
    """A worker's folder, its status, and the helper that looks at it from the same process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, own: bool = False, **variables: str) -> None:
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        self.folder = folder / "workers" / "7"
        self.folder.mkdir(parents=True)
        config = WorkerConfig.from_env({}, hold_seconds=1)
        config = config.with_own_provider() if own else config
        (self.folder / CONFIG_FILE).write_text(json.dumps(asdict(config)))
        self.writer = StatusWriter(self.folder / STATUS_FILE)
        self.helper = Helper(self.folder, dict(os.environ))
        self.port = int(variables.get("OTEL_EXPORTER_PROMETHEUS_PORT", "0"))

    def write(self, rows: list[tuple[float, float]] | None = None, **changes: Any) -> None:
        self.writer.write(status(pid=os.getpid(), **changes), rows or [])

    def capture(self, id: int = WINDOW, **changes: Any) -> Path:
        folder = self.folder / f"window-{id}"
        folder.mkdir()
        samples.write(folder, capture(window=Window(id, "manual", 10, 12), **changes))
        return folder

    def value(self, metric: names.Metric, **labels: str) -> float:
        return value(scrape(self.port), metric.name, **labels)

    def shown(self) -> set[str]:
        return {point.name for point in scrape(self.port)}


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("OTEL_", "EROICA_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Beside]:
    made = Beside(
        tmp_path, monkeypatch, OTEL_METRICS_EXPORTER="prometheus", OTEL_EXPORTER_PROMETHEUS_HOST="127.0.0.1",
        OTEL_EXPORTER_PROMETHEUS_PORT=str(free_port()),
    )  # fmt: skip
    yield made
    made.helper.close()


def test_nothing_is_opened_before_the_worker_says_who_it_is(beside: Beside) -> None:
    beside.helper.tick()
    assert scrape(beside.port) == []
    beside.write()
    beside.helper.tick()
    assert beside.value(names.ITERATIONS) == 600


def test_a_loop_without_any_update_is_exported_too(beside: Beside) -> None:
    beside.write(state="unmatched", last_update_seconds=None)
    beside.helper.tick()
    assert beside.value(names.WORKER_STATE, state="unmatched") == 1


def test_with_a_meter_provider_of_the_trainings_all_is_handed_back_and_nothing_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = str(free_port())
    address = {"OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1", "OTEL_EXPORTER_PROMETHEUS_PORT": port}
    made = Beside(tmp_path, monkeypatch, own=True, OTEL_METRICS_EXPORTER="prometheus,otlp", **address)
    made.write([(0.1, 0.2)], windows={})
    made.helper.tick()
    made.capture()
    made.helper.tick()
    handed = read(made.folder / POINTS_FILE)
    assert handed is not None
    shown = list(handed.points)
    assert value(shown, names.WINDOW_ID.name, reason="manual") == WINDOW
    assert value(shown, names.WINDOWS.name, reason="manual", outcome="sent") == 1
    assert value(shown, names.ITERATIONS.name) == 600
    assert names.DELIVERIES.name not in {point.name for point in shown}
    assert scrape(made.port) == []
    made.helper.close()
    assert not made.folder.exists()


def test_iterations_go_into_the_histograms_once(beside: Beside) -> None:
    beside.write([(0.1, 0.2), (float("nan"), 0.3)])
    for _ in range(3):
        beside.helper.tick()
    points = scrape(beside.port)
    assert value(points, names.ITERATION_DURATION.name + "_count") == 1
    assert value(points, names.ITERATION_PERIOD.name + "_sum") == pytest.approx(0.5)


def test_a_capture_becomes_patterns_and_is_deleted(beside: Beside) -> None:
    beside.write(windows={})
    beside.helper.tick()
    folder = beside.capture()
    beside.helper.tick()
    assert not folder.exists()
    assert beside.value(names.WINDOW_ID, reason="manual") == WINDOW
    assert beside.value(names.WINDOWS, reason="manual", outcome="sent") == 1
    # Half of the samples see augment, and nothing else is known of that second.
    assert beside.value(names.PATTERN_BETA, kind="python", family="other") == pytest.approx(1.0, abs=0.02)
    assert sum(point.value for point in scrape(beside.port) if point.name == names.KIND_BETA.name) == pytest.approx(1)


def test_what_the_process_did_in_the_window_is_seen_from_outside(beside: Beside) -> None:
    seen = capture()
    now = [seen.start_ns]
    beside.helper._host = HostUse(os.getpid(), clock=lambda: now[0])
    beside.write(activity="profiling iterations 10 to 12 (manual)")
    for _ in range(5):
        beside.helper.tick()
        now[0] += (seen.end_ns - seen.start_ns) // 4
    beside.capture()
    beside.helper.tick()
    assert 0 <= beside.value(names.WINDOW_HOST_RATIO, resource="process_cpu") <= 1
    assert beside.value(names.WINDOW_HOST_RATE, resource="minor_faults") >= 0


def private_kib() -> int:
    found = re.search(r"Private_Dirty: +(\d+) kB", Path("/proc/self/smaps_rollup").read_text())
    assert found is not None
    return int(found[1])


def test_memory_that_a_summary_has_freed_goes_back_to_the_system(beside: Beside) -> None:
    beside.write()
    beside.helper.tick()
    # What a summary leaves: blocks of the C library (above Python's 512 bytes), freed below one that stays.
    blocks = [bytes([number % 256]) * 2000 for number in range(50_000)]
    top = blocks[-1]
    blocks.clear()
    before = private_kib()
    beside.capture()
    beside.helper.tick()
    assert before - private_kib() > 80 * 1024  # of 50,000 x 2,000 B = 95 MiB
    assert len(top) == 2000


def test_a_capture_that_is_not_complete_is_left_alone(beside: Beside) -> None:
    beside.write()
    folder = beside.folder / "window-5"
    folder.mkdir()
    (folder / samples.ARRAYS).write_bytes(b"being written")
    probe = beside.folder / "probe"
    probe.mkdir()
    samples.write(probe, capture(window=Window(0, "probe", 1, 3)))
    beside.helper.tick()
    assert folder.exists()
    assert probe.exists()
    assert beside.value(names.FAILURES, stage="summarize") == 0


@pytest.mark.parametrize("kind", ["arrays", "trace", "indices"])
def test_a_broken_capture_is_counted_said_and_deleted_and_the_next_one_works(
    kind: str, beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    beside.write(windows={}, failures={})
    beside.helper.tick()
    folder = beside.capture(trace=str(beside.folder / "window-1" / "trace.json")) if kind == "trace" else (
        beside.capture(stacks=()) if kind == "indices" else beside.capture()
    )  # fmt: skip
    if kind == "arrays":
        (folder / samples.ARRAYS).write_bytes(b"PK\x03\x04 cut short")
    beside.helper.tick()
    assert not folder.exists()
    beside.helper._refresh()
    points = scrape(beside.port)
    assert value(points, names.FAILURES.name, stage="summarize") == 1
    assert value(points, names.WINDOWS.name, outcome="failed") == 1
    assert names.PATTERN_BETA.name not in {point.name for point in points}
    assert f"window-{WINDOW} could not be summarised" in caplog.text
    beside.capture(WINDOW + 1)
    beside.helper.tick()
    assert beside.value(names.WINDOW_ID) == WINDOW + 1


def test_a_trace_that_no_file_takes_is_summarised_in_memory_counted_and_said(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(**arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("eroica_otel.summarize.spill.HELD_BYTES", 0)
    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    beside.write(windows={}, failures={})
    beside.helper.tick()
    trace = write_kineto(beside.folder / "trace.json", [Row("aten::mm", 0, 500_000_000)])
    beside.capture(trace=trace)
    beside.helper.tick()
    beside.helper._refresh()
    assert beside.value(names.WINDOWS, reason="manual", outcome="sent") == 1
    assert beside.value(names.FAILURES, stage="summarize") == 1
    assert "No space left on device; memory is used instead" in caplog.text


def test_once_an_hour_the_folder_is_made_to_look_new(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what cleans /tmp would take the options of the next helper away, and the request for a window."""
    beside.write()
    beside.helper.tick()
    config = beside.folder / CONFIG_FILE
    os.utime(config, (0, 0))
    beside.helper.tick()
    assert config.stat().st_mtime == 0
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3601.0)
    beside.helper.tick()
    assert config.stat().st_mtime > 0


def test_a_window_is_taken_down_after_its_time(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    beside.write()
    beside.helper.tick()
    beside.capture()
    beside.helper.tick()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 0.5)
    beside.helper._refresh()
    assert names.PATTERN_BETA.name in beside.shown()
    monkeypatch.setattr(time, "monotonic", lambda: now + 2.0)
    beside.helper._refresh()
    assert names.PATTERN_BETA.name not in beside.shown()
    assert names.WORKER_STATE.name in beside.shown()


def test_the_latest_window_stays_until_it_was_delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint()
    endpoint.answer = 400
    beside = Beside(tmp_path, monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint.url)
    try:
        beside.write()
        beside.helper.tick()
        beside.capture()
        beside.helper.tick()
        now = time.monotonic()
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", lambda: now + 3600)
            beside.helper._refresh()
        assert beside.helper._board._window, "nobody has got it yet"
        endpoint.answer = 200
        outlet = beside.helper._outlet
        assert isinstance(outlet, Outlet)
        outlet._deliveries[0].push()
        assert "eroica.pattern_beta_ratio" in endpoint.series()
        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", lambda: now + 3600)
            beside.helper._refresh()
        assert not beside.helper._board._window
    finally:
        beside.helper.close()
        endpoint.close()


def test_the_end_delivers_once_more_and_removes_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint()
    beside = Beside(tmp_path, monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint.url)
    try:
        beside.write()
        beside.helper.tick()
        beside.capture()
        beside.write(state="finished", iterations=700)
        beside.helper.close()
        assert "eroica.window_id" in endpoint.series()
        assert not beside.folder.exists()
    finally:
        endpoint.close()


def test_over_is_what_the_worker_says(beside: Beside) -> None:
    beside.write()
    beside.helper.tick()
    seen = [beside.helper.over]
    beside.write(state="finished")
    beside.helper.tick()
    assert [*seen, beside.helper.over] == [False, True]


def test_a_stopped_process_is_timed_from_outside() -> None:
    stops = Stops()
    for state, now in (("R", 0), ("T", 10), ("t", 20), ("S", 30), ("T", 50), (None, 60), ("R", 70)):
        stops.see(state, now * 10**9)
    assert stops.seconds(0, 100 * 10**9) == 30.0
    assert stops.seconds(15 * 10**9, 55 * 10**9) == 15 + 5
    assert stops.seconds(31 * 10**9, 49 * 10**9) == 0.0
    stops.see("T", 80 * 10**9)
    assert stops.now
    assert stops.seconds(0, 100 * 10**9) == 30.0 + 20.0


def process(folder: Path, parent: int | None = None, **variables: str) -> subprocess.Popen[str]:
    """Start a helper as a worker does."""
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | variables
    command = [sys.executable, "-m", "eroica_otel.helper", str(folder), str(parent or os.getpid())]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def folder_of(tmp_path: Path, **changes: Any) -> tuple[Path, StatusWriter]:
    folder = tmp_path / "workers" / "7"
    folder.mkdir(parents=True)
    (folder / CONFIG_FILE).write_text(json.dumps(asdict(WorkerConfig.from_env({}))))
    writer = StatusWriter(folder / STATUS_FILE)
    writer.write(status(pid=os.getpid(), **changes))
    return folder, writer


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def test_it_ends_when_training_has_finished(tmp_path: Path) -> None:
    folder, writer = folder_of(tmp_path)
    running = process(folder, OTEL_METRICS_EXPORTER="none")
    writer.write(status(pid=os.getpid(), state="finished"))
    assert running.wait(20) == 0
    assert not folder.exists()
    running.communicate()


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    folder, _ = folder_of(tmp_path)
    parent = "import subprocess, sys, os, time; subprocess.Popen([sys.executable, '-m', 'eroica_otel.helper', " \
             "sys.argv[1], str(os.getpid())]); time.sleep(1.5); os._exit(9)"  # fmt: skip
    environment = dict(os.environ) | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OTEL_METRICS_EXPORTER": "none",
    }  # fmt: skip
    subprocess.run([sys.executable, "-c", parent, str(folder)], env=environment, check=False)
    wait_for(lambda: not folder.exists())


def test_asked_to_end_it_ends_in_bounded_time_although_nobody_takes_its_series(tmp_path: Path) -> None:
    folder, _ = folder_of(tmp_path)
    nobody = f"http://127.0.0.1:{free_port()}"
    running = process(folder, OTEL_EXPORTER_OTLP_ENDPOINT=nobody, OTEL_EXPORTER_OTLP_TIMEOUT="1")
    assert running.stderr is not None
    # It says once that nobody is there, then it is well inside its loop.
    (folder / "window-9").mkdir()
    samples.write(folder / "window-9", replace(capture(), window=Window(9, "manual", 1, 3)))
    said = running.stderr.readline()
    running.terminate()
    assert running.wait(20) == 0
    assert f"cannot deliver to {nobody} (" in said
    assert said.rstrip().endswith("training is not affected")
    assert not folder.exists()
    running.communicate()


def test_a_window_that_the_endpoint_refuses_when_the_worker_ends_is_tried_again(tmp_path: Path) -> None:
    folder, writer = folder_of(tmp_path)
    with closing(Endpoint()) as endpoint:
        endpoint.answer = 404
        running = process(folder, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint.url, OTEL_EXPORTER_OTLP_TIMEOUT="1")
        assert running.stderr is not None
        (folder / "window-9").mkdir()
        samples.write(folder / "window-9", replace(capture(), window=Window(9, "manual", 1, 3)))
        assert "cannot deliver to" in running.stderr.readline()
        wait_for(lambda: not (folder / "window-9").exists())
        refused = len(endpoint.bodies)
        writer.write(status(pid=os.getpid(), state="finished"))
        wait_for(lambda: len(endpoint.bodies) >= refused + 2)  # the last push, and another try
        assert running.poll() is None
        endpoint.answer = 200
        assert running.wait(20) == 0
        assert "eroica.pattern_beta_ratio" in endpoint.series()
        assert not folder.exists()
        running.communicate()


def test_a_worker_whose_1_hz_thread_stands_still_is_blocked_and_it_is_said_once(
    beside: Beside, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside.write(state="healthy")
    beside.helper.tick()
    assert beside.value(names.WORKER_STATE, state="healthy") == 1
    now = time.perf_counter_ns
    for later in (11, 12, 13):
        monkeypatch.setattr(time, "perf_counter_ns", lambda later=later: now() + later * 10**9)
        beside.helper.tick()
        beside.helper._refresh()
    assert beside.value(names.WORKER_STATE, state="blocked") == 1
    assert beside.value(names.WORKER_STATE, state="healthy") == 0
    assert beside.value(names.FAILURES, stage="monitor") == 1
    assert beside.value(names.ITERATIONS) == 600
    assert [record.getMessage().split(" (process state")[0] for record in caplog.records] == [
        "eroica_otel: rank 0: nothing heard from the training process for 10 s"
    ]
    beside.write(state="healthy")  # by the clock of then
    beside.helper.tick()
    beside.helper._refresh()
    assert beside.value(names.WORKER_STATE, state="healthy") == 1
    assert beside.value(names.FAILURES, stage="monitor") == 1


def test_a_worker_that_has_finished_is_not_unheard(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    beside.write(state="finished")
    beside.helper.tick()
    now = time.perf_counter_ns
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now() + 20 * 10**9)
    beside.helper.tick()
    beside.helper._refresh()
    assert beside.value(names.WORKER_STATE, state="finished") == 1


def test_a_state_that_the_worker_does_not_know_is_not_exported(beside: Beside) -> None:
    beside.write(state="")
    beside.helper.tick()
    assert names.WORKER_STATE.name not in beside.shown()


def test_a_window_of_a_gpu_job_without_a_kernel_is_a_failed_one(
    beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    beside.write(state="healthy")
    beside.capture(gpu=True)
    beside.helper.tick()
    assert "no GPU kernel was captured: does another profiler hold the GPU" in caplog.text
    beside.helper._refresh()
    assert beside.value(names.WINDOWS, reason="manual", outcome="failed") == 1
    assert names.PATTERN_BETA.name not in beside.shown()


def test_a_loaders_process_that_still_writes_is_waited_for_but_not_at_the_end(beside: Beside) -> None:
    beside.write()
    folder = beside.capture()
    (folder / f"loader-{os.getpid()}.jsonl").write_bytes(b"")
    beside.helper.tick()
    assert folder.exists()
    beside.helper.tick(last=True)
    assert not folder.exists()
    assert beside.value(names.WINDOW_ID, reason="manual") == WINDOW


def resources_missing(beside: Beside) -> dict[str, float]:
    points = [point for point in scrape(beside.port) if point.name == names.RESOURCE_MISSING.name]
    return {point.labels["resource"]: point.value for point in points}


def test_a_gpu_jobs_window_has_what_the_agent_sampled_and_the_rest_is_told_once(
    beside: Beside, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = replace(beside.helper._config, hardware_dir=str(tmp_path))
    beside.helper._config = config
    end = time.monotonic_ns() - 1_000 * MS
    start = end - 1_000 * MS
    columns = [resource("sm_clock", unit="MHz", peak=2000.0)]
    rows = every(1, start - 500 * MS, end + 500 * MS, 1500.0)
    states = [resource("throttle_sw_power_cap", unit="1", peak=1.0)]
    leave(tmp_path, "nvml_state", states, every(100, start, end, 1.0), end + 3_500 * MS)
    leave(tmp_path, "nvml", columns, rows, end + 3_500 * MS)  # it lives for some seconds more, however slow this is
    beside.write(gpus=(GPU,), gpu_uuid=GPU, pci_bus_id="0000:83:00.0")
    beside.helper.tick()
    for window in (WINDOW, WINDOW + 1):
        kernels = [Row("ampere_sgemm_128x64_tn", start, end, "kernel", 7)]
        folder = tmp_path / str(window)
        folder.mkdir()
        trace = write_kineto(folder / "t.json", kernels)
        beside.capture(window, start_ns=start, end_ns=end, realtime_offset_ns=(0, 0), gpu=True, trace=trace)
        beside.helper.tick()
    assert beside.value(names.PATTERN_MU, kind="compute", resource="sm_clock") == pytest.approx(0.75)
    assert beside.value(names.WINDOW_HOST_RATIO, resource="gpu_power_cap") == 1
    assert resources_missing(beside) == {
        "cpu": 0, "nic": 0, "loader": 0, "sm_clock": 0, "sm": 1, "dram": 1, "pcie": 1, "nvlink": 1,
    }  # fmt: skip
    assert beside.value(names.WORKER_INFO, gpu_uuid=GPU, pci_bus_id="0000:83:00.0") == 1
    told = [record.getMessage() for record in caplog.records if "not sampled" in record.getMessage()]
    assert told == [
        "eroica_otel: rank 0: not sampled: sm, dram, pcie, nvlink: the node agent does not sample it of " + GPU
    ]


def test_a_job_without_gpus_says_nothing_of_them(beside: Beside) -> None:
    beside.write()
    beside.helper.tick()
    beside.capture()
    beside.helper.tick()
    assert resources_missing(beside) == {"cpu": 0, "nic": 0, "loader": 0}


def test_that_the_loaders_processes_could_not_be_sampled_is_told(beside: Beside) -> None:
    beside.write()
    beside.helper.tick()
    frames = (
        ("torch.utils.data.dataloader", "_MultiProcessingDataLoaderIter._try_get_data", "dataloader.py", 1278),
        ("selectors", "_PollLikeSelector.select", "selectors.py", 402),
    )
    beside.capture(frames=frames, stacks=((0, 1), (0,)))
    beside.helper.tick()
    assert beside.value(names.RESOURCE_MISSING, resource="loader") == 1
