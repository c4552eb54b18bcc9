"""Until when the agent samples fast: announced windows, and how much of them is granted. No I/O.

Takes who announced what and when (monotonic ns), gives an answer. The senders are not trusted: each process announces
at most every 5 s, and all together have a budget of fast seconds, because fast sampling takes CPU from the training.
One user has half of it at most, and half of the places, so that nobody can take the windows of all others.
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
MOST_UNSEEN = 64
"""Announcements in 5 s of one user's processes that have no number here, as nobody can tell whether their own is right:
as many as a node has workers, and more."""
MOST_OF_ONE = 0.5
"""Share of budget and places that one user has."""


class Budget:
    """Seconds that are spent at once and earned back slowly."""

    def __init__(self, most: float, now: int) -> None:
        """Begin at ``now`` (monotonic ns) with all of it."""
        self._most, self._left, self._earned = most, most, now

    def left(self, now: int) -> float:
        """Return the seconds that may be had."""
        passed = (now - self._earned) / SECOND
        self._left = min(self._most, self._left + max(0.0, passed) * EARNED_RATIO)
        self._earned = now
        return self._left

    def spend(self, seconds: float) -> None:
        """Take so many seconds out."""
        self._left -= seconds


class Windows:
    """The announced windows of a node."""

    def __init__(self, now: int) -> None:
        """Begin at ``now`` with the whole budget."""
        self.until = now
        self._budget = Budget(BUDGET_SECONDS, now)
        self._of_user: dict[int, Budget] = {}
        self._latest: dict[tuple[int, int], int] = {}

    def running(self, now: int) -> bool:
        """Whether a window runs at ``now``; any thread may ask."""
        return now < self.until

    def grant(self, sender: tuple[int, int], said: Announcement, now: int) -> str:
        """Begin a window for the process ``sender`` (uid, pid); return "" or why not.

        The pid is that which the kernel tells, or less than 0: one that the process itself has told.
        """
        refusal = self._too_many(sender, now)
        if refusal:
            return refusal
        end = now + round(said.seconds * SECOND)
        more = (end - max(now, self.until)) / SECOND
        if more > self._budget.left(now):
            return "refused: windows have used up what may be sampled fast, for now"
        own = self._of(sender[0], now)
        if more > own.left(now):
            return "refused: windows of this user have used up what one user may sample fast, for now"
        self._latest[sender] = now
        if more > 0:
            self._budget.spend(more)
            own.spend(more)
            self.until = end
        return ""

    def _too_many(self, sender: tuple[int, int], now: int) -> str:
        """Return why nothing more is heard of the sender for a moment, "" where it is."""
        latest = self._latest.get(sender)
        if latest is not None and now - latest < LEAST_APART_NS:
            return "refused: announced a moment ago"
        uid, pid = sender
        most = MOST_UNSEEN if pid < 0 else MOST_SENDERS * MOST_OF_ONE
        if len(self._latest) >= most:
            self._latest = {one: when for one, when in self._latest.items() if now - when < LEAST_APART_NS}
        alike = sum(one[0] == uid and (one[1] < 0) == (pid < 0) for one in self._latest)
        if alike >= most or len(self._latest) >= MOST_SENDERS:
            return "refused: too many senders"
        return ""

    def _of(self, uid: int, now: int) -> Budget:
        """Return the user's budget; one that is whole again is forgotten, as there may be any number of users."""
        whole = BUDGET_SECONDS * MOST_OF_ONE
        if uid not in self._of_user:
            if len(self._of_user) >= MOST_SENDERS:
                self._of_user = {user: budget for user, budget in self._of_user.items() if budget.left(now) < whole}
            if len(self._of_user) >= MOST_SENDERS:
                return Budget(0.0, now)
        return self._of_user.setdefault(uid, Budget(whole, now))
