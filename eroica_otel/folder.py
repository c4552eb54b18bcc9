"""The private folder of one process: status file, options of its helper, captures. Nobody else may reach into it.

Processes of one directory know of each other by locks (flock) alone: a number says nothing about a process of another
container that shares the directory. Worker and helper hold the status file, a helper that summarises its turn.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eroica_otel.profile.bell import LOADERS_FILE
from eroica_otel.spawn import CONFIG_FILE
from eroica_otel.status import ANSWER_FILE, ORDER_FILE, PAGE_FILE, POINTS_FILE, REQUEST_FILE, STATUS_FILE, WATCHDOG_FILE

TURN_FILE = "turn"
SWEEP_SECONDS = 60.0
"""Age from which a folder that nobody holds is left over; before, its process may only be about to hold it."""
RENEW_SECONDS = 3600.0
"""Between two times that a folder is made to look new."""
_OURS = {
    STATUS_FILE, CONFIG_FILE, REQUEST_FILE, TURN_FILE, PAGE_FILE, ORDER_FILE, ANSWER_FILE, WATCHDOG_FILE, LOADERS_FILE,
    POINTS_FILE, "probe",
}  # fmt: skip
_REMEDY = "set EROICA_DIR to a folder of your own"


def private_folder(directory: str, pid: int) -> Path:
    """Make and return the folder of process ``pid`` under ``directory``, 0700 and empty.

    What a killed process with this number left is removed: its captures and requests are not this one's. So is what
    others left whose worker and helper are both gone.

    Raises:
        PermissionError: others could put something in its place.
        FileExistsError: something that is not ours has its name.
        OSError: ``directory`` cannot be made.
    """
    parent = Path(directory)
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{parent} cannot be made ({error.strerror}): {_REMEDY}") from error
    _check_parent(parent)
    _sweep(parent)
    folder = parent / f"pid-{pid}"
    remove(folder)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError as error:
        raise FileExistsError(f"{folder} is not a folder that eroica_otel made: remove it, or {_REMEDY}") from error
    return folder


def renew(folder: Path) -> None:
    """Let what lies in ``folder`` look new: cleaners of /tmp take away what is days old, of a running training too."""
    for path in (folder, *folder.glob("*")):
        with suppress(OSError):
            os.utime(path, follow_symlinks=False)


def _check_parent(parent: Path) -> None:
    found = parent.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{parent} is a link, not a folder: {_REMEDY}")
    if found.st_uid != os.getuid():
        raise PermissionError(f"{parent} belongs to another user: {_REMEDY}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
        raise PermissionError(f"others may write in {parent}: chmod go-w, or {_REMEDY}")


def _sweep(parent: Path) -> None:
    for folder in parent.glob("pid-*"):
        try:
            old = time.time() - folder.stat().st_mtime > SWEEP_SECONDS
            left = old and not held(folder / STATUS_FILE)
        except OSError:
            continue
        if left:
            remove(folder)


def held(path: Path) -> bool:
    """Return whether a process has locked the file ``path``. Raises OSError where it is not there or has no locks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def turn(folder: Path, most: int, pause_seconds: float) -> Iterator[None]:
    """Wait until fewer than ``most`` processes beside ``folder`` have their turn; have it until the end of the block.

    Where the file system has no locks nobody waits.
    """
    with (folder / TURN_FILE).open("w") as mine:
        try:
            while not _take_turn(folder, mine.fileno(), most):
                time.sleep(pause_seconds)
        except OSError:
            pass
        yield


def _take_turn(folder: Path, mine: int, most: int) -> bool:
    """Under a lock on the common directory, so that two that count at once cannot both be the last."""
    directory = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        others = [path for path in folder.parent.glob(f"pid-*/{TURN_FILE}") if path.parent != folder]
        if sum(map(_held, others)) >= most:
            return False
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    finally:
        os.close(directory)


def _held(path: Path) -> bool:
    try:
        return held(path)
    except OSError:
        return False


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
    return name in _OURS or name.startswith(("window-", f"{ORDER_FILE}.", f"{ANSWER_FILE}."))
