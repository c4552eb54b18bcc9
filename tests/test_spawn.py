"""The helper beside a worker: what it inherits, that it is started again, that it is given up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from eroica_otel import spawn
from eroica_otel.commands.run import STARTUP
from eroica_otel.config import WorkerConfig
from eroica_otel.spawn import CONFIG_FILE, HEALTHY_SECONDS, MOST_STARTS, HelperProcess, helper_environment
from factories_worker import FakeClock


def test_the_helper_looks_like_no_rank_and_instruments_nothing() -> None:
    given = {
        "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "SLURM_PROCID": "1", "OMPI_COMM_WORLD_RANK": "1",
        "PMI_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "r", "LD_PRELOAD": "x.so",
        "OTEL_PYTHON_DISTRO": "d", "TORCH_LOGS": "all",
    }  # fmt: skip
    kept = helper_environment(given | {"PATH": "/bin", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "EROICA_TEAM": "t"})
    assert not set(given) & set(kept)
    assert (kept["PATH"], kept["OTEL_EXPORTER_OTLP_ENDPOINT"], kept["EROICA_TEAM"]) == ("/bin", "http://x", "t")
    assert kept["EROICA_DISABLED"] == "1"
    assert kept["OMP_NUM_THREADS"] == "1"


def test_folders_that_instrument_leave_the_path_and_those_of_the_user_stay(tmp_path: Path) -> None:
    opentelemetry = tmp_path / "opentelemetry" / "instrumentation"
    project = tmp_path / "eroica_project"
    for folder in (opentelemetry, project):
        folder.mkdir(parents=True)
        (folder / "sitecustomize.py").touch()
    path = os.pathsep.join([str(STARTUP), str(opentelemetry), str(project), "/lib/x", ""])
    assert helper_environment({"PYTHONPATH": path})["PYTHONPATH"] == f"{project}{os.pathsep}/lib/x"
    assert helper_environment({})["PYTHONPATH"] == ""


@dataclass
class Fake:
    """A process that runs until the test says how it ended."""

    command: list[str]
    options: dict[str, Any]
    code: int | None = None
    pid: int = 77
    asked: list[str] = field(default_factory=list)

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.asked.append("terminate")

    def kill(self) -> None:
        self.asked.append("kill")
        self.code = -9

    def wait(self, timeout: float | None = None) -> int:
        if self.code is None:
            raise subprocess.TimeoutExpired("helper", timeout or 0)
        return self.code


@dataclass
class Beside:
    """A worker's side of its helper, with the processes that were started."""

    helper: HelperProcess
    clock: FakeClock
    started: list[Fake]
    failures: list[tuple[str, str]]


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Beside:
    started: list[Fake] = []

    def popen(command: list[str], **options: Any) -> Fake:
        started.append(Fake(command, options))
        return started[-1]

    monkeypatch.setattr(spawn.subprocess, "Popen", popen)  # type: ignore[attr-defined]
    monkeypatch.setattr(spawn.os, "setpriority", lambda *_: None)  # type: ignore[attr-defined]
    failures: list[tuple[str, str]] = []
    clock = FakeClock()
    config = WorkerConfig.from_env({}, team="vision")
    helper = HelperProcess(tmp_path, config, {}, lambda stage, text: failures.append((stage, text)), clock)
    return Beside(helper, clock, started, failures)


def test_it_is_started_once_with_the_interpreter_folder_and_parent(beside: Beside, tmp_path: Path) -> None:
    assert beside.helper.pid is None
    beside.helper.keep_running()
    beside.helper.keep_running()
    (process,) = beside.started
    assert process.command == [sys.executable, "-m", "eroica_otel.helper", str(tmp_path), str(os.getpid())]
    assert process.options["stdin"] == process.options["stdout"] == subprocess.DEVNULL
    assert beside.helper.pid == 77


def test_it_reads_the_options_that_the_worker_has(beside: Beside, tmp_path: Path) -> None:
    assert json.loads((tmp_path / CONFIG_FILE).read_text())["team"] == "vision"


def test_options_that_a_cleaner_has_taken_are_written_again_and_a_folder_that_is_gone_is_no_failure(
    beside: Beside, tmp_path: Path
) -> None:
    beside.helper.keep_running()
    (tmp_path / CONFIG_FILE).unlink()
    beside.started[0].code = -9
    beside.helper.keep_running()
    assert json.loads((tmp_path / CONFIG_FILE).read_text())["team"] == "vision"
    (tmp_path / CONFIG_FILE).unlink()
    tmp_path.rmdir()
    beside.started[1].code = -9
    beside.helper.keep_running()
    assert len(beside.started) == 3


def test_a_helper_without_a_folder_ends_in_silence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eroica_otel.helper", str(tmp_path / "gone"), str(os.getpid())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_helper_that_was_killed_is_counted_and_started_again(beside: Beside) -> None:
    beside.helper.keep_running()
    beside.started[0].code = -9
    beside.helper.keep_running()
    assert len(beside.started) == 2
    ((stage, text),) = beside.failures
    assert stage == "helper"
    assert "ended with code -9; it is started again; training is not affected" in text


def test_a_helper_that_always_dies_at_once_is_given_up(beside: Beside) -> None:
    for _ in range(20):
        beside.helper.keep_running()
        if beside.started:
            beside.started[-1].code = 1
    assert len(beside.started) == MOST_STARTS
    assert len(beside.failures) == MOST_STARTS
    assert "nothing is exported until a restart" in beside.failures[-1][1]


def test_deaths_that_lie_far_apart_do_not_add_up(beside: Beside) -> None:
    for _ in range(3 * MOST_STARTS):
        beside.helper.keep_running()
        beside.clock.now += HEALTHY_SECONDS + 1
        beside.started[-1].code = 1
    assert len(beside.started) == 3 * MOST_STARTS


def test_stop_asks_first_and_kills_what_does_not_end(beside: Beside) -> None:
    beside.helper.keep_running()
    beside.helper.stop()
    assert beside.started[0].asked == ["terminate", "kill"]
    assert beside.helper.pid is None
    beside.helper.stop()


@pytest.mark.parametrize("end", ["stop", "killed"])
def test_a_real_helper_starts_and_ends(end: str, tmp_path: Path) -> None:
    failures: list[str] = []
    environment = dict(os.environ) | {"OTEL_METRICS_EXPORTER": "none"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    helper = HelperProcess(tmp_path, WorkerConfig.from_env({}), environment, lambda stage, text: failures.append(text))
    helper.keep_running()
    pid = helper.pid
    assert pid is not None
    # From its first moment on: its imports would compete with the training.
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5
    if end == "killed":
        os.kill(pid, 9)
        assert helper._process is not None
        helper._process.wait(20)
        helper.keep_running()
        assert len(failures) == 1
        assert helper.pid not in (None, pid)
    helper.stop()
    assert helper.pid is None
    assert not Path(f"/proc/{pid}/cmdline").exists()
