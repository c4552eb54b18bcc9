"""A daemon thread that calls a function once a second, or at once when it is woken, until it is asked to end."""

from __future__ import annotations

import threading
from collections.abc import Callable


class MonitorThread:
    """Runs ``tick`` once a second until stopped; what a round raises is the caller's ``guard``'s."""

    def __init__(self, tick: Callable[[], None], guard: Callable[[str, Callable[[], None]], None]) -> None:
        self._tick = tick
        self._guard = guard
        self._stopping = False
        self._wake = threading.Event()
        self._runner = threading.Thread(target=self._run, name="eroica-monitor", daemon=True)

    def start(self) -> None:
        self._runner.start()

    def wake(self) -> None:
        """Have the next round begin now; from any thread."""
        self._wake.set()

    def stop(self) -> bool:
        """Ask the thread to end, give it two seconds; return whether no round is going on any more.

        The thread itself may call this between two rounds.
        """
        self._stopping = True
        self._wake.set()
        if self._runner is threading.current_thread():
            return True
        if self._runner.is_alive():
            self._runner.join(timeout=2.0)
        return not self._runner.is_alive()

    def _run(self) -> None:
        while True:
            self._wake.wait(1.0)
            self._wake.clear()
            if self._stopping:
                return
            self._guard("monitor", self._tick)
