"""A fault that comes and goes: a thread that switches it on and off, and leaves it off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Action = Callable[[], None]


@contextmanager
def cycling(on: Action, off: Action, on_seconds: float, off_seconds: float | None = None) -> Iterator[None]:
    """Switch a fault on for ``on_seconds``, then off for ``off_seconds`` and so on; with None only once.

    It is off when the context is left.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_cycle, args=(on, off, on_seconds, off_seconds, ended.wait), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _cycle(
    on: Action, off: Action, on_seconds: float, off_seconds: float | None, wait: Callable[[float], bool]
) -> None:
    over = False
    while not over:
        try:
            on()
            over = wait(on_seconds)
        finally:
            off()
        over = over or off_seconds is None or wait(off_seconds)
