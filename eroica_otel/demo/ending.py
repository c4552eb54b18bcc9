"""That nothing outlives the demo: its children end with it, signals that end it do so in order, leftovers are known."""

from __future__ import annotations

import ctypes
import signal
from pathlib import Path
from types import FrameType

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """In a child before it executes: be told to end when the thread that started it is no more."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def end_in_order() -> None:
    """Have SIGTERM and SIGHUP end this process as an exception does, so that contexts are left."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt the ending
    raise SystemExit(128 + number)


def owner_is_gone(pid: int) -> bool:
    """Whether the process whose number a leftover carries is no more."""
    return not Path(f"/proc/{pid}").exists()
