"""One rank saves, the others wait for it: it says so in the store, so that they do not take the wait for a hang.

One key for the job, whose value moves while somebody pauses: what does not move was said by a rank that is stopped, or
has gone on long ago. No clock of another machine is read.
"""

from __future__ import annotations

from eroica_otel.agree.store import Store

KEY = "pause"
FRESH_SECONDS = 5.0


class Pauses:
    """Says and hears of pauses; one call of each a second."""

    def __init__(self) -> None:
        self._said = 0
        self._heard: bytes | None = None
        self._moved: float | None = None

    def say(self, store: Store, rank: int) -> None:
        """Say that ``rank`` pauses on purpose."""
        self._said += 1
        store.set(KEY, f"{rank} {self._said}".encode())

    def heard(self, store: Store, now_seconds: float) -> bool:
        """Return whether a rank has said so in the last seconds; it must have been seen to say it twice."""
        value = store.get(KEY) or b""
        if self._heard is not None and value != self._heard:
            self._moved = now_seconds
        self._heard = value
        return self._moved is not None and now_seconds - self._moved <= FRESH_SECONDS

    def forget(self) -> None:
        """Begin to listen anew: what was heard before was another pause."""
        self._heard = self._moved = None
