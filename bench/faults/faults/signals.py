"""Faults by signals: a process that is stopped for seconds, once or again and again, or killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from bench.faults.faults.phases import cycling


@contextmanager
def stopped(pids: Sequence[int], seconds: float, running_seconds: float | None = None) -> Iterator[None]:
    """Stop processes for ``seconds``, as a debugger, a batch system or a machine that suspends its guests does.

    Args:
        running_seconds: Time between two stops; None for one stop alone.
    """
    with cycling(lambda: send(pids, signal.SIGSTOP), lambda: send(pids, signal.SIGCONT), seconds, running_seconds):
        yield


def send(pids: Sequence[int], number: int) -> None:
    """Send a signal to those that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
