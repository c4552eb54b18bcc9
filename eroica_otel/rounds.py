"""A daemon thread that makes rounds: one after so many seconds, or at once when it is woken, until it shall end."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Rounds:
    """Calls ``once``, which does not raise and returns the seconds until the next round; the first is after ``first``.

    Attributes:
        stopping: It was asked to end.
    """

    def __init__(self, name: str, once: Callable[[], float], first: float = 0.0) -> None:
        self._once = once
        self._first = first
        self.stopping = False
        self._wake = threading.Event()
        self._runner = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._runner.start()

    def wake(self) -> None:
        """Have the next round begin now; from any thread."""
        self._wake.set()

    def stop(self, seconds: float = 2.0) -> bool:
        """Ask the thread to end, wait for at most so many seconds; return whether no round is going on any more.

        The thread itself may call this between two rounds.
        """
        self.stopping = True
        self._wake.set()
        if self._runner is threading.current_thread():
            return True
        if self._runner.is_alive():
            self._runner.join(timeout=seconds)
        return not self._runner.is_alive()

    def _run(self) -> None:
        rest = self._first
        while True:
            self._wake.wait(rest)
            self._wake.clear()
            if self.stopping:
                return
            rest = self._once()
