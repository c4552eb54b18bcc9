"""Hangs of a real training of four processes: what each rank, or its helper, delivers, what a real localizer makes of
it, and that training goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

import pytest

from eroica_otel.detect.blocked import PAUSE_SECONDS
from eroica_otel.model import WorkerWindow
from eroica_otel.query.decode import decode
from hangs import HANG_SECONDS, RANKS, VERDICT_SECONDS, Training
from jobs import scrape, wait_until

NO_HANG_SECONDS = 25.0
"""How long a pause lasts at least: two and a half times what would be a hang without its reason."""


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    made = Training(tmp_path_factory.mktemp("hang"))
    try:
        made.until(lambda: made.states() == ["healthy"] * RANKS, "four ranks that know their loop")
        yield made
    finally:
        made.end()


def waits(window: WorkerWindow) -> bool:
    """Return whether most of the window was spent in a frame that waits for peers."""
    return sum(pattern.beta for pattern in window.patterns if pattern.family == "wait") > 0.9


def functions(window: WorkerWindow) -> str:
    return " ".join(frame for pattern in window.patterns for frame in pattern.stack)


def takes_a_window(training: Training) -> None:
    """Ask for a window and wait until all ranks show theirs."""
    training.begin()
    (training.folder / "workers" / f"pid-{training.workers()[0].pid}" / "request-window").touch()

    def taken() -> bool:
        shown = [decode(scrape(training.port + rank)) for rank in range(RANKS)]
        fresh = [w for w in shown if w is not None and w.window_id >= training.began - 5]
        return len(fresh) == RANKS and all(w.reason == "manual" and w.iterations > 2 for w in fresh)

    training.until(taken, "a manual window of all ranks")


def test_a_rank_that_sleeps_in_python_shows_its_stack_and_the_others_wait(training: Training) -> None:
    training.hang(1, "sleep")
    windows = training.windows()
    assert [waits(window) for window in windows] == [True, False, True, True]
    assert "__main__:Trouble.wait" in functions(windows[1]) or "__main__:wait" in functions(windows[1])
    assert {window.window_id for window in windows} == {windows[0].window_id}
    for window in windows:
        assert window.iterations == 0
        assert window.silent_seconds is not None
        assert 10 < window.silent_seconds < 60
        assert window.kinds["python"] == pytest.approx(1.0, abs=0.01)
    assert training.states() == ["blocked"] * RANKS
    # Rank 1 has not entered the all-reduce of the second group that the others have.
    (group,) = [g for g in windows[1].progress if g != "0"]
    assert [w.progress[group][0] - windows[1].progress[group][0] for w in windows] == [1, 0, 1, 1]
    assert windows[1].progress[group][0] == windows[1].progress[group][1]
    assert windows[0].progress[group][1] == windows[1].progress[group][1]
    assert "looking at all ranks' stacks" in training.log.read_text()
    found = training.verdict()
    assert (found.cause, found.ranks) == ("hang_in_python", (1,))
    assert found.function.startswith(("Trouble.wait (hanging.py:", "wait (hanging.py:"))
    training.release()
    training.all_healthy()


def test_of_a_rank_that_is_stopped_its_helper_says_so(training: Training) -> None:
    before = [worker.irregular for worker in training.workers()]
    victim = training.workers()[2]
    training.begin()
    os.kill(victim.pid, signal.SIGSTOP)
    try:
        windows = training.windows()
        training.until(lambda: training.state(2) == "blocked", "the helper to export the state")
        found = training.verdict()
    finally:
        os.kill(victim.pid, signal.SIGCONT)
    assert (found.cause, found.ranks) == ("process_stopped", (2,))
    assert windows[2].stopped_seconds > 0.8 * windows[2].seconds > 0
    assert [waits(windows[rank]) for rank in (0, 1, 3)] == [True] * 3
    assert all(windows[rank].stopped_seconds == 0 for rank in (0, 1, 3))
    training.all_healthy()

    def irregular() -> list[int]:
        return [worker.irregular - old for worker, old in zip(training.workers(), before, strict=True)]

    # The rank that was stopped had nothing to say meanwhile, and says it somewhat later than the others.
    training.until(lambda: irregular() == [1] * RANKS, "one irregular iteration of each rank")


def test_of_a_rank_that_holds_the_lock_in_c_the_helper_shows_the_stack(training: Training) -> None:
    training.hang(1, "hold")
    windows = training.windows()
    found = training.verdict()
    assert (found.cause, found.ranks) == ("hang_in_python", (1,))
    assert found.function.startswith("hold (hanging.py:")
    assert "__main__:hold:" in functions(windows[1])
    assert windows[1].stopped_seconds == 0
    assert [waits(windows[rank]) for rank in (0, 2, 3)] == [True] * 3
    training.all_healthy()


def test_a_save_on_a_stuck_file_system_is_first_a_pause_of_all_ranks_and_then_a_hang(training: Training) -> None:
    os.mkfifo(training.control / "pipe")
    reader = os.open(training.control / "pipe", os.O_RDWR | os.O_NONBLOCK)
    training.hang(3, "save")
    training.until(lambda: training.states() == ["paused"] * RANKS, "all ranks to pause")
    assert training.workers()[3].activity.startswith("paused for ")
    assert "save in save (serialization.py:" in training.workers()[3].activity
    assert "another rank pauses" in training.workers()[0].activity
    assert training.judged() is None
    assert [training.window(rank) for rank in range(RANKS)] == [None] * RANKS
    found = training.verdict(most_seconds=training.pause_seconds + VERDICT_SECONDS)  # it is believed to pause at first
    assert (found.cause, found.ranks) == ("checkpoint_stall", (3,))
    assert "save" in found.function
    assert training.states() == ["blocked"] * RANKS

    def drained() -> bool:
        with contextlib.suppress(BlockingIOError):
            while os.read(reader, 1 << 20):
                pass
        return "blocked" not in training.states()

    training.until(drained, "the save to end")
    os.close(reader)
    training.all_healthy()


def test_a_rank_that_leaves_a_collective_out_is_behind_in_its_group(training: Training) -> None:
    training.hang(1, "skip")
    windows = training.windows()
    assert all(waits(window) for window in windows)
    (group,) = [g for g in windows[1].progress if g != "0"]
    assert [w.progress[group][0] - windows[1].progress[group][0] for w in windows] == [1, 0, 1, 1]
    entered, completed = windows[1].progress["0"]
    assert completed == entered - 1
    # It waits in the other group for those who wait for it: proof that they went different ways, not who went wrong.
    found = training.verdict("low")
    assert (found.cause, found.ranks) == ("hang_missing_rank", (1,))
    training.release()
    training.all_healthy()


def test_after_all_that_a_window_is_taken_as_before(training: Training) -> None:
    takes_a_window(training)


@pytest.mark.long
def test_a_rank_that_dies_while_its_connections_stay_open_is_missing(training: Training) -> None:
    # The launcher would end all ranks when one dies. It has the store, which is frozen with it.
    os.kill(training.process.pid, signal.SIGSTOP)
    training.hang(2, "die")
    found = training.verdict()
    assert (found.cause, found.ranks) == ("hang_missing_rank", (2,))
    assert "gone" in found.advice


@pytest.mark.long
def test_after_a_restart_the_windows_of_the_earlier_attempt_in_the_launchers_store_mean_nothing(
    training: Training,
) -> None:
    old = {worker.pid for worker in training.workers()}
    os.kill(training.process.pid, signal.SIGCONT)
    training.until(
        lambda: not old & {w.pid for w in training.workers()} and training.states() == ["healthy"] * RANKS,
        "the restarted ranks to know their loop",
    )
    assert {worker.identity.restart for worker in training.workers()} == {1}
    takes_a_window(training)
    assert max(worker.window_id for worker in training.workers()) == min(w.window_id for w in training.workers())
    skipped = [what for worker in training.workers() for what in worker.windows if "skipped" in what]
    assert skipped == []


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    """A training that believes a pause as long as it does for users."""
    made = Training(tmp_path_factory.mktemp("pause"), PAUSE_SECONDS)
    try:
        made.until(lambda: made.states() == ["healthy"] * RANKS, "four ranks that know their loop")
        yield made
    finally:
        made.end()


def pauses(training: Training) -> list[str]:
    """Wait until all ranks pause, and longer; return what they say of it, when nobody has spoken of a hang."""
    training.until(lambda: training.states() == ["paused"] * RANKS, "all ranks to pause")
    training.until(lambda: time.monotonic() > training.onset + NO_HANG_SECONDS, "the pause to be a long one")
    assert training.states() == ["paused"] * RANKS
    assert training.saw_no_hang()
    return [worker.activity for worker in training.workers()]


@pytest.mark.long
def test_a_rank_in_a_debugger_pauses_the_job(patient: Training) -> None:
    os.mkfifo(patient.control / "terminal")
    terminal = os.open(patient.control / "terminal", os.O_RDWR)
    patient.hang(1, "debug")
    said = pauses(patient)
    assert "debugger in " in said[1]
    assert all("another rank pauses" in said[rank] for rank in (0, 2, 3))
    os.write(terminal, b"continue\n")
    patient.all_healthy()
    os.close(terminal)
    assert patient.saw_no_hang()


@pytest.mark.long
def test_a_rank_that_evaluates_alone_pauses_the_job(patient: Training) -> None:
    patient.hang(1, "evaluate")
    said = pauses(patient)
    assert "inputs without updates" in said[1]
    assert all("another rank pauses" in said[rank] for rank in (0, 2, 3))
    patient.release()
    patient.all_healthy()
    assert patient.saw_no_hang()


@pytest.mark.long
def test_a_long_export_after_the_last_iteration_is_no_hang(patient: Training) -> None:
    (patient.control / "export").touch()
    patient.finish()
    patient.until(lambda: (patient.control / "exported").exists(), "the first rank to export")
    patient.begin()
    assert all("the training loop has ended" in said for said in pauses(patient))
    (patient.control / "export").unlink()
    wait_until(lambda: patient.process.poll() is not None, "the training to end", HANG_SECONDS)
    assert patient.process.returncode == 0
    assert patient.saw_no_hang()
