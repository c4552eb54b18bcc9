"""Tells the node agent of windows from a thread of its own: takes rank, window and seconds, and waits for nothing.

In the training process, because the agent learns from the kernel which process speaks to it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

NOBODY = ("cannot be opened: No such file", "does not answer: Connection refused")
"""How an answer begins where no agent serves the folder, which is no failure."""


class Herald:
    """Announces one window at a time."""

    def __init__(self, folder: str, failed: Callable[[str, str], None]) -> None:
        """``folder`` is the one shared with the agent, "" for none; ``failed`` is told stage and reason."""
        self._folder, self._failed = folder, failed
        self._thread: threading.Thread | None = None

    def announce(self, rank: int, window: int, seconds: float) -> None:
        """Have a thread announce; one that is still at the window before is left alone, and this one is not announced.

        Raises:
            RuntimeError: no further thread may be started.
        """
        if not self._folder or (self._thread is not None and self._thread.is_alive()):
            return
        arguments = (rank, os.getpid(), window, seconds)
        self._thread = threading.Thread(target=self._say, args=arguments, name="eroica-herald", daemon=True)
        self._thread.start()

    def _say(self, rank: int, pid: int, window: int, seconds: float) -> None:
        if not os.path.isdir(self._folder):
            return
        # Imported here: most trainings have no agent, and need not load what writes and reads its messages.
        from eroica_otel.hardware.announce import MOST_SECONDS, Announcement, announce
        from eroica_otel.hardware.shared import trusted

        said = Announcement(rank, pid, window, min(seconds, MOST_SECONDS))
        folder = Path(self._folder)
        refusal = announce(folder, said, trusted(folder))
        if refusal and not any(words in refusal for words in NOBODY):
            self._failed("agent", f"window {window} is sampled at the steady rate: {refusal}; training is not affected")
