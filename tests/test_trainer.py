"""Windows inside a training process: probe, capture, what stands in their way. Real torch, a real training loop."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from eroica_otel import equipment
from eroica_otel.config import WorkerConfig
from eroica_otel.hardware import host
from eroica_otel.hardware.link import Link, OwnCounters
from eroica_otel.model import Window
from eroica_otel.profile import samples
from eroica_otel.profile.bell import LOADERS_FILE
from eroica_otel.signals.hooks import NEVER, Recorder
from eroica_otel.signals.steps import signature_of
from eroica_otel.trainer import MOST_EXCLUDED, PROBE_PAUSE, Windows
from factories_worker import identity


class Training:
    """A loop of matrix products whose updates go to the recorder, and the windows of its process."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.said: list[str] = []
        self.recorder = Recorder(lambda: None, lambda: None)
        config = WorkerConfig.from_env({}, **({"directory": str(folder)} | options))
        self.failures: list[tuple[str, str]] = []
        self.windows = Windows(
            self.recorder, config, folder, {}, self.said.append, lambda stage, why: self.failures.append((stage, why))
        )
        self.folder = folder

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            torch.ones(8, 8) @ torch.ones(8, 8)
            self.recorder.update(self)

    def input(self) -> None:
        self.recorder.input(1, 2, 3)

    def probe(self) -> None:
        self.windows.probe(identity())
        self.looked()
        self.step(5)

    def take(self, start: int, stop: int, id: int = 1_764_430_000) -> None:
        self.windows.take(Window(id, "manual", start, stop), identity())
        self.looked()

    @staticmethod
    def looked() -> None:
        """Wait for the look at the devices, which has the iterations before a window for it."""
        for thread in threading.enumerate():
            if thread.name == "eroica-devices":
                thread.join(10)

    def captures(self) -> list[str]:
        return sorted(path.parent.name for path in self.folder.glob("*/" + samples.META))


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    made = Training(tmp_path)
    yield made
    made.windows.close()


@pytest.fixture(autouse=True)
def _nothing_runs_after() -> Iterator[None]:
    yield
    assert not torch._C._autograd._profiler_enabled()
    assert not [thread for thread in threading.enumerate() if thread.name == "eroica-sampler"]


def test_the_probe_tells_the_rate_of_events_and_leaves_nothing_behind(training: Training, tmp_path: Path) -> None:
    training.step(3)
    training.probe()
    rate = training.windows.events_per_iteration
    assert rate is not None
    # Three operators in an iteration, and the trace's own header.
    assert 3 <= rate < 100
    assert [path.name for path in tmp_path.iterdir()] == [LOADERS_FILE]
    assert training.recorder.edge == NEVER
    assert not training.windows.busy
    assert training.windows.counts == {}


def test_a_window_that_is_told_to_ends_earlier_and_what_follows_is_timed_again(
    training: Training, tmp_path: Path
) -> None:
    training.probe()
    training.take(8, 100)
    training.step(4)
    assert training.windows.shorten(1_764_430_000, 11) == Window(1_764_430_000, "manual", 8, 11)
    training.step(5)
    assert len(samples.read(tmp_path / "window-1764430000").iteration_ns) == 4
    assert not training.windows.busy
    assert training.said[-1].startswith("window 1764430000 (manual): 3 iterations profiled")
    assert list(training.windows.excluded)[-1] == range(8, 14)


def test_who_hears_of_the_earlier_end_too_late_ends_at_once(training: Training, tmp_path: Path) -> None:
    training.probe()
    training.take(8, 100)
    training.step(7)
    assert training.windows.shorten(1_764_430_000, 10) is not None
    training.step(1)
    assert training.recorder.steps == 13
    assert len(samples.read(tmp_path / "window-1764430000").iteration_ns) == 6


@pytest.mark.parametrize(("window", "stop"), [(1_764_430_000, 12), (1_764_430_000, 11), (1_764_430_001, 10), (0, 10)])
def test_a_window_is_never_made_longer_and_no_other_one_is_ended(training: Training, window: int, stop: int) -> None:
    training.probe()
    training.take(8, 11)
    training.step(4)
    assert training.windows.shorten(window, stop) is None
    assert training.windows.activity() == "profiling iterations 8 to 11 (manual)"
    training.step(2)
    # It is over: what comes now must not begin anything.
    assert training.windows.shorten(1_764_430_000, 10) is None
    assert not training.windows.busy


