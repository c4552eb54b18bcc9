"""A call that may never come back (a file of a device whose driver or firmware hangs), made in a thread of its own.

Takes what is called, gives its answers to whoever asks for them, who waits as long as he likes and no longer. While an
answer is outstanding nothing more is asked, so that a device that hangs costs one thread and no queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Aside(Generic[T]):
    """One call, made again and again; all methods on one thread, but ``busy`` and ``close`` on any.

    Attributes:
        unanswered: Questions that were not even asked, as the one before had no answer yet.
    """

    def __init__(self, call: Callable[[], T | None], name: str) -> None:
        """None is no answer, and what ``call`` raises of OSError and ValueError; ``name`` is the thread's."""
        self.unanswered = 0
        self._call, self._name = call, name
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        self._answers: SimpleQueue[T | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._busy = False

    @property
    def busy(self) -> bool:
        """Whether it still waits for an answer."""
        return self._busy

    def ask(self) -> bool:
        """Ask once, and return whether that was done; raises RuntimeError where no thread may be started."""
        if self._busy:
            self.unanswered += 1
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._busy = True
        self._wanted.put(True)
        return True

    def answer(self, patience: float = 0.0) -> T | None:
        """Return the answer, within so many seconds; None without one."""
        with suppress(Empty):
            return self._answers.get(timeout=patience) if patience else self._answers.get_nowait()
        return None

    def close(self) -> None:
        """Have the thread end, now or when it is answered; waits for nothing."""
        self._wanted.put(False)

    def _run(self) -> None:
        while self._wanted.get():
            answer: T | None = None
            with suppress(OSError, ValueError):
                answer = self._call()
            self._busy = False  # first: whoever has the answer may ask again
            self._answers.put(answer)
