"""A real node agent in a process of its own, and a real training of two ranks that takes its samples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.demo.quota import limited
from eroica_otel.demo.stage import free_port
from eroica_otel.hardware.announce import SOCKET
from jobs import wait_until

HERE = Path(__file__).parent
RANKS = 2
WINDOW = 1_764_430_000


@contextmanager
def ranks(tmp_path: Path, shared: Path) -> Iterator[list[subprocess.Popen[str]]]:
    port = str(free_port())
    running: list[subprocess.Popen[str]] = []
    try:
        for rank in range(RANKS):
            folder = tmp_path / f"rank-{rank}"
            folder.mkdir()
            job = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            command = [sys.executable, str(HERE / "sampled_training.py"), str(folder), str(shared)]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            running.append(
                subprocess.Popen(command, env=os.environ | job | {"OMP_NUM_THREADS": "1"}, text=True, **pipes)
            )
        yield running
    finally:
        for process in running:
            process.kill()
            process.communicate()


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr is not None else ""
    found: dict[str, Any] = json.loads(line)
    return found


def let_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@contextmanager
def agent(shared: Path) -> Iterator[None]:
    """Run the agent on the interfaces; it is killed at the end, as by the system."""
    command = [sys.executable, "-m", "eroica_hardware", "--dir", str(shared), "--sources", "net", "--listen", "none"]
    running = subprocess.Popen([*command, "--nic-mbit", "8000"])
    try:
        wait_until(lambda: (shared / SOCKET).exists() and (shared / "net.ring").exists(), "the agent")
        yield
    finally:
        running.kill()
        running.wait()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.mark.long
def test_mu_and_sigma_of_the_agents_samples_are_those_of_the_workers_own(tmp_path: Path, shared: Path) -> None:
    with ranks(tmp_path, shared) as running, agent(shared):
        for process in running:
            told(process)
            let_go(process)
        results = [told(process) for process in running]
    for result in results:
        assert result["failures"] == []
        assert result["missing"] == {}
        assert result["finer"]
        # The agent was asked for a window, so it sampled at 500 Hz, of which every second is kept.
        assert 3 < result["step_ms"] < 7
        compare(result["own"], result["agent"])


def test_an_agent_that_is_killed_in_the_window_leaves_the_workers_own_samples(tmp_path: Path, shared: Path) -> None:
    with ranks(tmp_path, shared) as running:
        with agent(shared):
            for process in running:
                told(process)
                let_go(process)
            windows = [tmp_path / f"rank-{rank}" / f"window-{WINDOW}" for rank in range(RANKS)]
            wait_until(lambda: all(folder.exists() for folder in windows), "the window to begin")
        results = [told(process) for process in running]
    for result in results:
        assert result["failures"] == []
        assert not result["finer"]
        assert result["missing"] == {}
        assert result["own"][augmenting(result["own"])][1] > 0


def test_a_cpu_quota_on_one_rank_shows_in_its_mu_and_in_its_throttled_time(tmp_path: Path, shared: Path) -> None:
    with ranks(tmp_path, shared) as running:
        pids = [told(process)["pid"] for process in running]
        with limited(pids[1], 0.25):
            for process in running:
                let_go(process)
            free, slow = (told(process) for process in running)
    assert not free["finer"]
    assert free["missing"] == slow["missing"] == {}  # a CPU job needs no agent
    # Where others leave it less than its quota, it is seldom throttled; the free rank never is.
    assert slow["throttled"] > 0.02
    assert not free["throttled"]
    for name in (augmenting(slow["own"]), "aten::mm"):
        mu, others = slow["own"][name][1], free["own"][name][1]
        assert mu < 0.4, name
        # A free rank has its core, or says that it waited for one: so many others run that no quota is reached.
        assert mu < others or free["waited"] > 0.2, name


def compare(own: Mapping[str, Any], agent: Mapping[str, Any]) -> None:
    """Both sampled the same, at other instants: a burst that one sees whole the other may see in two halves."""
    kinds = {name: value[0] for name, value in own.items()}
    assert kinds == {name: value[0] for name, value in agent.items()}
    assert set(kinds.values()) == {"cpu", "nic"}
    for name, (resource, mu, sigma, peaks) in own.items():
        _, other_mu, other_sigma, other_peaks = agent[name]
        assert abs(mu - other_mu) < 0.1, name
        assert abs(sigma - other_sigma) < (0.2 if resource == "nic" else 0.12), name
        assert peaks.keys() == other_peaks.keys()
        assert all(abs(peaks[way] - other_peaks[way]) < 0.25 for way in peaks), name
    assert own[augmenting(own)][1] - own[fetching(own)][1] > 0.2, "a core is used in the one and not in the other"


def augmenting(shown: Mapping[str, Any]) -> str:
    return next(name for name in shown if name.startswith("augment"))


def fetching(shown: Mapping[str, Any]) -> str:
    return next(name for name in shown if name.startswith("fetch"))
