"""The folder that the node agent and the workers share: opened so that nobody else in it can lead us elsewhere.

Takes paths and names, gives file descriptors. Every name is looked up from the descriptor of the folder, so that a
folder exchanged later changes nothing; symbolic links are refused, and so is what is not of the kind that is expected.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from eroica_otel.errors import HardwareError


def open_folder(path: Path) -> int:
    """Return a descriptor of the folder; its own name may not be a link, those above it may.

    Raises:
        HardwareError: it is missing, no folder, or may not be opened.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise HardwareError(f"the shared folder {path} cannot be opened: {error.strerror}") from error


def trusted(path: Path) -> frozenset[int]:
    """Return the users whose files in the folder are believed: root, this user, and the folder's owner.

    Whoever owns the folder can put anything into it anyway; others who may write it (mode 1777) are not believed.
    """
    users = {0, os.geteuid()}
    with suppress(OSError):
        users.add(os.stat(path, follow_symlinks=False).st_uid)
    return frozenset(users)


def open_regular(folder: int, name: str, owners: frozenset[int] | None = None) -> int:
    """Return a read-only descriptor of the regular file ``name``, which belongs to one of ``owners`` (None = anybody).

    Raises:
        HardwareError: it is missing, a link, a device or pipe, or somebody else's.
    """
    try:
        # Without O_NONBLOCK the open of a pipe would wait for its other end.
        file = os.open(_plain(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise HardwareError(f"{name} cannot be opened: {error.strerror}") from error
    return _checked(file, name, stat.S_ISREG(os.fstat(file).st_mode), owners)


def open_socket(folder: int, name: str, owners: frozenset[int] | None = None) -> int:
    """Return a descriptor that only stands for the socket ``name`` (O_PATH); raises as ``open_regular`` does."""
    try:
        file = os.open(_plain(name), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise HardwareError(f"{name} cannot be opened: {error.strerror}") from error
    return _checked(file, name, stat.S_ISSOCK(os.fstat(file).st_mode), owners)


def path_of(file: int, name: str = "") -> str:
    """Return a path for a descriptor (of a folder: for ``name`` in it), short enough for the address of any socket."""
    return f"/proc/self/fd/{file}/{name}" if name else f"/proc/self/fd/{file}"


def _plain(name: str) -> str:
    if not name or "/" in name or name in (".", "..") or "\0" in name:
        raise HardwareError(f"{name!r} is no name of a file")
    return name


def _checked(file: int, name: str, kind: bool, owners: frozenset[int] | None) -> int:
    owner = os.fstat(file).st_uid
    if kind and (owners is None or owner in owners):
        return file
    os.close(file)
    raise HardwareError(f"{name} belongs to user {owner}" if kind else f"{name} is not what should stand there")
