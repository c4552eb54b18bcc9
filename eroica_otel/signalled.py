"""A long-running command that ends in order when it is told to: SIGTERM and SIGINT become a call."""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Let SIGTERM and SIGINT end the run cleanly, by ``end``; a second one ends it at once. Main thread only.

    ``end`` runs in a thread of its own: the handler interrupts the main thread anywhere, also where it holds the lock
    of the very event that ``end`` wants to set, and would wait there for ever.
    """

    def stop(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        _thread.start_new_thread(end, ())  # threading.Thread takes a lock that the main thread may hold

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
