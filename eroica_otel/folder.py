"""The private folder of one process: status file, options of its helper, captures. Nobody else may reach into it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from eroica_otel.spawn import CONFIG_FILE
from eroica_otel.status import REQUEST_FILE, STATUS_FILE

_OURS = {STATUS_FILE, CONFIG_FILE, REQUEST_FILE, "probe"}
_REMEDY = "set EROICA_DIR to a folder of your own"


def private_folder(directory: str, pid: int) -> Path:
    """Make and return the folder of process ``pid`` under ``directory``, 0700 and empty.

    What a killed process with this number left is removed: its captures and requests are not this one's.

    Raises:
        PermissionError: others could put something in its place.
        FileExistsError: something that is not ours has its name.
    """
    parent = Path(directory)
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_parent(parent)
    folder = parent / f"pid-{pid}"
    remove(folder)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError as error:
        raise FileExistsError(f"{folder} is not a folder that eroica_otel made: remove it, or {_REMEDY}") from error
    return folder


def _check_parent(parent: Path) -> None:
    found = parent.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{parent} is a link, not a folder: {_REMEDY}")
    if found.st_uid != os.getuid():
        raise PermissionError(f"{parent} belongs to another user: {_REMEDY}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
        raise PermissionError(f"others may write in {parent}: chmod go-w, or {_REMEDY}")


def remove(folder: Path) -> None:
    """Remove a folder that ``private_folder`` made; anything else stays as it is."""
    try:
        found = folder.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and all(map(_is_ours, os.listdir(folder)))
    except OSError:
        return
    if ours:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(name: str) -> bool:
    return name in _OURS or name.startswith("window-")
