"""A look at devices in a thread of its own, because their files may never answer: a call in, what it found out.

Nobody waits for it. What it opened is closed by whoever comes last, the look or the one who no longer wants it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Look(Generic[T]):
    """One call of ``see``.

    Attributes:
        found: What it found; None before, and after an error.
    """

    def __init__(self, see: Callable[[], T], close: Callable[[T], None]) -> None:
        """Args: close: Closes what was found."""
        self._see, self._close = see, close
        self._lock = threading.Lock()
        self._left = False
        self.found: T | None = None
        self._thread = threading.Thread(target=self._run, name="eroica-devices", daemon=True)

    def start(self) -> None:
        """Begin; raises RuntimeError where no further thread may be started."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it still waits for an answer."""
        return self._thread.is_alive()

    def leave(self) -> None:
        """Close what was found, now or as soon as it is; waits for no device, and may be called twice."""
        with self._lock:
            first, self._left, found = not self._left, True, self.found
        if first and found is not None:
            self._close(found)

    def _run(self) -> None:
        with suppress(OSError, ValueError):
            found = self._see()
            with self._lock:
                self.found, left = found, self._left
            if left:
                self._close(found)
