"""The private folder: made for one process, never in place of anything else, never where others may reach into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from eroica_otel import folder as module
from eroica_otel.folder import private_folder, remove


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
