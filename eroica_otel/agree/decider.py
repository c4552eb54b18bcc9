"""Who decides: one of the ranks that want a window reads what all say of themselves, not each of them.

Of thousands of ranks all want a window when a job gets slow; if each read what all others say, the store would answer
millions of requests a second. The first that asks decides, shows by a beat that it lives, and tells the others when
there can be no window. When the beat stands still for PATIENCE_SECONDS the next one that asks takes over.
"""

from __future__ import annotations

from collections.abc import Callable

from eroica_otel.agree.store import Store

PATIENCE_SECONDS = 10.0


class Decider:
    """One rank's view of who decides on the next window; all calls may raise what the store raises."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begin(-1)

    def _begin(self, window: int) -> None:
        self._window, self._turn, self._beats = window, 0, 0
        self._seen, self._seen_at = b"", self._clock()
        self._told = b""

    def mine(self, store: Store, window: int, rank: int) -> bool:
        """Return whether this rank decides on window number ``window`` in this round."""
        if window != self._window:
            self._begin(window)
        key = f"decider/{window}/"
        if store.first(f"{key}{self._turn}", str(rank).encode()) == str(rank).encode():
            self._beats += 1
            store.set(f"{key}beat", f"{self._turn} {self._beats}".encode())
            return True
        beat, now = store.get(f"{key}beat") or b"", self._clock()
        if beat != self._seen:
            self._seen, self._seen_at = beat, now
            self._turn = max(self._turn, int(beat.split()[0]) if beat else 0)
        elif now - self._seen_at > PATIENCE_SECONDS:
            self._turn, self._seen_at = self._turn + 1, now
        return False

    def refuse(self, store: Store, why: str) -> None:
        """Tell all that want the window why there is none."""
        store.set(f"decider/{self._window}/refusal", f"{self._turn} {self._beats} {why}".encode())

    def refusal(self, store: Store) -> str:
        """Return why there is no window, "" when nothing new was told."""
        told = store.get(f"decider/{self._window}/refusal") or b""
        if told == self._told:
            return ""
        self._told = told
        return told.decode().split(" ", 2)[2]
