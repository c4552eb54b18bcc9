"""The stack of a training that holds the interpreter's lock in C: written by the training thread itself, on a signal.

Takes a file; faulthandler's handler of SIGURG writes the stack of the thread that gets the signal, in C, into it. The
helper sends it: asking.py. faulthandler's timer is not used: its thread reads the stacks of others; where these run
meanwhile (a stopped process is continued, a C call ends in the middle) it may end the process; a thread interrupted by
a signal stands still. SIGURG, because a process without a handler ignores it: one sent too late does nothing.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from pathlib import Path

SIGNAL = signal.SIGURG
_SELF = Path("/proc/self/status")


class Watchdog:
    """Sets the handler and takes it back, from any thread.

    Attributes:
        off: Why it is not set, "" while it is.
    """

    def __init__(self, path: Path) -> None:
        """Set the handler, unless the training has one; ``path`` is made, empty and 0600. Raises OSError."""
        self.off = ""
        if handles(_SELF.read_text(), SIGNAL):
            self.off = "the training has a handler of SIGURG"
            return
        # Appending, because the helper empties the file.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        faulthandler.register(SIGNAL, file=self._file, all_threads=False)

    def forget(self) -> None:
        """In a forked child, which has inherited the handler and may set one of its own."""
        self.close()

    def close(self) -> None:
        """Take the handler back; one that the training has set in the meantime stays."""
        if self.off:
            return
        self.off = "closed"
        if signal.getsignal(SIGNAL) is signal.SIG_DFL:  # faulthandler's does not show here
            faulthandler.unregister(SIGNAL)
            os.close(self._file)


def task_of(thread: int) -> int:
    """Return the kernel's number of the thread with this threading.get_ident(); 0 where Python does not know it."""
    found = (one.native_id for one in threading.enumerate() if one.ident == thread)
    return next(found, None) or 0


def handles(status: str, number: int) -> bool:
    """Return whether a /proc/.../status says that the process has a handler of signal ``number``, or ignores it."""
    bit = 1 << (number - 1)
    return any(int(field(status, name) or "0", 16) & bit for name in ("SigCgt", "SigIgn"))


def field(status: str, name: str) -> str:
    """Return a field of a /proc/.../status, "" where it is not there."""
    found = (line.partition(":")[2].strip() for line in status.splitlines() if line.startswith(name + ":"))
    return next(found, "")
