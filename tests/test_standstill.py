"""The 1 Hz thread beside a training that makes no event: rounds with a clock that is told to move, real stacks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eroica_otel import kinds
from eroica_otel import standstill as module
from eroica_otel.agree.poller import Poller
from eroica_otel.agree.store import LocalStore, Store
from eroica_otel.config import WorkerConfig
from eroica_otel.profile import samples
from eroica_otel.profile.bell import Bell
from eroica_otel.profile.look import MOST_HERTZ
from eroica_otel.signals.hooks import Row
from eroica_otel.standstill import Standstill
from eroica_otel.summarize.pattern import summarize
from factories_worker import FakeClock, identity

INPUT: Row = (1001, 1, 2)
UPDATE: Row = (2000, ~1, 3)


def down() -> Store:
    raise RuntimeError("nobody answers")


class Training:
    """A thread that trains three iterations in a loop, then stands still inside it, or after it."""

    def __init__(self, still: Standstill, ends: bool) -> None:
        self._still, self._ends = still, ends
        self._stands, self._go_on = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._train, daemon=True)
        self.thread.start()
        assert self._stands.wait(30)

    def _train(self) -> None:
        for number in range(3):
            self._still.where.see(False)
            self._still.where.see(True)
            if number == 2 and not self._ends:
                self.stand()
        self.stand()

    def stand(self) -> None:
        self._stands.set()
        self._go_on.wait(60)

    def end(self) -> None:
        self._go_on.set()
        self.thread.join(30)


class Worker:
    """The standstill of one worker, its poller, and its training."""

    def __init__(
        self, folder: Path, clock: FakeClock, ends: bool = False, store: Any = LocalStore, bell: Bell | None = None
    ) -> None:
        self.folder, self.clock = folder, clock
        self.counts: Counter[str] = Counter()
        self.said: list[str] = []
        config = WorkerConfig.from_env({}, window_seconds=3.0, cooldown_seconds=100.0)
        self.poller = Poller(store, 1, 3.0, clock, lambda: 1_764_430_000.0 + clock.now)
        self.still = Standstill(config, folder, self.poller, self.counts, self.said.append, bell)
        self.training = Training(self.still, ends)
        self.still.is_pause(0.1)
        self.rounds(1, INPUT, UPDATE)

    def rounds(self, times: int, *rows: Row, learned: bool = True) -> int:
        taken = 0
        for _ in range(times):
            self.clock.now += 1
            taken += self.still.tick(rows, learned, identity(0, world_size=1))
            self.poller._round()
        return taken

    def windows(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.glob("window-*/" + samples.META))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    made = FakeClock()
    monkeypatch.setattr(module.time, "monotonic", made)  # type: ignore[attr-defined]
    return made


@pytest.fixture
def worker(tmp_path: Path, clock: FakeClock) -> Iterator[Worker]:
    made = Worker(tmp_path, clock)
    yield made
    made.still.close()
    made.training.end()


def test_a_hang_is_looked_at_once_and_its_window_holds_stack_and_silence(worker: Worker) -> None:
    worker.rounds(10)
    assert worker.still.state == ""
    worker.rounds(1)
    assert (worker.still.state, worker.still.activity) == (
        "blocked",
        "no event for 11 s: looking at all ranks' stacks",
    )
    assert worker.rounds(6) == 1
    assert worker.said == ["no event for 12 s: looking at all ranks' stacks"]
    (folder,) = worker.windows()
    window = summarize(samples.read(folder))
    assert (window.reason, window.iterations, window.start_iteration) == ("blocked", 0, 0)
    assert window.silent_seconds == 15
    assert any("Training.stand" in frame or ":stand:" in frame for frame in window.patterns[0].stack)
    worker.rounds(50)
    assert len(worker.windows()) == 1, "the rest is not over"
    worker.rounds(50)
    assert len(worker.windows()) == 2
    worker.rounds(150)
    assert len(worker.windows()) == 2, "the rest has doubled"


def test_length_of_the_look_and_rest_change_while_the_training_runs(worker: Worker) -> None:
    worker.still.change(WorkerConfig.from_env({}, window_seconds=5.0, cooldown_seconds=30.0))
    worker.rounds(16)  # the look has begun in the 12th: 3 s would be over
    assert worker.windows() == []
    worker.rounds(2)
    assert len(worker.windows()) == 1
    worker.rounds(40)
    assert len(worker.windows()) == 2


def test_after_the_training_went_on_the_rest_begins_anew(worker: Worker) -> None:
    worker.rounds(20)  # looked at from 12 s on, for 3 s: the rest of 100 s has begun
    worker.rounds(110, INPUT, UPDATE)
    worker.rounds(20)
    assert len(worker.windows()) == 2
    worker.rounds(1, INPUT, UPDATE)
    worker.rounds(110, INPUT, UPDATE)
    worker.rounds(20)
    assert len(worker.windows()) == 3, "another hang: its rest has not doubled"


def test_when_it_goes_on_in_the_middle_of_the_look_there_is_no_window(worker: Worker) -> None:
    worker.rounds(12)
    worker.rounds(1, INPUT, UPDATE)
    assert (worker.still.state, worker.still.activity) == ("", "")
    worker.rounds(5, INPUT, UPDATE)
    assert list(worker.folder.iterdir()) == []
    assert worker.counts == {"blocked skipped": 1}
    assert worker.said[-1] == "training goes on"


def test_a_longer_standstill_than_one_that_ended_is_looked_at_although_the_rest_is_not_over(worker: Worker) -> None:
    worker.rounds(16)
    worker.rounds(1, INPUT, UPDATE)
    worker.rounds(40)
    assert len(worker.windows()) == 1
    worker.rounds(20)
    assert len(worker.windows()) == 2


def test_where_the_store_is_silent_the_rank_looks_at_itself(tmp_path: Path, clock: FakeClock) -> None:
    worker = Worker(tmp_path, clock, store=down)
    try:
        assert worker.rounds(17) == 0
        assert worker.windows() == []
        worker.rounds(5)
        assert len(worker.windows()) == 1
    finally:
        worker.training.end()


def test_before_the_loop_is_known_nothing_hangs(worker: Worker) -> None:
    worker.rounds(100, learned=False)
    assert worker.still.state == ""
    assert worker.windows() == []


def test_a_training_that_is_over_does_not_hang(tmp_path: Path, clock: FakeClock) -> None:
    worker = Worker(tmp_path, clock, ends=True)
    try:
        worker.rounds(2000)
        assert worker.still.state == "paused"
        assert worker.still.activity == "paused for 2000 s: the training loop has ended"
        assert worker.windows() == []
        worker.training.end()
        worker.rounds(1)
        assert worker.still.activity == "paused for 2001 s: the thread that trained has ended"
    finally:
        worker.training.end()


def test_a_look_that_others_want_is_taken_also_where_the_training_is_over(tmp_path: Path, clock: FakeClock) -> None:
    worker = Worker(tmp_path, clock, ends=True)
    try:
        worker.rounds(12)
        worker.poller.blocked = True
        worker.poller.poll()
        assert worker.rounds(5) == 1
        assert len(worker.windows()) == 1
    finally:
        worker.training.end()


def test_a_pause_is_told_to_the_peers(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "pause_of", lambda frames: ("save", frames[-1]))
    worker.rounds(5)
    assert (worker.poller.pausing, worker.poller.listening) == (False, False)
    worker.rounds(1)
    assert (worker.poller.pausing, worker.poller.listening) == (True, True)
    worker.rounds(5)
    assert worker.still.state == "paused"
    assert worker.still.activity.startswith("paused for 11 s: save in ")
    worker.rounds(1, INPUT, UPDATE)
    assert (worker.poller.pausing, worker.poller.listening) == (False, False)


def test_a_rank_that_fetches_without_updates_says_so_and_not_that_it_waits_for_one_that_pauses(worker: Worker) -> None:
    worker.rounds(10, INPUT)
    worker.poller.peers_pause = True  # as its own pause comes back to it from those that wait
    worker.rounds(1, INPUT)
    assert worker.still.state == "paused"
    assert worker.still.activity == "paused for 11 s: inputs without updates"


def test_the_loaders_processes_are_awake_while_stacks_are_looked_at(tmp_path: Path, clock: FakeClock) -> None:
    bell = Bell(tmp_path / "loaders", create=True)
    worker = Worker(tmp_path, clock, bell=bell)
    try:
        words = []
        for _ in range(20):
            worker.rounds(1)
            words.append(bell.word)
        assert sorted(set(words)) == [0, 1, 2]
        assert words == sorted(words)
        assert bell.window == (int(worker.windows()[0].name.partition("-")[2]), MOST_HERTZ)
    finally:
        worker.still.close()
        worker.training.end()
