"""A long-running command that ends in order when it is told to: SIGTERM and SIGINT become a call."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Let SIGTERM and SIGINT end the run cleanly, by ``end``; a second one ends it at once. Main thread only."""

    def stop(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        end()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
