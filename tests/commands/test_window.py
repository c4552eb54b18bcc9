"""``eroica-otel window``: leaves a request with one worker of each job, or says why it cannot."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eroica_otel.commands.main import main
from eroica_otel.commands.window import request
from eroica_otel.errors import ConfigError
from eroica_otel.status import REQUEST_FILE, STATUS_FILE, StatusWriter
from factories_worker import identity, status


@pytest.fixture
def sleepers() -> Iterator[list[int]]:
    """Give the numbers of three processes that run, as three trainings would."""
    running = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    yield [process.pid for process in running]
    for process in running:
        process.kill()
        process.wait()


def worker(folder: Path, pid: int, rank: int, job: str, state: str = "healthy", team: str = "vision") -> Path:
    """Leave what a worker leaves; return its request file."""
    (folder / str(pid)).mkdir(parents=True)
    made = StatusWriter(folder / str(pid) / STATUS_FILE)
    made.write(status(pid=pid, state=state, identity=identity(rank, training_job=job, team=team)))
    return folder / str(pid) / REQUEST_FILE


def test_one_worker_of_each_job_is_asked_and_it_is_the_lowest_rank(
    tmp_path: Path, sleepers: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    second = worker(tmp_path, sleepers[0], 3, "a")
    first = worker(tmp_path, sleepers[1], 1, "a")
    other = worker(tmp_path, sleepers[2], 0, "b")
    assert main(["window", "--dir", str(tmp_path)]) == 0
    assert [path.exists() for path in (first, second, other)] == [True, False, True]
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" for a window")[0] for line in lines] == ["asked rank 1 of a", "asked rank 0 of b"]


def test_a_job_can_be_chosen(tmp_path: Path, sleepers: list[int]) -> None:
    first = worker(tmp_path, sleepers[0], 0, "a")
    second = worker(tmp_path, sleepers[1], 0, "b")
    assert [asked.identity.training_job for asked in request(tmp_path, "b")] == ["b"]
    assert (first.exists(), second.exists()) == (False, True)


def test_asked_twice_is_asked_once(tmp_path: Path, sleepers: list[int]) -> None:
    path = worker(tmp_path, sleepers[0], 0, "a")
    assert [asked.identity.rank for asked in (*request(tmp_path), *request(tmp_path))] == [0, 0]
    assert path.exists()


def test_jobs_of_one_name_and_two_teams_are_two(
    tmp_path: Path, sleepers: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    first = worker(tmp_path, sleepers[0], 0, "a", team="vision")
    second = worker(tmp_path, sleepers[1], 0, "a", state="blocked", team="nlp")
    assert main(["window", "--dir", str(tmp_path)]) == 0
    assert (first.exists(), second.exists()) == (True, True)
    lines = capsys.readouterr().out.splitlines()
    assert sorted("when it goes on" in line for line in lines) == [False, True]


def test_without_any_training_the_error_says_where_it_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["window", "--dir", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"nobody to ask under {tmp_path}: no training that eroica_otel watches runs here" in said
    assert "or give --dir or --job" in said


def test_another_job_is_named(tmp_path: Path, sleepers: list[int]) -> None:
    worker(tmp_path, sleepers[0], 0, "a")
    worker(tmp_path, sleepers[1], 0, "b")
    with pytest.raises(ConfigError, match="running here: a, b; run this as the training's user"):
        request(tmp_path, "c")


def test_one_that_has_finished_or_died_is_not_asked(tmp_path: Path, sleepers: list[int]) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    finished = worker(tmp_path, sleepers[0], 0, "a", state="finished")
    dead = worker(tmp_path, ended.pid, 1, "a")
    with pytest.raises(ConfigError):
        request(tmp_path)
    assert not finished.exists()
    assert not dead.exists()


def test_it_looks_where_the_workers_of_this_environment_are(
    tmp_path: Path, sleepers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EROICA_DIR", str(tmp_path))
    path = worker(tmp_path, sleepers[0], 0, "a")
    assert main(["window"]) == 0
    assert path.exists()
    assert os.listdir(tmp_path) == [str(sleepers[0])]
