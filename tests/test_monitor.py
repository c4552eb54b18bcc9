"""One round after the other of the 1 Hz thread, with rows instead of a training and a clock that is told to move."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed

from eroica_otel import monitor as module
from eroica_otel.agree.poller import Poller
from eroica_otel.agree.store import LocalStore
from eroica_otel.config import WorkerConfig
from eroica_otel.model import Window
from eroica_otel.monitor import Monitor
from eroica_otel.plugin import Guard
from eroica_otel.signals.hooks import Recorder
from eroica_otel.signals.progress import progress
from eroica_otel.status import REQUEST_FILE, STATUS_FILE, Status, StatusReader
from eroica_otel.trainer import Windows
from eroica_otel.worker import _every_second
from factories_worker import FakeClock, Rows, identity, loop


class Worker:
    """A monitor over a loop of tokens; its window store is its own, as in a job of one process."""

    def __init__(self, folder: Path, clock: FakeClock, **options: Any) -> None:
        given: dict[str, Any] = {"capture": "stacks", "recent_iterations": 10, "window_seconds": 1.0}
        self.config = WorkerConfig.from_env({}, **(given | options))
        self.clock, self.folder, self.rows = clock, folder, Rows()
        self.said: list[str] = []
        self.guard = Guard()
        self.recorder = Recorder(lambda: None, lambda: None)
        self.windows = Windows(self.recorder, self.config, folder, {}, self.said.append, lambda stage, why: None)
        self.poller = Poller(LocalStore, 1, self.config.window_seconds, clock, lambda: 1_764_430_000.0 + clock.now)
        self.monitor = Monitor(
            self.recorder, self.config, identity(0, role="", world_size=1), folder, self.windows, self.poller,
            self.guard, self.said.append,
        )  # fmt: skip
        self.reader = StatusReader(folder / STATUS_FILE)

    def __call__(self, text: str, token_seconds: float = 0.01) -> Status:
        """Run the loop for ``text``, then one round of the monitor and of the poller; return what the status says."""
        self.rows.token_ns = int(token_seconds * 1e9)
        for row in self.rows.of(loop(text)):
            self.recorder.rows.append(row)
            self.recorder.steps = self.rows.steps
            if self.recorder.steps >= self.recorder.edge and row[1] < 0:
                self.recorder.on_edge()
        self.clock.now += 1
        self.monitor.tick()
        self.poller.poll()
        return self.status()

    def status(self) -> Status:
        seen = self.reader.read()
        assert seen is not None
        self.pairs = seen[2]
        return seen[0]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    made = FakeClock()
    monkeypatch.setattr(module.time, "monotonic", made)  # type: ignore[attr-defined]
    monkeypatch.setattr(module.time, "time", made)  # type: ignore[attr-defined]
    return made


@pytest.fixture
def worker(tmp_path: Path, clock: FakeClock) -> Iterator[Worker]:
    made = Worker(tmp_path, clock)
    yield made
    made.windows.close()


def test_it_learns_then_is_healthy_and_writes_each_timed_iteration_once(worker: Worker) -> None:
    assert worker("(D0 O0)*10").state == "learning"
    assert worker.pairs.shape == (0, 2)
    status = worker("(D0 O0)*5")
    assert (status.state, status.iterations, status.identity.role) == ("healthy", 15, "all")
    assert worker.pairs.tolist() == [[pytest.approx(0.01), pytest.approx(0.02)]] * 4
    assert worker.said == ["iteration learned: 1 inputs, 1 steps, 0.020 s"]
    assert status.input_seconds == pytest.approx(4 * 0.002)
    assert worker("").iterations == 15
    assert worker.pairs.shape == (0, 2)


def test_the_role_is_the_one_that_was_asked_for(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "role_of", lambda distributed: "pp1")
    worker = Worker(tmp_path, clock, role="encoder")
    assert worker("(D0 O0)*9").identity.role == ""
    assert worker("(D0 O0)*9").identity.role == "encoder"


def test_what_is_not_known_is_missing(worker: Worker) -> None:
    status = worker("(D0)*5")
    assert (status.baseline_seconds, status.recent_seconds, status.ratio) == (None, None, None)
    assert (status.last_update_seconds, status.after, status.window_id) == (None, None, 0)


def test_the_time_of_the_latest_update_does_not_move_with_inputs(worker: Worker) -> None:
    first = worker("D0 O0").last_update_seconds
    assert first == worker.clock.now
    assert worker("(D0)*5").last_update_seconds == first


def test_inputs_alone_are_unmatched_and_the_way_out_is_said_once(worker: Worker) -> None:
    assert worker("(D0)*250").state == "unmatched"
    worker("(D0)*250")
    (said,) = worker.said
    assert "call eroica_otel.step() after each update" in said


def test_a_slow_job_is_degraded_and_asks_for_a_window_that_is_taken(worker: Worker) -> None:
    worker.monitor.wishes.reference_done = True
    worker("(D0 O0)*60")
    status = worker("(D0 O0)*30", token_seconds=0.02)
    assert status.state == "degraded"
    assert status.ratio == pytest.approx(1.0)
    assert status.baseline_seconds == pytest.approx(0.02)
    status = worker("D0 O0", token_seconds=0.02)
    assert worker.said[-1].startswith("iteration time 0.040 s is 100% above 0.020 s; profiling iterations ")
    # A lead of 3 s and the window of 1 s, in iterations of 40 ms.
    assert status.activity.startswith("will profile iterations ")
    worker("(D0 O0)*110", token_seconds=0.02)
    status = worker("")
    assert status.window_id > 0
    assert worker.said[-1].endswith("training was paused 0.0 s")


def test_a_reference_is_asked_for_once(worker: Worker) -> None:
    worker("(D0 O0)*30")
    worker("(D0 O0)*2")
    assert worker.status().activity.endswith("(reference)")
    worker("(D0 O0)*300")
    for _ in range(5):
        assert worker("(D0 O0)*20").activity == ""


def test_a_reference_heard_of_too_late_is_asked_for_again_three_times_with_more_time_each(worker: Worker) -> None:
    leads = []
    worker("(D0 O0)*30")
    while worker.poller.agreed:
        leads.append(worker.poller.agreed[0].start - worker.recorder.steps)
        worker("(D0 O0)*2000")
        assert worker.said[-1].endswith(f"this rank learned of it at {worker.recorder.steps}")
    # 3 s are 150 iterations of 0.02 s; the mean of many may round up.
    assert leads == pytest.approx([151, 301, 601, 1201], abs=1)


def test_a_reference_that_was_late_once_and_then_taken_is_not_asked_for_again(worker: Worker) -> None:
    worker("(D0 O0)*30")
    worker("(D0 O0)*2000")
    worker("D0 O0")
    worker("D0 O0")
    assert worker.status().activity.endswith("(reference)")
    worker("(D0 O0)*1000")
    assert worker("").window_id > 0
    for _ in range(5):
        assert worker("(D0 O0)*20").activity == ""


def test_without_a_reference_there_is_none(tmp_path: Path, clock: FakeClock) -> None:
    worker = Worker(tmp_path, clock, reference=False)
    worker("(D0 O0)*100")
    assert worker("(D0 O0)*10").activity == ""


def test_the_length_of_a_window_does_not_follow_from_one_iteration(worker: Worker) -> None:
    """Four processes of the loader: one iteration of 404 ms, then three of 4 ms; a second are ten, not 250."""
    asked = next(status for status in bursts_of(worker) if status.activity.endswith("(reference)"))
    assert asked.baseline_seconds is None  # below 2 N timed iterations there is no level yet
    start, stop = (int(word) for word in asked.activity.split() if word.isdigit())
    assert 8 <= stop - start <= 13


def bursts_of(worker: Worker) -> Iterator[Status]:
    for _ in range(10):
        worker("D0 O0", token_seconds=0.2)
        yield worker("(D0 O0)*3", token_seconds=0.002)


def test_the_node_agent_is_asked_until_a_second_after_the_expected_end(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[float] = []
    monkeypatch.setattr(worker.windows.equipment, "announce", lambda rank, window, seconds: heard.append(seconds))
    worker("(D0 O0)*25")
    (worker.folder / REQUEST_FILE).touch()
    for _ in range(3):
        worker("")
    window = worker.windows._pending
    assert window is not None
    assert heard == [pytest.approx((window.stop - 25) * 0.02 + 1)]


def test_a_request_becomes_a_manual_window_and_is_used_up(worker: Worker) -> None:
    worker.monitor.wishes.reference_done = True
    worker("(D0 O0)*20")
    (worker.folder / REQUEST_FILE).touch()
    worker("(D0 O0)*2")
    status = worker("(D0 O0)*2")
    assert status.activity.endswith("(manual)")
    assert not (worker.folder / REQUEST_FILE).exists()


def test_windows_at_fixed_intervals_are_taken_once_they_are_wanted(worker: Worker) -> None:
    worker.monitor.wishes.reference_done = True
    for _ in range(5):
        assert worker("(D0 O0)*20").activity == ""
    worker.monitor.change({"periodic_seconds": 100.0})
    wishes = []
    for _ in range(100):
        worker("(D0 O0)*20")
        assert worker.poller.standing is not None
        wishes.append(worker.poller.standing.wants)
    # The first of these 100 rounds is 5 s after the one in which the loop was learned.
    assert wishes.index("periodic") + 5 == 100
    worker("(D0 O0)*250")
    worker("")
    assert worker.windows.last is not None
    assert worker.windows.last.reason == "periodic"
    assert "periodic window: profiling" in "".join(worker.said)


def test_no_window_is_taken_at_intervals_while_the_training_gets_slower(worker: Worker) -> None:
    worker.monitor.wishes.reference_done = True
    worker.monitor.change({"periodic_seconds": 30.0, "cooldown_seconds": 30.0, "degraded_ratio": 0.25})
    for _ in range(8):
        worker("(D0 O0)*10")
    steady = []
    for _ in range(60):
        worker("D0 O0", token_seconds=0.02)
        assert worker.poller.standing is not None
        steady.append((worker.poller.standing.wants, worker.poller.standing.steady))
    # The third of these rounds is the one with two slow iterations of the recent ten, which are 20 % more.
    assert steady[:4] == [("", True), ("", True), ("", True), ("", False)]
    assert "periodic" not in dict(steady)


def test_the_role_that_process_groups_tell_is_fixed_once_it_is_known(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "role_of", lambda distributed: "pp1")
    assert worker("(D0 O0)*9").identity.role == ""
    assert worker("(D0 O0)*9").identity.role == "pp1"
    monkeypatch.setattr(module, "role_of", lambda distributed: "pp0")
    for _ in range(3):
        worker("(D0 D0 O0)*40")
    assert any(text.startswith("iteration learned: 2 inputs") for text in worker.said)
    assert worker.status().identity.role == "pp1"


def test_groups_that_cannot_be_read_are_one_role(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "role_of", lambda distributed: 1 / 0)
    assert worker("(D0 O0)*20").identity.role == "all"


def test_the_length_of_a_window_changes_while_the_training_runs(worker: Worker) -> None:
    worker.monitor.wishes.reference_done = True
    worker("(D0 O0)*20")
    worker.monitor.change({"window_seconds": 3.0})
    (worker.folder / REQUEST_FILE).touch()
    worker("(D0 O0)*2")
    worker("(D0 O0)*2")
    window = worker.windows._pending
    assert window is not None
    # 3 s of 0.02 s; the mean of some may round up.
    assert window.stop - window.start == pytest.approx(150, abs=1)


def test_a_window_that_lasts_too_long_ends_where_the_ranks_agree_and_what_follows_is_timed(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.monitor.wishes.reference_done = True
    worker("(D0 O0)*20")
    (worker.folder / REQUEST_FILE).touch()
    worker("(D0 O0)*2")
    worker("(D0 O0)*2")
    window = worker.windows._pending
    assert window is not None
    worker(f"(D0 O0)*{window.start - worker.recorder.steps + 5}")
    nearer = window.start + 20
    monkeypatch.setattr(worker.windows, "nearer_stop", lambda seconds: nearer)
    worker("D0 O0")
    assert worker("D0 O0").activity == f"profiling iterations {window.start} to {nearer} (manual)"
    monkeypatch.undo()
    worker("(D0 O0)*20")
    assert worker.windows.last == Window(window.id, "manual", window.start, nearer)
    # Long before the window would have ended by itself.
    status = worker("(D0 O0)*25")
    assert worker.recorder.steps < window.stop + 3
    assert status.after is not None
    assert status.after[0] == window.id


@pytest.mark.parametrize("loops", [("D0 O0",), ("D0 O0", "D0 D0 O0")])
def test_what_counts_as_degraded_changes_at_once_and_for_later_loops(worker: Worker, loops: tuple[str, ...]) -> None:
    """30 % more; each loop has a detector of its own."""
    worker.monitor.wishes.reference_done = True
    worker.monitor.change({"degraded_ratio": 0.5})
    for text in loops:
        for _ in range(3):
            worker(f"({text})*25")
    assert worker(f"({loops[-1]})*20", token_seconds=0.013).state == "healthy"
    worker.monitor.change({"degraded_ratio": 0.2})
    assert worker(f"({loops[-1]})*10", token_seconds=0.013).state == "degraded"


@pytest.mark.parametrize("seconds", [20, 40])
def test_the_rest_after_the_next_degraded_window_changes(worker: Worker, seconds: int) -> None:
    worker.monitor.wishes.reference_done = True
    worker("(D0 O0)*600")
    worker.monitor.change({"cooldown_seconds": float(seconds)})
    worker("(D0 O0)*30", token_seconds=0.02)
    worker("D0 O0", token_seconds=0.02)
    assert worker.windows.busy
    began = worker.clock.now
    worker("(D0 O0)*120", token_seconds=0.02)
    wishes = []
    for _ in range(45):
        worker("D0 O0", token_seconds=0.02)
        assert worker.poller.standing is not None
        wishes.append(worker.poller.standing.wants)
    # The first of these 45 rounds is the second after the one that began the rest.
    assert worker.clock.now - began == 46
    assert wishes.index("degraded") + 2 == seconds


def test_budget_and_sampler_of_the_next_window_change(worker: Worker) -> None:
    worker.windows.events_per_iteration = 100.0
    worker("(D0 O0)*20")
    worker.monitor.change({"event_budget": 2000, "sampler_hertz": 100.0})
    worker("D0 O0")
    assert worker.poller.standing is not None
    assert worker.poller.standing.most_iterations == 2000 // 100
    assert worker.windows.config.sampler_hertz == 100.0


def test_iterations_with_profiling_in_them_are_counted_and_not_timed(worker: Worker) -> None:
    worker("(D0 O0)*30")
    worker.windows.excluded.append(range(40, 45))
    status = worker("(D0 O0)*30")
    assert status.iterations == 60
    # Numbers 30 to 59 have ended; 40 to 44 are not timed.
    assert [math.isnan(pair[1]) for pair in worker.pairs] == [number in range(40, 45) for number in range(30, 60)]


def test_an_iteration_of_several_updates_is_not_timed_when_any_of_them_is_excluded(worker: Worker) -> None:
    worker("((D0 O0)*4 D0 O0 O1)*12")
    worker.windows.excluded.append(range(72, 73))
    worker("((D0 O0)*4 D0 O0 O1)*6")
    # Iterations end at 60, 65, 70, 75, 80, 85; number 72 lies in the one that ends at 75.
    assert [math.isnan(pair[1]) for pair in worker.pairs] == [False, False, False, True, False, False]


def test_windows_are_asked_for_in_updates_also_where_an_iteration_has_five(worker: Worker) -> None:
    worker("((D0 O0)*4 D0 O0 O1)*30")
    standing = worker.poller.standing
    assert standing is not None
    assert standing.iteration == 150
    assert standing.period_seconds == pytest.approx(0.11 / 5)


def test_the_time_after_a_window_is_compared_with_the_time_before(worker: Worker) -> None:
    worker("(D0 O0)*30")
    worker("")
    worker("(D0 O0)*300")
    window = worker.windows.last
    assert window is not None
    status = worker("(D0 O0)*60", token_seconds=0.011)
    assert status.after is not None
    assert status.after[0] == window.id
    assert 1.0 <= status.after[1] <= 1.1


def test_a_store_that_does_not_answer_is_counted_and_said_once(worker: Worker) -> None:
    worker.poller.errors, worker.poller.last_error = 3, "broken pipe"
    assert worker("D0 O0").failures == {"store": 3}
    worker("D0 O0")
    (said,) = worker.said
    assert "the job's store does not answer (broken pipe)" in said


def test_training_that_has_ended_is_finished(worker: Worker) -> None:
    worker("(D0 O0)*20")
    worker.monitor.finished = True
    assert worker("").state == "finished"


def test_a_tick_goes_on_while_the_poller_is_lost(worker: Worker) -> None:
    worker("(D0 O0)*20")
    worker.clock.now += 100
    worker.monitor.tick()
    assert worker.status().store_silent_seconds == pytest.approx(98.0)


def test_without_process_groups_there_is_noprogress() -> None:
    assert progress(None) == ({}, ())
    assert progress(torch.distributed) == ({}, ())


@pytest.fixture
def group() -> Iterator[Any]:
    store = torch.distributed.HashStore()  # type: ignore[attr-defined]
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield torch.distributed
    torch.distributed.destroy_process_group()


def test_collectives_started_are_counted_by_process_group_and_groups_keep_apart(group: Any) -> None:
    extra = group.new_group([0])
    tensor = torch.zeros(1)
    for _ in range(3):
        group.all_reduce(tensor)
    group.all_reduce(tensor, group=extra)
    sequences, groups = progress(group)
    assert sorted(sequences.values()) == [1, 3]
    assert set(sequences) == {name for name, _, _ in groups}
    assert {size for _, size, _ in groups} == {1}
    # Both hold rank 0 alone: one hash.
    assert len({digest for _, _, digest in groups}) == 1


def test_the_thread_runs_rounds_under_the_guard_until_it_is_stopped() -> None:
    rounds: list[str] = []
    ticked = threading.Event()

    def guard(stage: str, call: Any) -> None:
        rounds.append(stage)
        call()

    thread = _every_second(ticked.set, guard)
    thread.start()
    assert ticked.wait(20)
    assert thread.stop()
    assert set(rounds) == {"monitor"}
    assert not [other for other in threading.enumerate() if other.name == "eroica-monitor"]


def test_the_poller_is_woken_once_for_a_new_wish(worker: Worker) -> None:
    woken: list[str] = []
    worker.poller.wake = lambda: woken.append(worker.monitor.wishes.reason)  # type: ignore[method-assign]
    worker("(D0 O0)*30")
    worker("D0 O0")
    worker("D0 O0")
    assert woken == ["reference", ""]


def test_a_second_loop_in_the_process_is_watched_as_the_first_was(worker: Worker) -> None:
    """k-fold, a search for the learning rate and then the training, a notebook that is run again."""
    worker.monitor.wishes.reference_done = True
    for _ in range(14):
        status = worker("(D0 O0)*10")
    assert status.state == "healthy"
    states = []
    for _ in range(14):  # as Recorder counts: the other optimizer is not counted at first
        states.append(worker("(D1 O1)*10").state)
    assert states[-1] == "learning"
    worker.rows.counted = "O1"
    iterations = worker("(D1 O1)*40").iterations
    assert worker("(D1 O1)*5").state == "healthy"
    assert iterations == 180
    assert worker.pairs[:, 1].tolist() == [pytest.approx(0.02)] * 5
    assert worker.guard.counts == {}


def test_a_loop_of_another_speed_with_another_optimizer_is_no_degradation(worker: Worker) -> None:
    worker.monitor.wishes.reference_done = True
    worker("(D0 O0)*60")
    worker.rows.counted = "O1"
    for _ in range(8):
        status = worker("(D0 O1)*20", token_seconds=0.05)
    assert status.state == "healthy"
    assert status.baseline_seconds == pytest.approx(0.1)
    assert [text for text in worker.said if text.startswith("iteration learned")] == [
        "iteration learned: 1 inputs, 1 steps, 0.020 s", "iteration learned: 1 inputs, 1 steps, 0.100 s",
    ]  # fmt: skip


def test_another_iteration_of_the_same_optimizer_gets_a_signature_and_a_reference_of_its_own(worker: Worker) -> None:
    worker.monitor.wishes.reference_done = True
    assert worker("(D0 O0)*60").signature == "1in1step-0p-0"
    for _ in range(3):
        status = worker("(D0 D0 O0)*25")
    assert (status.state, status.signature) == ("healthy", "2in1step-0p-0")
    worker("D0 D0 O0")
    assert "reference window: profiling" in worker.said[-1]


def test_a_round_that_fails_is_counted_in_the_status_that_it_writes_and_claims_no_state(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worker("(D0 O0)*20").state == "healthy"
    with monkeypatch.context() as broken:
        broken.setattr(worker.monitor, "_standing", lambda: 1 / 0)
        for round_ in (1, 2):
            status = worker("(D0 O0)*5")
            assert (status.state, status.failures) == ("", {"monitor": round_})
            assert status.iterations == 20 + 5 * round_
            assert len(worker.pairs) == 5
    assert worker("(D0 O0)*5").state == "healthy"


def test_groups_that_cannot_be_read_do_not_keep_the_status_from_being_written(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "progress", lambda distributed: 1 / 0)
    status = worker("(D0 O0)*20")
    assert (status.state, status.collectives, status.failures) == ("healthy", {}, {"progress": 1})


def test_a_window_that_was_refused_is_counted_said_once_and_wished_for_again_later(worker: Worker) -> None:
    worker.monitor.wishes.reference_done = True
    worker("(D0 O0)*20")
    worker.poller.poll = lambda: setattr(worker.poller, "refusal", "rank 3 is elsewhere")  # type: ignore[method-assign]
    for count in (1, 2):
        (worker.folder / REQUEST_FILE).touch()
        worker("(D0 O0)*2")
        status = worker("(D0 O0)*2")
        assert status.windows == {"manual skipped": count}
        assert not (worker.folder / REQUEST_FILE).exists()
    assert worker.said[1:] == ["manual window refused (rank 0): rank 3 is elsewhere"]
    worker.monitor.wishes.reference_done = False
    worker("(D0 O0)*2")
    assert worker.poller.standing is not None
    assert worker.poller.standing.wants == ""
    worker.clock.now += worker.config.cooldown_seconds
    worker("(D0 O0)*2")
    assert worker.poller.standing.wants == "reference"


def test_only_rank_0_says_what_all_ranks_have_learned(tmp_path: Path, clock: FakeClock) -> None:
    worker = Worker(tmp_path, clock)
    worker.monitor._identity = identity(1, role="")
    worker("(D0 O0)*20")
    assert worker.status().identity.role == "all"
    assert worker.said == []


def test_a_training_without_events_is_blocked_and_its_long_iteration_is_counted_and_not_timed(worker: Worker) -> None:
    worker("(D0 O0)*30")
    for _ in range(10):
        assert worker("").state == "healthy"
    status = worker("")
    assert (status.state, status.silent_seconds) == ("blocked", 11)
    assert status.activity.startswith("no event for 11 s")
    worker.rows.now_ns += 30 * 10**9  # what the hooks saw of it
    status = worker("(D0 O0)*10")
    assert status.state == "healthy"
    assert [pair[1] > 1 for pair in worker.pairs] == [False] * 10
    assert [math.isnan(pair[1]) for pair in worker.pairs] == [True] + [False] * 9
    assert status.irregular == 1


def test_a_loop_that_is_not_known_is_not_blocked(worker: Worker) -> None:
    worker("(D0 O0)*5")
    for _ in range(30):
        assert worker("").state == "learning"


def test_a_blocked_window_counts_among_those_taken_and_disturbs_no_other(worker: Worker) -> None:
    worker("(D0 O0)*30")
    worker("")
    window = worker.windows.activity()
    assert window.endswith("(reference)")
    for _ in range(15):
        status = worker("")
    assert status.state == "blocked"
    standing = worker.poller.standing
    assert standing is not None
    assert standing.windows == 2
    assert worker.windows.activity() == window
    status = worker("(D0 O0)*300")
    assert worker.windows.last is not None
    assert worker.windows.last.reason == "reference"
