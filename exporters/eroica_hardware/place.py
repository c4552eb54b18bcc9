"""The shared folder as the agent needs it: made, locked, tidied, and looked at whether it is still the same.

Takes a path, gives a descriptor. What others put there is left alone.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from eroica_otel.errors import ConfigError, HardwareError
from eroica_otel.hardware.announce import SOCKET
from eroica_otel.hardware.ring import SUFFIX
from eroica_otel.hardware.shared import open_folder

REMEDY = "give a folder that this user may write by --dir, or make it: install -d -m 755 -o USER DIR"


def prepare(path: Path) -> int:
    """Return a descriptor of the folder, made with mode 755 where it is missing.

    Raises:
        ConfigError: it cannot be made, opened or written, or its name is a link.
    """
    made = _made(path)
    try:
        folder = open_folder(path)
    except HardwareError as error:
        raise ConfigError(f"{error}; {REMEDY}") from error
    if made:
        os.fchmod(folder, 0o755)  # workers of other users read it; the umask is nobody's business here
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
        os.close(folder)
        raise ConfigError(f"{path} cannot be written by user {os.geteuid()}; {REMEDY}")
    return folder


def _made(path: Path) -> bool:
    """Make the folder; return whether it had to be made."""
    try:
        path.mkdir(mode=0o755)
    except FileExistsError:
        return False
    except FileNotFoundError as error:
        raise ConfigError(f"{path} cannot be made: {path.parent} is missing; {REMEDY}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}; {REMEDY}") from error
    return True


def same(folder: int, path: Path) -> bool:
    """Whether the path still leads to this folder: one that was removed and made anew is another."""
    try:
        return os.path.samestat(os.fstat(folder), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def tidy(folder: int) -> None:
    """Remove rings that an agent of this user left behind, finished or half made; call it with the lock held."""
    for name in os.listdir(folder):
        if not (name.endswith(SUFFIX) or (name.startswith(".") and f"{SUFFIX}." in name)):
            continue
        with suppress(OSError):
            there = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(there.st_mode) and there.st_uid == os.geteuid():
                os.unlink(name, dir_fd=folder)


def socket_is(folder: int, inode: int) -> bool:
    """Whether the name of the socket still leads to the one of that inode."""
    try:
        return os.stat(SOCKET, dir_fd=folder, follow_symlinks=False).st_ino == inode
    except OSError:
        return False


def socket_inode(folder: int) -> int:
    """Return the inode that the name of the socket leads to, 0 for none."""
    try:
        return os.stat(SOCKET, dir_fd=folder, follow_symlinks=False).st_ino
    except OSError:
        return 0
