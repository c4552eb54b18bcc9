"""The thread beside the loop of a DataLoader's process: pickled, dormant, woken, killed, failing. Without torch."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loaderloop
from eroica_otel.model import LoaderSamples
from eroica_otel.profile import loaderfiles, loaders
from eroica_otel.profile.bell import LOADERS_FILE, Bell
from eroica_otel.profile.loaders import ATTRIBUTE, END, Batches, WorkerLoop
from jobs import wait_until

WINDOW = 1_764_430_000
NAME = loaderloop.__name__


class Tasks:
    """A queue of tasks for a loop that runs in this process: calls each item, gives what it returns to the loop."""

    def __init__(self, *items: Any) -> None:
        self.items = list(items)
        self.done: list[Any] = []

    def get(self) -> Any:
        item = self.items.pop(0)
        return item() if callable(item) else item

    def put(self, item: Any) -> None:
        self.done.append(item)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The private folder of the process that this test takes for the training: the parent of the one it runs in."""
    made = tmp_path / f"pid-{os.getppid()}"
    made.mkdir()
    return made


@pytest.fixture
def bell(folder: Path) -> Bell:
    return Bell(folder / LOADERS_FILE, create=True)


def begin(bell: Bell, folder: Path) -> None:
    (folder / f"window-{WINDOW}").mkdir()
    bell.ring(WINDOW, 1000.0)


def files(folder: Path) -> list[Path]:
    return sorted((folder / f"window-{WINDOW}").glob("loader-*.jsonl"))


def wait_for_samples(folder: Path, count: int = 1) -> None:
    wait_until(lambda: len([one for one in files(folder) if one.stat().st_size]) >= count, "samples to be written")


def read(folder: Path) -> LoaderSamples:
    (one,) = loaderfiles.read(folder / f"window-{WINDOW}")
    return one


def functions(one: LoaderSamples) -> set[str]:
    return {one.frames[index][1] for stack in one.stacks for index in stack}


@pytest.fixture(autouse=True)
def _no_listener_stays() -> Iterator[None]:
    """A listener of this process ends with it; the switch interval must be as before."""
    before = sys.getswitchinterval()
    yield
    wait_until(lambda: sys.getswitchinterval() == before, "the switch interval to be put back")


def test_it_is_pickled_by_name_and_finds_the_original_by_name() -> None:
    ours = WorkerLoop(NAME, "/folder", original=lambda: None)  # a function that no pickle can hold
    copied = pickle.loads(pickle.dumps(ours))
    assert copied.original is loaderloop._worker_loop


def test_in_a_process_that_attaches_too_the_original_is_behind_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    original = loaderloop._worker_loop
    monkeypatch.setattr(loaderloop, ATTRIBUTE, WorkerLoop(NAME, "/folder", original))
    assert pickle.loads(pickle.dumps(WorkerLoop(NAME, "/folder", original))).original is original


def test_a_window_that_runs_already_is_sampled_and_what_was_seen_is_written_at_the_end(
    bell: Bell, folder: Path, tmp_path: Path
) -> None:
    begin(bell, folder)

    def until_written() -> float:
        wait_for_samples(folder)
        return 0.05

    tasks = Tasks(0.0, until_written, 0.1, None)
    assert WorkerLoop(NAME, str(tmp_path), loaderloop._worker_loop)(tasks, tasks, 1) == "ended"
    assert tasks.done == [0.0, 0.05, 0.1]
    one = read(folder)
    assert (one.process, one.ended) == (os.getpid(), True)
    assert one.batch_ns.size in (2, 3)  # the first may have ended before the listener had begun
    assert {"_worker_loop", "read_slowly"} <= functions(one)
    assert one.stack_ns.size == one.stack_ids.size == one.cpu_ns.size > 0


def test_it_sleeps_before_and_after_a_window(bell: Bell, folder: Path, tmp_path: Path) -> None:
    def window() -> float:
        begin(bell, folder)
        wait_for_samples(folder)
        bell.silence(WINDOW)
        wait_until(lambda: files(folder)[0].read_bytes().endswith(END), "the end to be written")
        return 0.0

    tasks = Tasks(0.0, window, 0.0, None)
    WorkerLoop(NAME, str(tmp_path), loaderloop._worker_loop)(tasks, tasks, 1)
    assert files(folder)[0].read_bytes().count(END) == 1
    assert "wait_for_samples" in functions(read(folder))


