"""A worker tells the node agent that a window begins, so that it samples faster; and what may be said, for both sides.

Takes the shared folder and the window, gives what became of it. One message of at most 1 kB and one answer over a Unix
socket (SOCK_SEQPACKET: messages keep their borders, and the agent learns from the kernel who sent them). Nothing here
is worth waiting for: without an answer the window has the samples of the steady rate. Never on the training thread.
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.shared import open_folder, open_socket, path_of

SOCKET = "announce.sock"
MOST_BYTES = 1024
MOST_SECONDS = 60.0
ACCEPTED = b"accepted"
_CREDENTIALS = struct.Struct("iII")
"""struct ucred of unix(7): pid, uid, gid; native size and order."""


class Announcement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a worker says.

    Attributes:
        rank: The worker.
        pid: Its process, as that process itself sees it.
        window: Id of the window (unix seconds of the decision).
        seconds: How long it lasts.
        version: Of this message.
    """

    rank: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
    pid: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
    window: Annotated[int, msgspec.Meta(ge=1, lt=1 << 62)]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=MOST_SECONDS)]
    version: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a socket, as the kernel says; pid 0 = a process that this one cannot see."""

    pid: int
    uid: int


def peer_of(connection: socket.socket) -> Peer:
    """Return who made or accepted the connection (SO_PEERCRED); raises OSError."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(data)
    return Peer(pid, uid)


def decode(data: bytes) -> Announcement:
    """Return what a message says; raises HardwareError for anything that cannot be."""
    if len(data) > MOST_BYTES:
        raise HardwareError(f"an announcement of more than {MOST_BYTES} bytes")
    try:
        return msgspec.json.decode(data, type=Announcement)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HardwareError(f"no announcement: {error}") from error


def announce(
    path: Path, said: Announcement, owners: frozenset[int] | None = None, patience_seconds: float = 0.3
) -> str:
    """Tell the agent of the shared folder; return "" where it accepted, else why it did not.

    ``owners`` are the users whose socket is believed to be the agent's, None = anybody's. Takes at most
    ``patience_seconds`` for each of connecting, sending and the answer, and never raises.
    """
    try:
        folder = open_folder(path)
        try:
            there = open_socket(folder, SOCKET, owners)
        finally:
            os.close(folder)
        try:
            return _exchange(path_of(there), msgspec.json.encode(said), owners, patience_seconds)
        finally:
            os.close(there)
    except HardwareError as error:
        return str(error)
    except OSError as error:  # a time-out too
        return f"the node agent does not answer: {error.strerror or error}"


def _exchange(address: str, data: bytes, owners: frozenset[int] | None, patience_seconds: float) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(patience_seconds)
        connection.connect(address)
        if owners is not None and (uid := peer_of(connection).uid) not in owners:
            return f"the socket is served by user {uid}"
        connection.sendall(data, socket.MSG_NOSIGNAL)  # a training may have given SIGPIPE its default back: death
        answer = connection.recv(256)
    if answer == ACCEPTED:
        return ""
    text = answer.decode(errors="replace")
    return text if text and text.isprintable() else "the node agent gave no answer"
