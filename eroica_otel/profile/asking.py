"""Asks, from the helper, a training that holds the interpreter's lock in C for its stack (watchdog.py).

The signal is sent once in a standstill, and only when it is known from outside that no Python runs: the 1 Hz thread has
been silent for 15 s, in the helper's own rounds the process was not stopped meanwhile (after a stop it runs), and that
thread wakes many times a second, as one does that waits for the lock: it is not lost in a file system. A signal that
meets running Python instead ends the process seldom (CPython 3.13.0: 3 of 7,000; 3.10 to 3.12: none of 26,000), not
never.
"""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from eroica_otel.profile.frozen import Raw, parse_dump
from eroica_otel.profile.watchdog import SIGNAL, field, handles

SECONDS = 15.0
"""Silence of the 1 Hz thread before the training is asked."""
_BEGIN_SECONDS = 4.0
_ROUNDS = 70
"""Rounds of the helper, 0.1 s each, in which the process was not stopped: a clock may jump, a count does not."""
_WAKES_A_SECOND = 10.0
"""A thread that waits for the interpreter's lock looks after it every 5 ms; on a busy machine less often."""
_PROOF_SECONDS = 2.0
_SAME_ROUNDS = 5
"""Rounds in which an answer has not grown: its outermost frames come last."""
_TGKILL = {"x86_64": 234, "aarch64": 131}
"""Number of the system call, which not every C library has under its name."""
_STOPPED = ("T", "t", "Z", "X", "")


def _read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def send(pid: int, task: int) -> None:
    """Send the signal to one thread of a process."""
    number = _TGKILL.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, pid, task, int(SIGNAL))


class Question:
    """One standstill after the other; ``look`` is called each round of the helper."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.monotonic,
        read: Callable[[Path], str] = _read,
        send: Callable[[int, int], None] = send,
    ) -> None:
        """Take the file that the stack is written to."""
        self._path, self._clock, self._read, self._send = path, clock, read, send
        self._begin()

    def _begin(self) -> None:
        self._rounds = 0
        self._asked = False
        self._proof: tuple[float, int] | None = None
        self._heard, self._same = "", 0

    def look(self, pid: int, task: int, monitor_task: int, silent: float, stopped: bool) -> None:
        """Ask when it is time to.

        Args:
            pid, task, monitor_task: The process, its training thread and its 1 Hz thread; 0 = unknown.
            silent: Seconds since the 1 Hz thread was heard.
            stopped: Whether the process is stopped now.
        """
        if silent < _BEGIN_SECONDS:
            self._begin()
        elif stopped:
            self._rounds, self._proof = 0, None
        else:
            self._rounds += 1
            due = silent >= SECONDS and self._rounds >= _ROUNDS
            if task and monitor_task and not self._asked and self._waits(pid, monitor_task) and due:
                self._ask(pid, task)

    def _waits(self, pid: int, task: int) -> bool:
        """Return whether a thread was seen to wait for the lock during the last seconds."""
        status = self._read(Path(f"/proc/{pid}/task/{task}/status"))
        now, wakes = self._clock(), int(field(status, "voluntary_ctxt_switches") or 0)
        if self._proof is None:
            self._proof = now, wakes
        since, before = self._proof
        if now - since < _PROOF_SECONDS:
            return False
        waits = wakes - before >= _WAKES_A_SECOND * (now - since)
        if not waits:
            self._proof = now, wakes
        return waits

    def _ask(self, pid: int, task: int) -> None:
        self._asked = True
        with suppress(OSError):
            os.truncate(self._path, 0)  # what an earlier standstill has left
        status = self._read(Path(f"/proc/{pid}/task/{task}/status"))
        if handles(status, SIGNAL) and self._path.exists() and field(status, "State")[:1] not in _STOPPED:
            self._send(pid, task)

    def answer(self) -> list[Raw]:
        """Return the stack, outermost first; [] while there is none, or it is still being written.

        Call it each round.
        """
        text = self._read(self._path) if self._asked else ""
        self._same = self._same + 1 if text == self._heard else 0
        self._heard = text
        return parse_dump(text) if text.endswith("\n") and self._same >= _SAME_ROUNDS else []