def test_without_a_training_that_rings_there_is_no_file_and_no_switch_interval(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    tasks = Tasks(lambda: sys.getswitchinterval() - before, None)
    WorkerLoop(NAME, str(tmp_path), loaderloop._worker_loop)(tasks, tasks, 1)
    assert tasks.done == [0.0]
    assert list(tmp_path.iterdir()) == []


def test_a_window_that_was_given_up_leaves_nothing(bell: Bell, folder: Path, tmp_path: Path) -> None:
    bell.ring(WINDOW, 1000.0)  # its folder is gone already
    tasks = Tasks(0.05, None)
    WorkerLoop(NAME, str(tmp_path), loaderloop._worker_loop)(tasks, tasks, 1)
    assert [path.name for path in folder.iterdir()] == [LOADERS_FILE]


def test_an_error_of_the_loop_passes_through(tmp_path: Path) -> None:
    def _worker_loop(index_queue: Any, num_workers: int) -> None:
        raise KeyError("theirs")

    with pytest.raises(KeyError, match="theirs"):
        WorkerLoop(NAME, str(tmp_path), _worker_loop)(Tasks(), 1)


def test_a_loop_with_other_arguments_gets_them_as_they_are(tmp_path: Path) -> None:
    def _worker_loop(*tasks: Any) -> tuple[Any, ...]:
        return tasks

    assert WorkerLoop(NAME, str(tmp_path), _worker_loop)(1, 2) == (1, 2)


@pytest.mark.parametrize("fails", ["Listener", "Batches", "_training_folder"])
def test_what_fails_on_our_side_does_not_reach_the_loader(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> Any:
        raise RuntimeError("ours")

    monkeypatch.setattr(loaders, fails, broken)
    tasks = Tasks(0.0, None)
    assert WorkerLoop(NAME, str(tmp_path), loaderloop._worker_loop)(tasks, tasks, 1) == "ended"


def test_where_no_thread_can_start_the_loop_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    tasks = Tasks(0.0, None)
    assert WorkerLoop(NAME, str(tmp_path), loaderloop._worker_loop)(tasks, tasks, 1) == "ended"


def test_a_full_disk_costs_the_rest_of_one_window(
    bell: Bell, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full: list[int] = []

    def write(descriptor: int, content: bytes) -> int:
        full.append(descriptor)
        raise OSError(28, "No space left on device")

    def window() -> float:
        with monkeypatch.context() as patch:
            patch.setattr(loaders.os, "write", write)  # type: ignore[attr-defined]
            begin(bell, folder)
            wait_until(lambda: len(full) >= 2, "the end to be tried too")
            bell.silence(WINDOW)
        (folder / f"window-{WINDOW}").rename(folder / "window-1")
        begin(bell, folder)  # the next one
        wait_for_samples(folder)
        return 0.0

    tasks = Tasks(window, None)
    WorkerLoop(NAME, str(tmp_path), loaderloop._worker_loop)(tasks, tasks, 1)
    assert read(folder).ended


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_each_start_method_are_sampled(method: str, tmp_path: Path) -> None:
    folder = tmp_path / f"pid-{os.getpid()}"
    folder.mkdir()
    bell = Bell(folder / LOADERS_FILE, create=True)
    begin(bell, folder)
    context: Any = multiprocessing.get_context(method)
    tasks, done = context.Queue(), context.Queue()
    loop = WorkerLoop(NAME, str(tmp_path), loaderloop._worker_loop)
    process = context.Process(target=loop, args=(tasks, done, 1), daemon=True)
    process.start()
    tasks.put(0.05)
    assert done.get(timeout=60) == 0.05
    wait_for_samples(folder)
    tasks.put(None)
    process.join(60)
    assert process.exitcode == 0
    one = read(folder)
    assert (one.process, one.ended) == (process.pid, True)
    assert "_worker_loop" in functions(one)


KILLED = """
import multiprocessing, sys, loaderloop
from eroica_otel.profile.loaders import WorkerLoop
class Tasks:
    def get(self): return 60.0
tasks = Tasks()
WorkerLoop("loaderloop", sys.argv[1])(tasks, tasks, 1)
"""


def test_of_a_process_that_is_killed_what_was_seen_before_is_there(tmp_path: Path) -> None:
    folder = tmp_path / f"pid-{os.getpid()}"
    folder.mkdir()
    begin(Bell(folder / LOADERS_FILE, create=True), folder)
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], env=os.environ | {"PYTHONPATH": path}) as run:
        wait_for_samples(folder)
        run.kill()
    one = read(folder)
    assert not one.ended
    assert "read_slowly" in functions(one)


def test_many_processes_share_the_rate(tmp_path: Path) -> None:
    assert loaders.Listener(tmp_path, 4)._share == 1.0
    assert loaders.Listener(tmp_path, 16)._share == 0.25


def test_a_batch_ends_when_the_next_task_is_asked_for_and_waiting_for_work_is_none() -> None:
    class Empty:
        closed = True

        def __init__(self) -> None:
            self.answers: list[Any] = [queue.Empty(), 1, queue.Empty(), 2]

        def get(self, timeout: float) -> Any:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    watched = Batches(Empty())
    seen = []
    for _ in range(4):
        with contextlib.suppress(queue.Empty):
            watched.get(timeout=5)
        seen.append(len(watched.ended_ns))
    assert seen == [0, 0, 1, 1]
    assert watched.ended_ns[0] <= time.perf_counter_ns()
    assert watched.closed
