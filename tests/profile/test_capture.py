"""One window with real torch: modes, files, the training's own profiler, a full disk."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eroica_otel.errors import CaptureError
from eroica_otel.model import Capture, Window
from eroica_otel.profile import samples
from eroica_otel.profile.bell import Bell
from eroica_otel.profile.capture import Readings, WindowCapture, affordable_iterations, realtime_offset_ns
from eroica_otel.profile.kineto import TorchProfiler, UserProfiler
from factories_worker import identity

WINDOW = Window(1_764_430_000, "manual", 40, 43)


def train(iterations: int = 1) -> None:
    """Run operators that every trace must hold: each iteration has one matrix product."""
    for _ in range(iterations):
        torch.ones(8, 8) @ torch.ones(8, 8)


def readings() -> Readings:
    return Readings(1000, {})


class Job:
    """What the trainer holds: the look at the user's profiler, and the window that runs."""

    def __init__(self, folder: Path, mode: str = "light", read: Callable[[], Readings] = readings) -> None:
        self.user = UserProfiler(torch, self.give_way)
        self.profiler = None if mode == "stacks" else TorchProfiler(torch, mode, self.user)
        self.folder = folder / "window-1"
        self.capture = WindowCapture(WINDOW, identity(), self.folder, self.profiler, 1000.0, None, read)

    def give_way(self) -> None:
        self.capture.abort("it goes first")

    def run(self, iterations: int = 3) -> Capture:
        self.capture.start(41)
        for _ in range(iterations):
            train()
            time.sleep(0.02)
            self.capture.border()
        return self.capture.stop({"signature": "s"})

    def close(self) -> None:
        self.capture.abort("the test ends")
        self.user.close()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _torch_as_before() -> Iterator[None]:
    owner: Any = torch.autograd.profiler.profile
    before = owner._prepare_trace, owner._start_trace
    yield
    assert (owner._prepare_trace, owner._start_trace) == before
    assert not torch._C._autograd._profiler_enabled()


def events(done: Capture) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(done.trace).read_text())["traceEvents"]
    return [event for event in found if event.get("ph") == "X"]


@pytest.mark.parametrize("mode", ["light", "exact"])
def test_the_trace_holds_what_ran_inside_and_nothing_else(mode: str, tmp_path: Path) -> None:
    job = Job(tmp_path, mode)
    try:
        train(5)
        done = job.run(3)
        train(5)
    finally:
        job.close()
    assert len([event for event in events(done) if event["name"] == "aten::mm"]) == 3
    python = [event for event in events(done) if event.get("cat") == "python_function"]
    assert bool(python) == (mode == "exact")


def test_stacks_alone_take_no_trace(tmp_path: Path) -> None:
    job = Job(tmp_path, "stacks")
    try:
        done = job.run()
    finally:
        job.close()
    assert done.trace == ""
    assert len(done.stack_ns) > 0
    assert {path.name for path in job.folder.iterdir()} == {samples.ARRAYS, samples.META}


def test_borders_begin_with_the_start_and_end_with_the_end_and_samples_lie_between(job: Job) -> None:
    done = job.run(3)
    assert len(done.iteration_ns) == 4
    assert (done.start_ns, done.end_ns) == (done.iteration_ns[0], done.iteration_ns[-1])
    assert (np.diff(done.iteration_ns) >= 20_000_000).all()
    assert done.stack_ns.size == done.stack_ids.size == done.cpu_ns.size > 10
    assert done.start_ns <= done.stack_ns[0]
    assert done.stack_ns[-1] <= done.end_ns
    # A rank that comes late says where it really began.
    assert done.window == Window(1_764_430_000, "manual", 41, 43)


def test_the_trace_lies_on_the_clock_of_the_samples(job: Job) -> None:
    done = job.run(3)
    base = json.loads(Path(done.trace).read_text()).get("baseTimeNanoseconds", 0)
    products = [event for event in events(done) if event["name"] == "aten::mm"]
    for number, event in enumerate(products):
        begin = base + round(event["ts"] * 1000) - done.realtime_offset_ns[0]
        assert done.iteration_ns[number] - 1_000_000 <= begin <= done.iteration_ns[number + 1] + 1_000_000


