"""The Unix socket of the node agent in the shared folder, in which others may have put anything.

Takes the folder's descriptor, gives a listening socket that all users may connect to, and a lock that a second agent of
the same folder meets.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from contextlib import suppress

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.announce import SOCKET
from eroica_otel.hardware.shared import open_socket, path_of

LOCK = "agent.lock"
BACKLOG = 32
"""Connections that the kernel keeps until they are looked at; those beyond are refused at once."""


def hold(folder: int) -> int:
    """Return the descriptor that makes this process the one agent of the folder, as long as it is open.

    Raises:
        HardwareError: another agent has it, the folder cannot be written, or something else has the lock's name.
    """
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.open(LOCK, flags, 0o600, dir_fd=folder)
    except OSError as error:
        raise HardwareError(f"{LOCK} in the shared folder cannot be made: {error.strerror}") from error
    if (owner := os.fstat(lock).st_uid) != os.geteuid():  # somebody who only wants to keep the agent away
        os.close(lock)
        raise HardwareError(f"{LOCK} in the shared folder belongs to user {owner}: remove it")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise HardwareError("another node agent serves this shared folder") from error
    return lock


def listen(folder: int) -> socket.socket:
    """Return a listening socket named SOCKET; one that an agent before left there is replaced, nothing else is.

    Raises:
        HardwareError: the name is taken by something else, or the folder is full or read-only.
    """
    _clear(folder)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        server.bind(path_of(folder, SOCKET))
        there = open_socket(folder, SOCKET)
        try:
            os.chmod(path_of(there), 0o666)  # connecting needs the right to write
        finally:
            os.close(there)
        server.listen(BACKLOG)
    except OSError as error:
        server.close()
        raise HardwareError(f"{SOCKET} in the shared folder cannot be made: {error.strerror}") from error
    except HardwareError:
        server.close()
        raise
    return server


def remove(folder: int) -> None:
    """Take the socket's name away at the end, where it is still a socket of ours."""
    with suppress(HardwareError):
        _clear(folder)


def _clear(folder: int) -> None:
    try:
        there = os.stat(SOCKET, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise HardwareError(f"{SOCKET} cannot be looked at: {error.strerror}") from error
    if not stat.S_ISSOCK(there.st_mode) or there.st_uid != os.geteuid():
        raise HardwareError(f"{SOCKET} in the shared folder is no socket of this user: remove it")
    try:
        os.unlink(SOCKET, dir_fd=folder)
    except OSError as error:
        raise HardwareError(f"{SOCKET} of an earlier agent cannot be removed: {error.strerror}") from error
