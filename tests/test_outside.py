"""A worker that cannot speak for itself: state and blocked window as its helper makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eroica_otel.model import WorkerWindow
from eroica_otel.outside import Frozen, Stops
from eroica_otel.profile import frozen as module
from eroica_otel.status import WATCHDOG_FILE
from factories_worker import status

HEARD = 1_000
WALL = 1_764_430_000.0
DUMP = """Stack (most recent call first):
  File "/job/{file}", line 12 in {function}
  File "/job/train.py", line 30 in <module>
"""


class Beside:
    """The helper's view; ``at`` plays one round after so many seconds of silence."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder, self.stops = folder, Stops()
        self.frozen = Frozen(folder, 600.0)
        given: dict[str, Any] = {"recent_seconds": 0.1, "thread": 77, "silent_seconds": 1.0, "collectives": {"0": 5}}
        self.status = status(**(given | changes))

    def at(self, seconds: float, process: str = "S") -> WorkerWindow | None:
        now = int((HEARD + seconds) * 1e9)
        self.stops.see(process, now)
        return self.frozen.see(self.status, HEARD * 10**9, now, self.stops, WALL + seconds)

    def dump(self, file: str = "model.py", function: str = "forward") -> None:
        """Play what the training writes when it is asked, which test_asking.py and the real hang of tests/e2e cover."""
        (self.folder / WATCHDOG_FILE).write_text(DUMP.format(file=file, function=function))
        self.frozen._question._asked = True
        self.hear()

    def hear(self) -> None:
        """Play the rounds in which it has not grown."""
        for _ in range(6):
            self.frozen._question.answer()


@pytest.fixture(autouse=True)
def _no_py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.shutil, "which", lambda name, path=None: None)  # type: ignore[attr-defined]


def test_a_stopped_worker_is_reported_at_once_without_a_stack(tmp_path: Path) -> None:
    beside = Beside(tmp_path)
    assert beside.at(0.5, "T") is None
    assert beside.at(10.0, "T") is None
    window = beside.at(10.5, "T")
    assert window is not None
    assert (window.reason, window.window_id, window.iterations, window.patterns) == ("blocked", 1_764_430_010, 0, ())
    assert window.seconds == pytest.approx(10.5)
    assert window.stopped_seconds == pytest.approx(10.0)
    assert window.silent_seconds == pytest.approx(11.5)
    assert window.progress == {"0": (5, None)}
    assert sum(window.kinds.values()) == 1
    assert beside.frozen.state == "blocked"


def test_of_a_frozen_one_the_stack_is_waited_for(tmp_path: Path) -> None:
    beside = Beside(tmp_path)
    assert beside.at(10.5) is None
    assert beside.frozen.state == "blocked"
    beside.dump()
    window = beside.at(15.5)
    assert window is not None
    (pattern,) = window.patterns
    assert (pattern.kind, pattern.beta, pattern.family) == ("python", 1.0, "other")
    assert pattern.stack == ("__main__:<module>:30", "model:forward:12")
    assert window.stopped_seconds == 0


def test_without_a_stack_the_window_comes_all_the_same(tmp_path: Path) -> None:
    beside = Beside(tmp_path)
    assert beside.at(19.0) is None
    window = beside.at(19.1)
    assert window is not None
    assert window.patterns == ()


def test_there_is_one_window_until_the_rest_is_over_which_doubles(tmp_path: Path) -> None:
    beside = Beside(tmp_path)
    seconds = [second for second in range(0, 2000, 10) if beside.at(float(second), "T") is not None]
    assert seconds == [20, 620, 1820]


def test_heard_again_it_begins_anew(tmp_path: Path) -> None:
    beside = Beside(tmp_path)
    assert beside.at(11.0, "T") is not None
    assert beside.at(1.0) is None
    assert beside.frozen.state == ""
    assert beside.at(11.0, "T") is not None


def test_a_save_that_holds_the_lock_is_a_pause_as_long_as_it_is_believed(tmp_path: Path) -> None:
    import torch.serialization

    beside = Beside(tmp_path)
    beside.dump()
    text = (tmp_path / WATCHDOG_FILE).read_text()
    line = torch.serialization.save.__code__.co_firstlineno + 1
    saving = f'File "{torch.serialization.__file__}", line {line} in save'
    (tmp_path / WATCHDOG_FILE).write_text(text.replace('File "/job/model.py", line 12 in forward', saving))
    beside.hear()
    assert beside.at(16.0) is None
    assert beside.frozen.state == "paused"
    window = beside.at(601.0)
    assert beside.frozen.state == "blocked"
    assert window is not None
    assert window.patterns[0].stack[-1].startswith("torch.serialization:save:")


def test_five_iterations_may_pass_where_they_are_long(tmp_path: Path) -> None:
    beside = Beside(tmp_path, recent_seconds=60.0)
    assert beside.at(300.0, "T") is None
    assert beside.frozen.state == ""
    assert beside.at(300.5, "T") is not None


@pytest.mark.parametrize("state", ["learning", "unmatched", "finished", ""])
def test_a_worker_whose_loop_is_not_known_does_not_hang(state: str, tmp_path: Path) -> None:
    beside = Beside(tmp_path, state=state)
    assert beside.at(1000.0, "T") is None
    assert beside.frozen.state == ""
