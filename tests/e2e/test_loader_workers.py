"""A real training that waits for its DataLoader: the window names the function inside the processes that is slow."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from eroica_otel import names
from eroica_otel.model import Point, WorkerWindow
from eroica_otel.query.decode import decode
from jobs import Job, job, value, wait_until

LOADING = Path(__file__).parent / "loading.py"
SETTINGS = {"EROICA_WINDOW_SECONDS": "3"}
READ_SHARE = 0.75
"""3.75 ms of each 5 ms that a sample takes."""


def window_of(training: Job, wanted: Callable[[list[Point]], bool] = bool) -> WorkerWindow:
    """Return the first window that the training shows and ``wanted`` says yes to."""
    found: list[WorkerWindow] = []

    def shown() -> bool:
        points = training.points()
        window = decode(points) if value(points, names.WINDOW_ID.name) and wanted(points) else None
        if window is not None and window.patterns:
            found.append(window)
        return bool(found)

    wait_until(shown, f"a window; see {training.log_path}", 120.0)
    return found[0]


def shares(window: WorkerWindow) -> Counter[str]:
    """Return the share of the window by the bare name of the loader's functions, all of the input as "input"."""
    found: Counter[str] = Counter()
    for pattern in window.patterns:
        if pattern.family in ("input", "loader"):
            found["input"] += pattern.beta  # type: ignore[assignment]
        if pattern.family == "loader":
            found[pattern.function.partition(" (")[0]] += pattern.beta  # type: ignore[assignment]
    return found


@pytest.mark.parametrize(
    "arguments", [("--method", "fork"), ("--method", "spawn", "--persistent")], ids=["fork", "spawn"]
)
def test_the_window_names_what_the_processes_spend_their_time_on(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with job(tmp_path, *arguments, script=LOADING, **SETTINGS) as training:
        found = window_of(training)
        assert value(training.points(), names.RESOURCE_MISSING.name, resource="loader") == 0
        log = training.end()
        wait_until(lambda: not any((tmp_path / "workers").iterdir()), "the helper to leave nothing behind")
    waited = float(re.search(r"waited (\S+)", log)[1])  # type: ignore[index]
    share = shares(found)
    assert sum(found.kinds.values()) == pytest.approx(1.0)
    assert share["input"] == pytest.approx(waited, abs=0.15)
    inside = share["Remote.read"] + share["Remote.decode"]
    assert inside > 0.7 * share["input"]
    assert share["Remote.read"] / inside == pytest.approx(READ_SHARE, abs=0.1)
    read = next(pattern for pattern in found.patterns if pattern.function.startswith("Remote.read ("))
    assert [frame.split(":")[1] for frame in (read.stack[0], *read.stack[-2:])] == [
        "_worker_loop",
        "Remote.__getitem__",
        "Remote.read",
    ]
    assert read.stack[-1].startswith("__main__:")
    assert read.mu is not None
    assert read.mu < 0.3


def test_a_process_that_stands_still_in_a_window_costs_neither_training_nor_window(tmp_path: Path) -> None:
    with job(tmp_path, "--persistent", script=LOADING, **SETTINGS) as training:

        def sizes() -> list[tuple[int, Path]]:
            files = (tmp_path / "workers").glob("pid-*/window-*/loader-*.jsonl")
            return sorted((path.stat().st_size, path) for path in files)

        wait_until(lambda: len(sizes()) == 2 and sizes()[0][0] > 0, "both processes to be sampled", 120.0)
        (before, other), (_, stopped) = sizes()
        process = int(stopped.stem.partition("-")[2])
        os.kill(process, signal.SIGSTOP)
        wait_until(lambda: other.stat().st_size > before, "the other process to go on being sampled")
        os.kill(process, signal.SIGCONT)
        found = window_of(training)
        training.end()
    assert shares(found)["Remote.read"] > 0


def test_where_they_are_not_to_be_sampled_the_wait_is_that_of_the_queue_and_it_is_told(tmp_path: Path) -> None:
    with job(tmp_path, script=LOADING, EROICA_LOADERS="0", **SETTINGS) as training:
        found = window_of(training)
        wait_until(
            lambda: value(training.points(), names.RESOURCE_MISSING.name, resource="loader") == 1, "it to be told"
        )
        training.end()
    share = shares(found)
    assert share["input"] > 0.3
    assert share["Remote.read"] == 0


def test_of_processes_that_hang_the_blocked_window_names_the_function(tmp_path: Path) -> None:
    hang = tmp_path / "hang"
    with job(tmp_path, "--persistent", "--hang", str(hang), script=LOADING, **SETTINGS) as training:
        window_of(training)
        hang.touch()
        found = window_of(training, lambda points: value(points, names.WINDOW_ID.name, reason="blocked") > 0)
        hang.unlink()
        training.end()
    assert found.reason == "blocked"
    assert shares(found)["Remote.read"] > 0.7