def test_an_end_is_not_moved_while_the_training_is_at_it(training: Training) -> None:
    training.probe()
    training.take(8, 100)
    training.step(4)
    with training.windows._lock:
        assert training.windows.shorten(1_764_430_000, 11) is None
    assert training.windows.shorten(1_764_430_000, 11) is not None


def test_only_a_running_window_has_a_nearer_end(training: Training) -> None:
    assert (training.windows.agreed, training.windows.nearer_stop(0.0)) == (None, 0)
    training.windows.probe(identity())
    assert (training.windows.agreed, training.windows.nearer_stop(0.0)) == (None, 0)
    training.looked()
    training.step(5)
    training.take(8, 10**9)
    assert training.windows.agreed == Window(1_764_430_000, "manual", 8, 10**9)
    assert training.windows.nearer_stop(0.0) == 0
    training.step(6)
    # Iterations of next to no time: 3 s ahead, and far before the end.
    assert 24 < training.windows.nearer_stop(0.0) < 10**9


def test_a_window_is_captured_between_its_updates_and_handed_over(training: Training, tmp_path: Path) -> None:
    training.probe()
    training.take(8, 11)
    assert training.windows.activity() == "will profile iterations 8 to 11 (manual)"
    training.step(4)
    assert training.recorder.steps == 9
    assert training.windows.activity() == "profiling iterations 8 to 11 (manual)"
    training.step(5)
    capture = samples.read(tmp_path / "window-1764430000")
    assert len(capture.iteration_ns) == 4
    assert capture.window == Window(1_764_430_000, "manual", 8, 11)
    assert training.windows.last == Window(1_764_430_000, "manual", 8, 11)
    assert (training.windows.activity(), training.windows.busy, training.recorder.edge) == ("", False, NEVER)
    assert training.said[-1].startswith("window 1764430000 (manual): 3 iterations profiled; training was paused ")
    assert training.windows.counts == {}
    # Those that carry start or stop, and two after, are not timed.
    assert range(8, 14) in training.windows.excluded


def test_a_late_rank_profiles_what_is_left(training: Training, tmp_path: Path) -> None:
    training.probe()
    training.step(5)
    training.take(6, 13)  # it is at 10 already
    training.step(5)
    assert samples.read(tmp_path / "window-1764430000").window.start == 11


def test_a_window_that_is_over_is_skipped_and_said(training: Training) -> None:
    training.probe()
    training.take(2, 4)
    assert training.windows.counts == {"manual skipped": 1}
    assert training.said == [
        "window 1764430000 (manual) skipped on rank 0: it ended at iteration 4, this rank learned of it at 5"
    ]
    assert not training.windows.busy


