"""Which thread trains: inputs that another one fetches ahead say nothing about the iteration."""

from __future__ import annotations

import threading


class TrainingThread:
    """Learns the thread from updates, looked at about once a second.

    A thread that Python did not start is left out: on a GPU autograd's own threads run the updates of an optimizer in
    backward, while inputs come from the thread that trains.

    Attributes:
        ident: threading.get_ident() of the one thread that updates; 0 while none, or more than one, is known.
    """

    def __init__(self) -> None:
        self._inputs: set[int] = set()
        self._updates: set[int] = set()
        self.ident = 0

    def see_input(self, ident: int) -> bool:
        """Take note of the thread of an input; return whether it is known not to be the one that trains."""
        if self.ident:
            return ident != self.ident
        self._inputs.add(ident)
        return False

    def see_update(self, ident: int) -> bool:
        """Take note of the thread of an update; return whether inputs of other threads were taken for its own."""
        if ident in self._updates:
            return False
        alive = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
        if ident not in alive:
            return False
        self._updates = {known for known in self._updates if known in alive} | {ident}
        self.ident = ident if len(self._updates) == 1 else 0
        misled = bool(self.ident and self._inputs - {ident})
        self._inputs.clear()
        return misled
