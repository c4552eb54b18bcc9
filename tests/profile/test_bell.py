"""The word by which a training wakes the processes of its DataLoader."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from eroica_otel.profile import bell as module
from eroica_otel.profile.bell import POLL_SECONDS, Bell


@pytest.fixture
def bell(tmp_path: Path) -> Bell:
    return Bell(tmp_path / "loaders", create=True)


def test_both_sides_see_begin_and_end_and_which_window_it_is(bell: Bell, tmp_path: Path) -> None:
    other = Bell(tmp_path / "loaders")
    assert other.word == 0
    assert bell.ring(1_764_430_000, 250.0)
    assert (other.word, other.window) == (1, (1_764_430_000, 250.0))
    bell.silence(1_764_430_000)
    assert other.word == 2


def test_one_window_at_a_time_and_only_its_own_end_ends_it(bell: Bell) -> None:
    bell.silence(7)
    assert bell.word == 0
    bell.ring(7, 1000.0)
    assert not bell.ring(8, 1000.0)
    bell.silence(8)
    assert (bell.word, bell.window[0]) == (1, 7)


def test_the_file_is_written_not_a_hole_and_is_nobody_elses(bell: Bell, tmp_path: Path) -> None:
    """A write to a hole of a mapped file kills the process when the disk is full."""
    path = tmp_path / "loaders"
    assert path.read_bytes() == bytes(4096)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [None, b"", bytes(100)], ids=["absent", "empty", "half"])
def test_a_file_that_is_not_there_yet_is_an_error_to_be_tried_again(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "loaders").write_bytes(content)
    with pytest.raises(OSError, match="loaders"):
        Bell(tmp_path / "loaders")


def _waited(bell: Bell, seen: int) -> tuple[threading.Thread, list[int]]:
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(bell.wait(seen)), daemon=True)
    thread.start()
    return thread, got


def test_a_sleeper_is_woken_by_the_change(bell: Bell, tmp_path: Path) -> None:
    thread, got = _waited(Bell(tmp_path / "loaders"), 0)
    bell.ring(7, 1000.0)
    thread.join(30)
    assert got == [1]


def test_who_comes_late_does_not_sleep(bell: Bell, tmp_path: Path) -> None:
    bell.ring(7, 1000.0)
    thread, got = _waited(Bell(tmp_path / "loaders"), 0)
    thread.join(30)
    assert got == [1]


def test_another_process_is_woken(bell: Bell, tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from eroica_otel.profile.bell import Bell\n"
        "bell = Bell(pathlib.Path(sys.argv[1]))\n"
        "print('listening', flush=True)\n"
        "print(bell.wait(0), *bell.window, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "loaders")], stdout=subprocess.PIPE, text=True
    ) as sleeper:
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == "listening\n"
        bell.ring(9, 500.0)
        assert sleeper.communicate(timeout=60)[0] == "1 9 500.0\n"


def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of what is slept from now on."""
    slept: list[float] = []
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=slept.append, monotonic=lambda: 7.0))
    return slept


def test_without_the_system_call_the_word_is_looked_at_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.platform, "machine", lambda: "other")  # type: ignore[attr-defined]
    bell = Bell(tmp_path / "loaders", create=True)
    slept = naps(monkeypatch)
    bell.ring(7, 1000.0)
    assert bell.wait(1) == 1
    assert bell.wait(1, 0.25) == 1
    assert bell.wait(0) == 1
    assert slept == [POLL_SECONDS, 0.25]


def test_a_kernel_that_refuses_the_call_makes_no_busy_loop(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = naps(monkeypatch)
    monkeypatch.setattr(bell, "_call", lambda *arguments: -1)
    assert bell.wait(0) == 0
    assert bell.wait(0, 0.5) == 0
    assert slept == [POLL_SECONDS, 0.5]
