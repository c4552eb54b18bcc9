"""When the helper asks a silent training for its stack: only when no Python can be running in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from eroica_otel.profile.asking import Question

PID, TASK, MONITOR = 40, 41, 42
CAUGHT = f"{1 << 22:016x}"
"""SIGURG is 23."""


class Beside:
    """The helper's rounds, 0.1 s each, beside a process that says of itself what is set here."""

    def __init__(self, path: Path) -> None:
        self.sent: list[tuple[int, int]] = []
        self.now = self.silent = 0.0
        self.wakes_a_second = 200.0
        self.state, self.caught = "S", CAUGHT
        self.path = path
        path.write_text("old\n")
        self.question = Question(path, lambda: self.now, self._read, lambda pid, task: self.sent.append((pid, task)))

    def _read(self, path: Path) -> str:
        if path == self.path:
            return path.read_text()
        assert path in (Path("/proc/40/task/41/status"), Path("/proc/40/task/42/status"))
        wakes = int(self.now * self.wakes_a_second)
        return f"State:\t{self.state} (x)\nSigCgt:\t{self.caught}\nvoluntary_ctxt_switches:\t{wakes}\n"

    def rounds(self, seconds: float, stopped: bool = False, task: int = TASK) -> None:
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.silent += 0.1
            self.question.look(PID, task, MONITOR, self.silent, stopped)


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    return Beside(tmp_path / "watchdog")


def test_a_training_that_holds_the_lock_is_asked_once_after_15_seconds(beside: Beside) -> None:
    beside.rounds(14.8)
    assert beside.sent == []
    beside.rounds(100)
    assert beside.sent == [(PID, TASK)]
    assert beside.path.read_text() == ""


def test_the_answer_is_the_stack_outermost_first(beside: Beside) -> None:
    beside.path.write_text('  File "old.py", line 1 in old\n')
    assert beside.question.answer() == []
    beside.rounds(16)
    assert beside.question.answer() == []
    beside.path.write_text(
        'Stack (most recent call first):\n  File "m.py", line 3 in f\n  File "t.py", line 9 in <module>\n'
    )
    answers = [beside.question.answer() for _ in range(6)]
    assert answers == [[]] * 5 + [[("t.py", "<module>", 9), ("m.py", "f", 3)]]


def test_an_answer_that_still_grows_is_waited_for(beside: Beside) -> None:
    beside.rounds(16)
    text = 'Stack (most recent call first):\n  File "m.py", line 3 in f\n  File "t.py", line 9 in <module>\n'
    for written in range(1, len(text), 10):
        beside.path.write_text(text[:written])
        assert [beside.question.answer() for _ in range(4)] == [[]] * 4
    beside.path.write_text(text[:-2])  # in the middle of a line, for whatever time
    assert [beside.question.answer() for _ in range(100)] == [[]] * 100
    beside.path.write_text(text)
    assert [len(beside.question.answer()) for _ in range(6)] == [0] * 5 + [2]


def test_one_that_was_stopped_is_not_asked_when_it_goes_on(beside: Beside) -> None:
    beside.rounds(100, stopped=True)
    beside.rounds(6.8)  # in truth its 1 Hz thread is heard within a second
    assert beside.sent == []


def test_a_clock_that_jumps_is_no_proof(beside: Beside) -> None:
    beside.silent = beside.now = 1000.0
    beside.rounds(6.8)
    assert beside.sent == []


def test_a_1_hz_thread_that_does_not_wait_for_the_lock_is_no_proof(beside: Beside) -> None:
    """It may be lost in a file system while the training runs."""
    beside.wakes_a_second = 0.0
    beside.rounds(100)
    assert beside.sent == []
    beside.wakes_a_second = 200.0
    beside.rounds(5)
    assert beside.sent == [(PID, TASK)]


@pytest.mark.parametrize("change", [{"state": "T"}, {"caught": "0"}, {"state": "Z"}])
def test_no_signal_where_it_would_not_be_handled_now(change: dict[str, str], beside: Beside) -> None:
    vars(beside).update(change)
    beside.rounds(100)
    assert beside.sent == []


def test_a_thread_that_is_not_known_is_not_asked(beside: Beside) -> None:
    beside.rounds(100, task=0)
    assert beside.sent == []


def test_heard_again_the_next_standstill_is_another(beside: Beside) -> None:
    beside.rounds(20)
    beside.silent = 0.0
    beside.rounds(20)
    assert beside.sent == [(PID, TASK)] * 2
