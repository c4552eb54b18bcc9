"""Which process listens on a TCP port of this machine, as far as /proc tells."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

_LISTEN = "0A"


def holder(port: int, root: str = "/proc") -> str | None:
    """Return "name (pid N)" of the process that listens on ``port``; None when /proc does not tell."""
    pid = _listener(port, root)
    return f"{_command(root, pid)} (pid {pid})" if pid is not None else None


def runs_module(port: int, module: str, root: str = "/proc") -> bool:
    """Whether the process that listens on ``port`` was started as ``python -m module``."""
    return ("-m", module) in itertools.pairwise(arguments(port, root))


def arguments(port: int, root: str = "/proc") -> tuple[str, ...]:
    """Return what the process that listens on ``port`` was started with; nothing when /proc does not tell."""
    try:
        with open(f"{root}/{_listener(port, root)}/cmdline", "rb") as file:
            return tuple(os.fsdecode(file.read()).split("\0")[:-1])
    except OSError:
        return ()


def _listener(port: int, root: str) -> str | None:
    inodes = set(_listening(port, root))
    if not inodes:
        return None
    links = {f"socket:[{inode}]" for inode in inodes}
    for pid in filter(str.isdigit, _entries(root)):
        folder = f"{root}/{pid}/fd"
        if any(_link(f"{folder}/{name}") in links for name in _entries(folder)):
            return pid
    return None


def _listening(port: int, root: str) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            with open(f"{root}/net/{table}", encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        yield from (row[9] for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port)


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _command(root: str, pid: str) -> str:
    try:
        with open(f"{root}/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "a process"
