"""Hangs of a real training of four processes: what each rank, or its helper, delivers, what a real localizer makes of
it, and that training goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eroica_otel import names
from eroica_otel.demo.stage import free_port
from eroica_otel.model import Finding, Report, WorkerWindow
from eroica_otel.publish.report import json as report_json
from eroica_otel.query.decode import decode
from eroica_otel.status import Status, live_workers
from jobs import scrape, wait_until

RANKS = 4
JOB = "hanging"
HANG_SECONDS = 90.0
"""Patience with each step, and the most that a verdict may take."""
PAUSE_SECONDS = 20
"""How long this training believes a pause; ten minutes would be too long for a test."""


class Training:
    """A training under torchrun, each rank with a page of its own to scrape, and the localizer that it delivers to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.control = folder, folder / "control"
        self.control.mkdir()
        self.log, self.faults, self.began, self.onset = folder / "log", 0, 0, 0.0
        self.port = free_port() // 10 * 10
        self.listen = f"127.0.0.1:{free_port()}"
        self.localizer, self.process = self._localizer(), self._torchrun()

    def _localizer(self) -> subprocess.Popen[bytes]:
        where = ["--listen", self.listen, "--metrics", f"127.0.0.1:{free_port()}"]
        files = ["--state", str(self.folder / "state"), "--report", str(self.folder)]
        command = [sys.executable, "-m", "eroica_otel.commands.main", "localize", *where, *files]
        with (self.folder / "localizer").open("w") as output:
            return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    def _torchrun(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "EROICA_DELIVERIES": "prometheus,otlp", "OTEL_EXPORTER_PROMETHEUS_PORT": str(self.port),
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{self.listen}",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000", "EROICA_DIR": str(self.folder / "workers"),
            "EROICA_WINDOW_SECONDS": "3", "EROICA_COOLDOWN_SECONDS": "15", "EROICA_REFERENCE": "0",
            "EROICA_CAPTURE": "stacks", "OMP_NUM_THREADS": "1", "EROICA_TRAINING_JOB": JOB,
        }  # fmt: skip
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        launcher += ["--max-restarts", "1"]
        script = [str(Path(__file__).parent / "hanging.py"), "--control", str(self.control)]
        script += ["--pause-seconds", str(PAUSE_SECONDS)]
        with self.log.open("w") as output:
            return subprocess.Popen(
                [sys.executable, "-u", *launcher, *script],
                env=environment, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    def end(self) -> None:
        """Kill all of it, also the child that a rank leaves behind."""
        (self.control / "stop").write_text("0")
        for worker in self.workers():
            os.kill(worker.pid, signal.SIGKILL)
        for process in (self.process, self.localizer):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def workers(self) -> list[Status]:
        return [status for _, status in live_workers(self.folder / "workers")]

    def states(self) -> list[str]:
        return [status.state for status in self.workers()]

    def window(self, rank: int) -> WorkerWindow | None:
        """Return the blocked window that a rank shows, unless it is of an earlier hang."""
        window = decode(scrape(self.port + rank))
        if window is None or window.reason != "blocked" or window.window_id < self.began:
            return None
        return window

    def state(self, rank: int) -> str:
        """Return the state that a rank exports."""
        shown = [p for p in scrape(self.port + rank) if p.name == names.WORKER_STATE.name and p.value]
        return shown[0].labels["state"] if shown else ""

    def begin(self) -> None:
        """From here on windows are those of the next hang."""
        self.onset = time.monotonic()
        self.began = int(time.time()) + 5

    def hang(self, rank: int, kind: str) -> None:
        self.begin()
        self.faults += 1
        (self.control / f"fault-{self.faults}.part").write_text(f"{rank} {kind}")
        os.replace(self.control / f"fault-{self.faults}.part", self.control / f"fault-{self.faults}")

    def release(self) -> None:
        (self.control / f"release-{self.faults}").touch()

    def until(self, reached: Callable[[], bool], what: str) -> None:
        def checked() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            assert self.localizer.poll() is None, (self.folder / "localizer").read_text()
            return reached()

        wait_until(checked, what, HANG_SECONDS)

    def all_healthy(self) -> None:
        moving = [status.iterations for status in self.workers()]
        self.until(
            lambda: (
                self.states() in (["healthy"] * RANKS, ["degraded"] * RANKS)
                and all(w.iterations > before + 5 for w, before in zip(self.workers(), moving, strict=True))
            ),
            "all ranks to train",
        )

    def windows(self) -> list[WorkerWindow]:
        """Wait for a new blocked window of each rank."""
        found: dict[int, WorkerWindow] = {}

        def complete() -> bool:
            for rank in range(RANKS):
                if rank not in found and (window := self.window(rank)) is not None:
                    found[rank] = window
            return len(found) == RANKS

        self.until(complete, "blocked windows of all ranks")
        ids = [window.window_id for window in found.values()]
        assert max(ids) - min(ids) < 60
        return [found[rank] for rank in range(RANKS)]

    def judged(self) -> Report | None:
        """Return the localizer's newest verdict, unless it is on an earlier hang."""
        path = self.folder / "report.json"
        report = report_json.parse(path.read_text()) if path.exists() else None
        return report if report is not None and report.window_id >= self.began else None

    def verdict(self, confidence: str = "high") -> Finding:
        """Wait for the first verdict on this hang; return what it found, all others being its victims."""
        self.until(lambda: self.judged() is not None, f"a verdict; see {self.folder / 'localizer'}")
        print(f"{time.monotonic() - self.onset:.0f} s from the onset to the verdict")
        report = self.judged()
        assert report is not None
        assert report.reason == "blocked"
        (finding,) = report.findings
        (victims,) = report.victims
        assert victims.waits_for == finding.ranks
        assert victims.ranks == tuple(rank for rank in range(RANKS) if rank not in finding.ranks)
        assert (finding.severity, finding.confidence, finding.impact_ratio) == ("critical", confidence, 1.0)
        return finding


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
    assert [w.irregular - old for w, old in zip(training.workers(), before, strict=True)] == [1] * RANKS


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
    found = training.verdict()
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
