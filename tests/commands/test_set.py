"""``eroica-otel set`` and ``disable``: who is meant, who answers, and the exit code."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from eroica_otel.commands.main import main
from eroica_otel.orders import Orders
from eroica_otel.status import STATUS_FILE, StatusWriter
from factories_worker import identity, status


class Workers:
    """Workers of this process' own, each of which looks for orders until the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.values: dict[int, dict[str, object]] = {}
        self.disabled: list[int] = []
        self.stopping = threading.Event()
        self.threads: list[threading.Thread] = []

    def add(self, rank: int, job: str, answers: bool = True) -> None:
        folder = self.directory / f"pid-{rank}"
        folder.mkdir(parents=True)
        StatusWriter(folder / STATUS_FILE).write(status(pid=os.getpid(), identity=identity(rank, training_job=job)))
        orders = Orders(
            folder, lambda values: self.values.update({rank: dict(values)}), lambda: self.disabled.append(rank)
        )
        if answers:
            self.threads.append(threading.Thread(target=self._look, args=(orders,), daemon=True))
            self.threads[-1].start()

    def _look(self, orders: Orders) -> None:
        while not self.stopping.wait(0.01):
            orders.look()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    made = Workers(tmp_path)
    yield made
    made.stopping.set()
    for thread in made.threads:
        thread.join()


def test_every_worker_of_the_job_changes_and_says_so(workers: Workers, capsys: pytest.CaptureFixture[str]) -> None:
    for rank, job in ((0, "a"), (1, "a"), (2, "b")):
        workers.add(rank, job)
    assert main(["set", "--dir", str(workers.directory), "--job", "a", "window_seconds=10"]) == 0
    assert workers.values == {0: {"window_seconds": 10.0}, 1: {"window_seconds": 10.0}}
    assert capsys.readouterr().out == "rank 0 of a: window_seconds=10\nrank 1 of a: window_seconds=10\n"


def test_every_worker_detaches_and_says_so(workers: Workers, capsys: pytest.CaptureFixture[str]) -> None:
    workers.add(0, "a")
    workers.add(1, "b")
    assert main(["disable", "--dir", str(workers.directory)]) == 0
    assert capsys.readouterr().out == "rank 0 of a: detached\nrank 1 of b: detached\n"


def test_who_does_not_answer_is_named(
    workers: Workers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eroica_otel.orders.Order.answer", lambda order, folder: None)
    workers.add(3, "a", answers=False)
    assert main(["set", "--dir", str(workers.directory), "window_seconds=10"]) == 3
    out, err = capsys.readouterr()
    assert out == "rank 3 of a: no answer; is its process stopped or stuck?\n"
    assert err == "eroica-otel: not done by rank 3 of a\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["set", "windows=3"], "'windows' is no option"),
        (["set", "role=a"], "role cannot change while a training runs"),
        (["set", "window_seconds=10"], "no training that eroica_otel watches runs here"),
        (["disable"], "no training that eroica_otel watches runs here"),
    ],
)
def test_what_cannot_be_done_is_wrong_usage(
    words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *rest = words
    assert main([command, "--dir", str(tmp_path), *rest]) == 2
    assert complaint in capsys.readouterr().err


def test_another_jobs_name_is_said_with_those_that_run(workers: Workers, capsys: pytest.CaptureFixture[str]) -> None:
    workers.add(0, "a")
    assert main(["disable", "--dir", str(workers.directory), "--job", "b"]) == 2
    assert "running here: a; " in capsys.readouterr().err
    assert workers.disabled == []
