"""Until when the agent samples fast: announced windows, and how much of them is granted. No I/O.

Takes who announced what and when (monotonic ns), gives an answer. The senders are not trusted: each process announces
at most every 5 s, and all together have a budget of fast seconds, because fast sampling takes CPU from the training.
"""

from __future__ import annotations

from eroica_otel.hardware.announce import Announcement

SECOND = 1_000_000_000
LEAST_APART_NS = 5 * SECOND
BUDGET_SECONDS = 300.0
"""Fast seconds that may be had in a row; windows of several workers at one time count once."""
EARNED_RATIO = 0.2
"""Fast seconds that are earned back per second."""
MOST_SENDERS = 1024


class Windows:
    """The announced windows of a node."""

    def __init__(self, now: int) -> None:
        """Begin at ``now`` with the whole budget."""
        self.until = now
        self._budget = BUDGET_SECONDS
        self._earned = now
        self._latest: dict[tuple[int, int], int] = {}

    def running(self, now: int) -> bool:
        """Whether a window runs at ``now``; any thread may ask."""
        return now < self.until

    def grant(self, sender: tuple[int, int], said: Announcement, now: int) -> str:
        """Begin a window for the process ``sender`` (uid, pid); return "" or why not."""
        latest = self._latest.get(sender)
        if latest is not None and now - latest < LEAST_APART_NS:
            return "refused: announced a moment ago"
        if len(self._latest) >= MOST_SENDERS and not self._forget(now):
            return "refused: too many senders"
        end = now + round(said.seconds * SECOND)
        more = (end - max(now, self.until)) / SECOND
        self._earn(now)
        if more > self._budget:
            return "refused: windows have used up what may be sampled fast, for now"
        self._latest[sender] = now
        if more > 0:
            self._budget -= more
            self.until = end
        return ""

    def _earn(self, now: int) -> None:
        self._budget = min(BUDGET_SECONDS, self._budget + (now - self._earned) / SECOND * EARNED_RATIO)
        self._earned = now

    def _forget(self, now: int) -> bool:
        """Forget the senders whose rest is over; return whether there is room now."""
        self._latest = {one: when for one, when in self._latest.items() if now - when < LEAST_APART_NS}
        return len(self._latest) < MOST_SENDERS