def test_what_was_captured_is_what_the_helper_reads(job: Job) -> None:
    done = job.run()
    read = samples.read(job.folder)
    assert (read.window, read.identity, read.signature) == (done.window, done.identity, "s")
    assert read.blocked_seconds == done.blocked_seconds > 0
    assert read.run_delay_ratio == 0.0
    assert read.throttled_ratio is None
    assert read.training_thread == threading.get_native_id()


def test_the_cgroup_that_was_throttled_in_the_window_counts_and_not_the_one_that_was_before(tmp_path: Path) -> None:
    """The job's was throttled for an hour before; the step's, made since, counts; one that is gone tells nothing."""
    before, after = {"/job": 3600 * 10**9, "/job/step": 0, "/gone": 0}, {"/job": 3600 * 10**9, "/job/step": 30 * 10**6}
    borders = iter([Readings(0, before), Readings(0, after)])
    job = Job(tmp_path, "stacks", lambda: next(borders))
    try:
        done = job.run(3)
    finally:
        job.close()
    assert done.throttled_ratio == pytest.approx(30e6 / (done.end_ns - done.start_ns))


def test_nobody_else_may_read_a_window(job: Job) -> None:
    before = os.umask(0)
    try:
        job.run()
    finally:
        os.umask(before)
    assert stat.S_IMODE(job.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((job.folder / samples.TRACE).stat().st_mode) == 0o600


def test_a_window_that_is_given_up_leaves_nothing_running(job: Job) -> None:
    job.capture.start(41)
    train()
    job.capture.abort("training ended inside the window")
    assert job.capture.failure == "training ended inside the window"
    assert not torch._C._autograd._profiler_enabled()
    assert not [thread for thread in threading.enumerate() if thread.name == "eroica-sampler"]
    assert not (job.folder / samples.META).exists()
    job.capture.abort("again")
    assert job.capture.failure == "training ended inside the window"


def test_a_folder_that_cannot_be_made_starts_nothing(job: Job) -> None:
    job.folder.parent.joinpath("window-1").write_text("in the way")
    with pytest.raises(FileExistsError):
        job.capture.start(41)
    assert not torch._C._autograd._profiler_enabled()


def test_a_sampler_that_cannot_start_leaves_no_profiler_running(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(job.capture._sampler, "start", refuse)
    with pytest.raises(CaptureError, match="can't start new thread"):
        job.capture.start(41)
    assert not torch._C._autograd._profiler_enabled()


def test_the_own_profiler_of_the_training_goes_first(job: Job) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        with pytest.raises(CaptureError, match="the training's own profiler is running"):
            job.capture.start(41)
        train(3)
    assert products(theirs) == 3


def test_when_the_training_starts_its_own_inside_a_window_ours_gives_way_and_theirs_works(job: Job) -> None:
    job.capture.start(41)
    train()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        train(3)
    assert job.capture.failure == "it goes first"
    assert products(theirs) == 3


def scheduled() -> torch.profiler.profile:
    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=1, warmup=2, active=2, repeat=1),
    )


def products(theirs: torch.profiler.profile) -> int:
    return sum(event.name == "aten::mm" for event in theirs.events())  # type: ignore[no-untyped-call]


def begins(job: Job) -> bool:
    """Start a window while a session is prepared that nobody has seen; torch 2.4 refuses, later ones do not."""
    with contextlib.suppress(CaptureError):
        job.capture.start(41)
        return True
    return False


def test_no_window_begins_while_a_schedule_of_the_training_warms_up(job: Job) -> None:
    with scheduled() as theirs:
        for step in range(6):
            if step == 2:
                with pytest.raises(CaptureError):
                    job.capture.start(41)
            train()
            theirs.step()
    assert products(theirs) == 2


