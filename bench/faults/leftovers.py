"""What a board that was killed leaves behind, and its removal: processes, namespaces and bridge, cgroups.

Everything that a board starts carries its mark in its environment; a namespace, a bridge and a cgroup carry the number
of its process in their names. A watcher (``python -m bench.faults.leftovers PID MARK``) waits for the board's end and
removes what is there then; the next board does the same.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bench.faults import cgroups
from eroica_otel.demo import nodes
from eroica_otel.demo.ending import owner_is_gone

VARIABLE = "FAULT_BOARD"
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 10.0
CLEAR_LOOKS = 3
"""Looks one after the other that find nobody."""


def mark() -> str:
    """Return this process' mark: its number and when it began, since numbers come again."""
    return f"{os.getpid()}-{_began(os.getpid())}"


def _began(pid: int) -> str:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    return ""


def is_gone(mark: str) -> bool:
    """Whether the board with this mark is no more."""
    pid, _, began = mark.partition("-")
    return _began(int(pid)) != began


def marked() -> Iterator[tuple[int, str]]:
    """Yield (pid, mark) of every process that a board has started."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                for line in (entry / "environ").read_bytes().split(b"\0"):
                    name, _, value = line.partition(b"=")
                    if name == VARIABLE.encode():
                        yield int(entry.name), value.decode()


def sweep() -> None:
    """Remove what boards that are no more have left."""
    end, clear = time.monotonic() + PATIENCE_SECONDS, 0
    # Again: a process may have started another one meanwhile, and one in the middle of exec shows no environment.
    while clear < CLEAR_LOOKS and time.monotonic() < end:
        clear = 0 if _kill() else clear + 1
        time.sleep(0.1)
    nodes.sweep()
    cgroups.sweep(owner_is_gone)


def _kill() -> bool:
    found = [pid for pid, mark in marked() if is_gone(mark) and pid != os.getpid()]
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)


def watch() -> subprocess.Popen[bytes]:
    """Start the watcher of this process; it outlives it."""
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "bench.faults.leftovers", str(os.getpid()), mark()]
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
    )


def main(pid: int, mark: str) -> None:
    """Wait until process ``pid`` is no more, then remove what it left."""
    with suppress(ProcessLookupError):
        end = os.pidfd_open(pid)
        if not is_gone(mark):
            select.select([end], [], [])
    sweep()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