def test_without_room_a_window_is_skipped_and_said(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    training.probe()
    monkeypatch.setattr(host, "free_memory_bytes", lambda pid: 0)
    assert training.windows.most_iterations() == 0
    training.take(8, 11)
    training.step(10)
    assert training.windows.counts == {"manual skipped": 1}
    assert "no room for 2 iterations: free memory, or space in " in training.said[-1]
    assert training.captures() == []


def test_the_budget_of_events_limits_the_window(tmp_path: Path) -> None:
    training = Training(tmp_path, event_budget=1000)
    training.probe()
    rate = training.windows.events_per_iteration
    assert rate is not None
    assert training.windows.most_iterations() == int(1000 / rate)
    training.windows.close()


def test_a_probe_that_fails_sets_no_rate_and_is_made_again_later(training: Training) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        training.probe()
    assert training.windows.events_per_iteration is None
    ((stage, why),) = training.failures
    assert stage == "profiler"
    assert why.startswith("the training's own profiler is running")
    assert "no window until it can be tried out" in why
    training.probe()
    assert training.windows.events_per_iteration is None, "too early"
    training.step(PROBE_PAUSE)
    training.probe()
    assert training.windows.events_per_iteration is not None


def test_a_window_gives_way_to_the_profiler_of_the_training(training: Training) -> None:
    training.probe()
    training.take(8, 11)
    training.step(4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        training.step(3)
    assert sum(event.name == "aten::mm" for event in theirs.events()) == 3
    assert training.windows.counts == {"manual skipped": 1}
    assert "the training's own profiler started; it goes first" in training.said[-1]
    assert training.captures() == []
    training.take(20, 22, id=1_764_430_100)
    training.step(20)
    assert training.captures() == ["window-1764430100"]


def test_close_takes_the_look_at_the_training_profiler_away(training: Training) -> None:
    owner: Any = torch.autograd.profiler.profile
    before = owner._prepare_trace, owner._start_trace
    training.probe()
    assert owner._prepare_trace is not before[0]
    training.windows.close()
    assert (owner._prepare_trace, owner._start_trace) == before


def test_validation_inside_a_window_ends_it_before_it_fills_the_memory(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    training.probe()
    training.take(8, 11)
    training.step(4)
    training.input()
    capture = training.windows._capture
    assert capture is not None
    monkeypatch.setattr(capture, "age_seconds", lambda: 66.0)
    seen = []
    for expected in (20.4, 20.0):  # 3 x 20.4 + 5 = 66.2
        training.windows.limit(expected)
        seen.append(training.recorder.overdue)
    assert seen == [False, True]
    training.input()
    assert training.windows.counts == {"manual skipped": 1}
    assert "it lasted 66 s: validation or a checkpoint inside?" in training.said[-1]
    assert not training.recorder.overdue
    assert training.captures() == []
    training.step(10)
    assert training.captures() == []


def test_an_update_from_another_thread_neither_ends_nor_borders_a_window(training: Training, tmp_path: Path) -> None:
    training.probe()
    training.take(8, 10)
    training.step(4)
    other = threading.Thread(target=training.step, args=(3,))
    other.start()
    other.join()
    assert torch._C._autograd._profiler_enabled()
    assert training.captures() == []
    training.step()
    # Its start, the border at 9, and the end at 13.
    assert len(samples.read(tmp_path / "window-1764430000").iteration_ns) == 3


def test_training_that_ends_inside_a_window_ends_it(training: Training, tmp_path: Path) -> None:
    training.probe()
    training.take(8, 11)
    training.step(4)
    training.windows.close()
    assert training.windows.counts == {"manual skipped": 1}
    assert [path.name for path in tmp_path.iterdir()] == [LOADERS_FILE]
    training.step(5)
    assert training.captures() == []


def test_an_error_that_nobody_foresaw_ends_the_window_and_does_not_come_back_at_each_update(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    training.probe()
    training.take(8, 11)
    training.step(4)
    capture = training.windows._capture

    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(capture, "border", broken)
    with pytest.raises(ZeroDivisionError):
        training.step()
    training.step(5)
    assert training.windows.counts == {"manual skipped": 1}
    assert not training.windows.busy


def test_a_loop_without_torch_gets_stacks_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(tmp_path)
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "torch")
        training.probe()
        training.take(8, 11)
        training.step(10)
    assert samples.read(tmp_path / "window-1764430000").trace == ""
    training.windows.close()


def test_stacks_need_no_probe(tmp_path: Path) -> None:
    training = Training(tmp_path, capture="stacks")
    assert training.windows.events_per_iteration == 0.0
    training.take(3, 5)
    training.step(10)
    assert samples.read(tmp_path / "window-1764430000").trace == ""
    training.windows.close()


def test_every_window_closes_the_counters_that_it_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[OwnCounters] = []
    closed: list[OwnCounters] = []

    class Counted(OwnCounters):
        def __init__(self, link: Link, mbit: float) -> None:
            super().__init__(link, mbit)
            opened.append(self)

        def close(self) -> None:
            super().close()
            closed.append(self)

    monkeypatch.setattr(equipment, "OwnCounters", Counted)
    training = Training(tmp_path, nic="lo")
    assert training.windows.equipment.told()["nic"] == "lo"
    training.probe()
    training.take(8, 11)
    training.step(10)
    capture = samples.read(tmp_path / "window-1764430000")
    assert capture.missing == {"nic": "lo does not tell its speed: set EROICA_NIC_MBIT"}
    assert len(opened) == len(closed) == 2
    training.take(20, 22, id=5)
    training.step(7)
    training.windows.close()
    assert opened == closed


def test_an_interface_that_is_gone_is_told_and_the_window_taken_without_it(
    training: Training, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    training.probe()
    monkeypatch.setattr(training.windows.equipment, "_interface", Link("no-such-interface", "no-such-interface"))
    training.take(8, 11)
    training.step(10)
    capture = samples.read(tmp_path / "window-1764430000")
    assert capture.missing == {"nic": "no-such-interface has no counters of bytes: set EROICA_NIC"}
    assert capture.nic_ns.size == 0


def test_the_node_agent_hears_of_windows_whose_length_is_known_and_of_no_probe(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[int, int, float]] = []
    monkeypatch.setattr(training.windows.equipment, "announce", lambda *said: heard.append(said))
    training.probe()
    training.take(8, 11)
    training.step(10)
    assert heard == []
    training.windows.take(Window(7, "manual", 20, 22), identity(3), 4.5)
    assert heard == [(3, 7, 4.5)]
    training.windows.take(Window(8, "manual", 2, 4), identity(3), 4.5)  # it is over
    assert len(heard) == 1


def test_the_signature_is_the_loop_and_the_parameters_of_the_first_optimizer() -> None:
    parameters = [torch.zeros(3, requires_grad=True), torch.zeros(2, 5, requires_grad=True)]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    assert signature_of(((1, (0,)), (1, (0, 1))), optimizer) == "1in1step/1in2step-2p-13"
    assert signature_of(((0, (0,)),), None) == "0in1step-0p-0"
    assert signature_of(((0, (0,)),), object()) == "0in1step-0p-0"


def test_what_is_excluded_is_remembered_for_the_latest_windows_only(training: Training) -> None:
    training.probe()
    for number in range(20):
        training.take(100 + 10 * number, 102 + 10 * number)
        training.windows._clear()
    assert list(training.windows.excluded)[-1] == range(290, 295)
    assert len(training.windows.excluded) == MOST_EXCLUDED


def test_a_child_forked_inside_a_window_leaves_it_alone(training: Training) -> None:
    owner: Any = torch.autograd.profiler.profile
    before = owner._prepare_trace
    training.probe()
    training.take(8, 11)
    training.step(4)
    capture = training.windows._capture
    training.windows.forget()
    assert owner._prepare_trace is before
    training.windows._capture = capture
    training.step(5)
    assert training.captures() == ["window-1764430000"]


def in_backward(training: Training, times: int, inputs: bool = True) -> None:
    """Iterations whose update runs inside the backward pass."""
    parameter: Any = torch.zeros(8, requires_grad=True)
    parameter.register_post_accumulate_grad_hook(lambda _: training.recorder.update(training))
    for _ in range(times):
        if inputs:
            training.input()
        (parameter * 2).sum().backward()


def test_an_optimizer_in_the_backward_pass_has_its_windows_from_input_to_input(
    training: Training, tmp_path: Path
) -> None:
    """To start or stop torch's profiler inside a backward pass crashes the process."""
    in_backward(training, 3)
    training.windows.probe(identity())
    in_backward(training, 6)
    assert training.windows.events_per_iteration
    training.take(11, 14)
    in_backward(training, 5)
    assert training.recorder.steps == 14
    assert training.captures() == []
    training.input()
    capture = samples.read(tmp_path / "window-1764430000")
    assert capture.window == Window(1_764_430_000, "manual", 11, 14)
    assert len(capture.iteration_ns) == 4
    assert not training.recorder.postponed


def test_without_inputs_an_optimizer_in_the_backward_pass_gets_no_window_and_is_told_why(training: Training) -> None:
    training.step(3)
    training.probe()
    training.take(11, 14)
    in_backward(training, 8, inputs=False)
    assert (training.captures(), training.windows.busy) == ([], False)
    assert "the optimizer runs inside the backward pass and no input is seen" in training.said[-1]


def test_the_loaders_processes_are_left_alone_where_that_is_asked_for(tmp_path: Path) -> None:
    training = Training(tmp_path, loaders=False)
    assert training.windows.bell is None
    assert list(tmp_path.iterdir()) == []
    training.windows.close()


def test_the_probe_wakes_nobody_and_a_window_does(training: Training) -> None:
    bell = training.windows.bell
    assert bell is not None
    training.probe()
    assert bell.word == 0
    training.take(8, 11)
    training.step(4)
    assert bell.word == 1
    training.step(4)
    assert bell.word == 2
    training.windows.forget()
    assert training.windows.bell is None


def test_where_the_word_cannot_be_made_windows_go_on_without(tmp_path: Path) -> None:
    failed: list[str] = []

    def guard(stage: str, call: Any) -> None:
        with pytest.raises(OSError, match="loaders"):
            call()
        failed.append(stage)

    config = WorkerConfig.from_env({}, directory=str(tmp_path))
    nowhere = tmp_path / "gone"
    windows = Windows(Recorder(lambda: None, lambda: None), config, nowhere, {}, lambda text: None, print, guard)
    assert failed == ["loaders"]
    assert windows.bell is None
