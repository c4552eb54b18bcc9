"""The private folder: made for one process, never in place of anything else, never where others may reach into it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from eroica_otel import folder as module
from eroica_otel.folder import SWEEP_SECONDS, private_folder, remove, renew, turn
from eroica_otel.status import STATUS_FILE, StatusWriter


def test_it_is_empty_and_private(tmp_path: Path) -> None:
    folder = private_folder(str(tmp_path / "workers"), 7)
    assert folder == tmp_path / "workers" / "pid-7"
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o700


def test_what_a_dead_process_with_the_same_number_left_is_removed(tmp_path: Path) -> None:
    left = private_folder(str(tmp_path), 7)
    for name in ("status", "config.json", "request-window"):
        (left / name).touch()
    (left / "window-1764430000").mkdir()
    (left / "window-1764430000" / "trace.json").touch()
    assert list(private_folder(str(tmp_path), 7).iterdir()) == []


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_directory_that_cannot_be_made_is_named_with_the_remedy(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=f"{place} cannot be made .*: set EROICA_DIR to a folder of your own"):
        private_folder(str(tmp_path / place), 7)


def test_what_lies_in_a_folder_can_be_made_to_look_new(tmp_path: Path) -> None:
    folder = private_folder(str(tmp_path), 7)
    (folder / "config.json").touch()
    (folder / "elsewhere").symlink_to("nowhere")
    for path in (folder / "config.json", folder):
        os.utime(path, (0, 0))
    renew(folder)
    assert [path.lstat().st_mtime > 0 for path in (folder / "config.json", folder)] == [True, True]


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_is_not_ours_stays_and_is_named(kind: str, tmp_path: Path) -> None:
    theirs = tmp_path / "pid-7"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "status").write_text("kept")
    if kind == "folder":
        theirs.mkdir()
        (theirs / "thesis.tex").write_text("kept")
    elif kind == "file":
        theirs.write_text("kept")
    else:
        theirs.symlink_to(elsewhere)
    with pytest.raises(FileExistsError, match="pid-7 is not a folder that eroica_otel made: remove it"):
        private_folder(str(tmp_path), 7)
    remove(theirs)
    kept = {"folder": theirs / "thesis.tex", "file": theirs, "link": elsewhere / "status"}[kind]
    assert kept.read_text() == "kept"


def test_a_parent_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(PermissionError, match="is a link, not a folder: set EROICA_DIR to a folder of your own"):
        private_folder(str(tmp_path / "link"), 7)
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.parametrize(("mode", "refused"), [(0o755, False), (0o775, True), (0o757, True), (0o1777, False)])
def test_a_parent_in_which_others_may_replace_it_is_refused(mode: int, refused: bool, tmp_path: Path) -> None:
    parent = tmp_path / "shared"
    parent.mkdir()
    parent.chmod(mode)
    if refused:
        with pytest.raises(PermissionError, match=r"others may write in .*: chmod go-w, or set EROICA_DIR"):
            private_folder(str(parent), 7)
    else:
        assert private_folder(str(parent), 7).exists()


def test_the_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "getuid", lambda: tmp_path.stat().st_uid + 1)  # type: ignore[attr-defined]
    with pytest.raises(PermissionError, match="belongs to another user: set EROICA_DIR to a folder of your own"):
        private_folder(str(tmp_path), 7)


def left_over(parent: Path, pid: int) -> Path:
    """Make the folder of a worker that was killed."""
    folder = private_folder(str(parent), pid)
    (folder / STATUS_FILE).touch()
    (folder / "window-1764430000").mkdir()
    return folder


def grow_old(*folders: Path) -> None:
    """Set the time of the folders back."""
    for folder in folders:
        os.utime(folder, (time.time() - 2 * SWEEP_SECONDS,) * 2)


def test_what_killed_workers_left_is_removed_unless_somebody_holds_it_or_it_is_new(tmp_path: Path) -> None:
    dead, recent, alive, foreign = (left_over(tmp_path, pid) for pid in (11, 12, 13, 14))
    writer = StatusWriter(alive / STATUS_FILE)
    (foreign / "thesis.tex").touch()
    grow_old(dead, alive, foreign)
    new = private_folder(str(tmp_path), 15)
    assert sorted(tmp_path.iterdir()) == [recent, alive, foreign, new]
    assert not dead.exists()
    del writer
    new = private_folder(str(tmp_path), 15)
    assert sorted(tmp_path.iterdir()) == [recent, foreign, new]


def test_two_have_their_turn_at_a_time_and_the_third_follows(tmp_path: Path) -> None:
    folders = [private_folder(str(tmp_path), pid) for pid in (1, 2, 3)]
    entered = threading.Event()

    def third() -> None:
        with turn(folders[2], 2, 0.01):
            entered.set()

    with turn(folders[0], 2, 0.01):
        with turn(folders[1], 2, 0.01):
            thread = threading.Thread(target=third)
            thread.start()
            assert not entered.wait(0.3)
        assert entered.wait(20)
    thread.join()


def test_the_turn_of_a_process_that_is_killed_ends(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from eroica_otel.folder import turn\n"
        "with turn(Path(sys.argv[1]), 1, 0.01): print('mine', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(private_folder(str(tmp_path), 1))]
    other = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"mine\n"
    mine = private_folder(str(tmp_path), 2)
    entered = threading.Event()

    def wait() -> None:
        with turn(mine, 1, 0.01):
            entered.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not entered.wait(0.3)
    other.kill()
    other.communicate()
    assert entered.wait(20)
    thread.join()


def test_where_there_are_no_locks_nobody_waits_and_nothing_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*arguments: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    left = left_over(tmp_path, 11)
    grow_old(left)
    mine = private_folder(str(tmp_path), 12)
    StatusWriter(mine / STATUS_FILE)
    with turn(mine, 0, 0.01):
        assert left.exists()
