"""That the twenty cases that nothing is tuned on are as the board promises, and that their own faults hurt."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist

from faultboard import ROOT, board, cpu_seconds, faults
from jobs import wait_until

PATIENCE_SECONDS = 60.0


@pytest.fixture
def unseen() -> ModuleType:
    return faults("unseen")


@pytest.fixture
def order() -> Callable[..., Any]:
    def made(value: float = 0.0, **more: Any) -> Any:
        return faults("order").Order.of({"switch": "any", "ranks": (0,), "value": value, **more})

    return made


@pytest.fixture
def scene() -> Any:
    return faults("order").Scene(0, 4, 3)


def test_there_are_twenty_of_which_three_are_silent_and_two_hang() -> None:
    case, cases = board("case"), board("table.unseen").CASES
    assert len(cases) == 20
    assert [row.name for row in cases if row.group != case.UNSEEN or not row.name.startswith("u-")] == []
    verdicts = [row.verdict for row in cases]
    assert (verdicts.count(case.SILENCE), verdicts.count(case.HANG)) == (3, 2)
    assert [row.name for row in board("table.every").CASES if row.group == case.UNSEEN] == [row.name for row in cases]


def test_a_tracker_answers_as_late_as_it_is_told_to(unseen: ModuleType, order: Callable[..., Any], scene: Any) -> None:
    begin, cpu = time.monotonic(), time.thread_time()
    for _ in range(2):
        unseen.push_metrics(None, order(0.1), scene)
    assert time.monotonic() - begin - (time.thread_time() - cpu) >= 0.2  # waits, and each step its own


def test_who_polls_without_a_pause_is_held_up_and_keeps_a_core_busy(
    unseen: ModuleType, order: Callable[..., Any], scene: Any
) -> None:
    begin, cpu = time.monotonic(), time.thread_time()
    unseen.wait_for_flag(None, order(0.2), scene)
    assert time.monotonic() - begin >= 0.2
    assert time.thread_time() - cpu >= 0.02  # a sleep would take less than a millisecond of it


def test_a_greedy_pattern_takes_its_seconds_of_the_cpu(
    unseen: ModuleType, order: Callable[..., Any], scene: Any
) -> None:
    batch, cpu = torch.zeros(8, 4), time.thread_time()
    assert unseen.clean_text(batch, order(0.05), scene) is batch
    assert time.thread_time() - cpu >= 0.05


def test_each_buffer_is_a_collective_of_its_own(
    unseen: ModuleType, order: Callable[..., Any], scene: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        with torch.profiler.profile() as profile:
            unseen.sync_buffers(None, order(5.0), scene)
    finally:
        dist.destroy_process_group()
    assert [event.count for event in profile.key_averages() if event.key == "c10d::allreduce_"] == [5]


def _stop_early(unseen: ModuleType, order: Any, scene: Any, store: str, rank: int, met: Any) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    dist.all_reduce(torch.ones(1))
    met.release()
    if rank == 1:
        unseen.stop_early(None, order, scene)
        os._exit(0)
    time.sleep(PATIENCE_SECONDS)  # it trains on and never comes to the end


def test_who_stops_early_waits_for_those_who_go_on(
    unseen: ModuleType, order: Callable[..., Any], scene: Any, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("fork")
    met, store = context.Semaphore(0), str(tmp_path / "store")
    ranks = [
        context.Process(target=_stop_early, args=(unseen, order(), scene, store, rank, met), daemon=True)
        for rank in range(2)
    ]
    for process in ranks:
        process.start()
    try:
        assert all(met.acquire(timeout=PATIENCE_SECONDS) for _ in ranks)
        ranks[1].join(0.5)
        assert ranks[1].is_alive()
    finally:
        for process in ranks:
            process.kill()
            process.join()


def test_a_lock_file_that_nobody_takes_away_holds_up_until_somebody_does(
    unseen: ModuleType, order: Callable[..., Any], scene: Any, tmp_path: Path
) -> None:
    asked = order(folder=str(tmp_path))
    waiting = threading.Thread(target=unseen.wait_for_baton, args=(None, asked, scene), daemon=True)
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    (tmp_path / "extension-0.lock").unlink()
    waiting.join(PATIENCE_SECONDS)
    assert not waiting.is_alive()


def test_one_thread_beats_however_many_steps_there_are(
    unseen: ModuleType, order: Callable[..., Any], scene: Any
) -> None:
    before = threading.active_count()
    for _ in range(3):
        unseen.beat(None, order(), scene)
    assert threading.active_count() == before + 1


class Cores:
    """A board of one core that keeps what is started on it."""

    def __init__(self) -> None:
        self.cores = (max(os.sched_getaffinity(0)),)
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[str]) -> None:
        self.started.append(subprocess.Popen(command, cwd=ROOT))


def test_a_job_that_was_left_over_is_busy_on_each_core(unseen: ModuleType) -> None:
    cores = Cores()
    with ExitStack() as undo:
        unseen.left_over()(cores, undo, board("case").Drawn(1, (0,), 1.2, 0))
    [process] = cores.started
    try:
        wait_until(lambda: os.sched_getaffinity(process.pid) == set(cores.cores), "it to be bound")
        bound = cpu_seconds(process.pid)
        wait_until(lambda: cpu_seconds(process.pid) >= bound + 0.1, "it to be busy")
    finally:
        process.kill()
        process.wait()