def test_a_schedule_that_warmed_up_before_we_looked_still_gets_its_profile(tmp_path: Path) -> None:
    """torch 2.13 ends the process with a fault in C when a session comes between preparing and starting another."""
    job, begun = None, False
    with scheduled() as theirs:
        for step in range(6):
            if step == 2:
                job = Job(tmp_path)
                begun = begins(job)
            train()
            theirs.step()
    assert job is not None
    job.close()
    assert job.capture.failure == ("it goes first" if begun else "")
    assert products(theirs) == 2


def test_a_window_between_warm_up_and_start_of_a_schedule_does_no_harm_either(tmp_path: Path) -> None:
    job: Job | None = None
    with scheduled() as theirs:
        for step in range(6):
            if step == 2:
                job = Job(tmp_path)
                if begins(job):
                    job.capture.border()
                    job.capture.stop({"signature": "s"})
            train()
            theirs.step()
    assert job is not None
    job.close()
    assert products(theirs) == 2


def test_another_thread_is_not_taken_for_the_one_that_started(job: Job) -> None:
    job.capture.start(41)
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(job.capture.here))
    thread.start()
    thread.join()
    assert seen == [False]
    assert job.capture.here


FULL_DISK = """
import resource, sys
from pathlib import Path
import torch
sys.path[:0] = sys.argv[2].split(":")
from test_capture import Job, train
from eroica_otel.errors import CaptureError
for limit in (0, 4096, 1_000_000):
    folder = Path(sys.argv[1]) / str(limit)
    folder.mkdir()
    job = Job(folder)
    job.capture.start(41)
    train(2000)
    job.capture.border()
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
    try:
        job.capture.stop({})
    except (CaptureError, OSError) as error:
        print(type(error).__name__, error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    job.close()
train()
print("training goes on")
"""


def test_a_full_disk_is_an_error_with_a_remedy_and_training_goes_on(tmp_path: Path) -> None:
    paths = ":".join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), paths], capture_output=True, text=True, check=True
    )
    *said, last = done.stdout.splitlines()
    assert [text.split(" the trace could not be written to ")[0] for text in said] == ["CaptureError"] * 3
    assert all(text.endswith("is the disk full? EROICA_DIR moves it") for text in said)
    assert last == "training goes on"


@pytest.mark.parametrize(
    ("rate", "budget", "memory", "disk", "iterations"),
    [
        (1000.0, 1_000_000, None, None, 1000),
        (1000.0, 1_000_000, 44_000_000, None, 10),  # 44 MB: half for 2.2 KB each = 10,000 events
        (1000.0, 1_000_000, 10**12, 6_000_000, 10),  # 6 MB: half for 0.3 KB each
        (1000.0, 1_000_000, 0, 10**12, 0),
        (2e6, 1_000_000, None, None, 0),
        (0.0, 1_000_000, 0, 0, 1_000_000),  # nothing is traced
    ],
)
def test_how_many_iterations_fit(
    rate: float, budget: int, memory: int | None, disk: int | None, iterations: int
) -> None:
    assert affordable_iterations(rate, budget, memory, disk) == iterations


def test_the_offset_between_the_clocks_is_theirs() -> None:
    assert abs(realtime_offset_ns() - (time.time_ns() - time.perf_counter_ns())) < 50_000_000


@pytest.mark.parametrize("end", ["stop", "abort"])
def test_the_loaders_processes_are_awake_for_as_long_as_the_window_runs(end: str, tmp_path: Path) -> None:
    bell = Bell(tmp_path / "loaders", create=True)
    capture = WindowCapture(WINDOW, identity(), tmp_path / "window-1", None, 500.0, None, readings, bell)
    assert bell.word == 0
    capture.start(41)
    assert (bell.word, bell.window) == (1, (WINDOW.id, 500.0))
    capture.border()
    capture.stop({}) if end == "stop" else capture.abort("it goes first")
    assert bell.word == 2
