"""The stacks of a training that holds the interpreter's lock in C: written by faulthandler's own thread, in C.

A process has one such timer. It is set anew once a second, so that it runs out only when the 1 Hz thread cannot run
any more; where the training (or pytest) has set it for itself it is left alone. Nothing in Python tells whether it is
set: its thread does, which blocks all signals and has the name of a thread of Python.
"""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

SECONDS = 15.0
"""After so much silence of the 1 Hz thread the stacks are written."""
_ALL_SIGNALS = (1 << 64) - 1
_NEVER_BLOCKED = 1 << 8 | 1 << 18 | 3 << 31
"""SIGKILL, SIGSTOP, and the two that the C library keeps for itself."""
_NAMES = ("python", "pt_main_thread", "eroica")
_TRIES = 20
_TASKS = Path("/proc/self/task")


class Watchdog:
    """Sets the timer and takes it back; every method may be called from any thread.

    Attributes:
        off: Why it is not set, "" while it is or may be.
    """

    def __init__(self, path: Path, seconds: float = SECONDS) -> None:
        """Take the file that the stacks go to; it is made, empty and 0600."""
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "r+b", buffering=0)
        self._seconds = seconds
        self._lock = threading.Lock()
        self._thread = ""
        self._forking = False
        self.off = ""

    def tick(self) -> None:
        """Set the timer anew; called once a second."""
        with self._lock:
            if self.off or self._forking:
                return
            fired = os.fstat(self._file.fileno()).st_size > 0
            if fired:
                self._file.truncate(0)
                self._file.seek(0)
            elif self._thread and not (_TASKS / self._thread).exists():
                self.off = "the training has set or cancelled the timer of faulthandler itself"
                return
            self._arm()

    def _arm(self) -> None:
        before = set(os.listdir(_TASKS))
        if not self._thread and any(map(_is_timer, before)):
            self.off = "the timer of faulthandler is the training's own"
            return
        faulthandler.dump_traceback_later(self._seconds, file=self._file)
        for _ in range(_TRIES):
            found = [thread for thread in set(os.listdir(_TASKS)) - before if _is_timer(thread)]
            if found:
                self._thread = found[0]
                return
            time.sleep(0.0005)
        faulthandler.cancel_dump_traceback_later()
        self.off = "the timer's thread was not found"

    def before_fork(self) -> None:
        """Take the timer back: a child has its locks but not its thread, and would wait for it at its end."""
        self._lock.acquire()
        self._forking = True
        self._disarm()
        self._lock.release()

    def after_fork(self) -> None:
        """In the parent, which goes on."""
        self._forking = False

    def _disarm(self) -> None:
        if self._thread and not self.off and (_TASKS / self._thread).exists():
            faulthandler.cancel_dump_traceback_later()
        self._thread = ""

    def close(self) -> None:
        """Take the timer back unless it is the training's own."""
        with self._lock:
            self._disarm()
            self.off = self.off or "closed"
        self._file.close()


def _is_timer(thread: str) -> bool:
    """Return whether a thread of this process is that of faulthandler's timer, whoever has set it."""
    fields = {}
    with suppress(OSError):
        for line in (_TASKS / thread / "status").read_text().splitlines():
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    blocked = int(fields.get("SigBlk", "0"), 16) | _NEVER_BLOCKED
    return blocked == _ALL_SIGNALS and fields.get("Name", "").startswith(_names())


def _names() -> tuple[str, ...]:
    with suppress(OSError):
        return (*_NAMES, Path("/proc/self/comm").read_text().strip())
    return _NAMES
