"""Tells the node agent of windows from a thread of its own: takes rank, window and seconds, and waits for nothing.

In the training process, because the agent learns from the kernel which process speaks to it. An announcement lasts a
minute at most and an agent may begin anew, so it is repeated until the window is over.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

NOBODY = ("cannot be opened: No such file", "does not answer: Connection refused")
"""How an answer begins where no agent serves the folder, which is no failure."""
LOOK_SECONDS = 1.0
AHEAD_SECONDS = 10.0
"""So long before what was announced ends it is announced again, where the window lasts longer."""
LONGER_SECONDS = 15.0
"""Announced of a window that outlasts what was expected."""
MOST_REPEATS = 60


class Herald:
    """Announces one window at a time."""

    def __init__(
        self,
        folder: str,
        failed: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """``folder`` is the one shared with the agent, "" for none; ``failed`` is told stage and reason."""
        self._folder, self._failed, self._clock, self._look_seconds = folder, failed, clock, look_seconds
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def announce(self, rank: int, window: int, seconds: float) -> None:
        """Have a thread announce; one that is still at the window before is left alone, and this one is not announced.

        Raises:
            RuntimeError: no further thread may be started.
        """
        if not self._folder or (self._thread is not None and self._thread.is_alive()):
            return
        self._over = threading.Event()
        arguments = (self._over, rank, os.getpid(), window, seconds)
        self._thread = threading.Thread(target=self._tell, args=arguments, name="eroica-herald", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Say that the window is over; any thread, waits for nothing, may be called twice."""
        self._over.set()

    def _tell(self, over: threading.Event, rank: int, pid: int, window: int, seconds: float) -> None:
        if not os.path.isdir(self._folder):
            return
        # Imported here: most trainings have no agent, and need not load what writes and reads its messages.
        from eroica_otel.hardware.announce import MOST_SECONDS, Announcement, announce
        from eroica_otel.hardware.shared import trusted

        folder, end, told = Path(self._folder), self._clock() + seconds, False
        for _ in range(MOST_REPEATS):
            left = end - self._clock()
            said = Announcement(rank, pid, window, min(left if left > 0 else LONGER_SECONDS, MOST_SECONDS))
            agent, until = self._agent(), self._clock() + said.seconds
            refusal = announce(folder, said, trusted(folder))
            if refusal and not told and not any(words in refusal for words in NOBODY):
                told = True
                why = f"window {window} is sampled at the steady rate: {refusal}; training is not affected"
                self._failed("agent", why)
            if self._is_over(over, until if until >= end else until - AHEAD_SECONDS, agent):
                return

    def _is_over(self, over: threading.Event, until: float, agent: tuple[int, ...]) -> bool:
        """Wait until the window is over, or is to be announced again: at ``until``, or as there is another agent."""
        while not over.wait(self._look_seconds):
            if self._clock() >= until or self._agent() not in (agent, ()):
                return False
        return True

    def _agent(self) -> tuple[int, ...]:
        """Return what is another one for each socket of an agent, () without one."""
        from eroica_otel.hardware.announce import SOCKET

        try:
            found = os.stat(os.path.join(self._folder, SOCKET), follow_symlinks=False)
        except OSError:
            return ()
        return (found.st_ino, found.st_ctime_ns)
