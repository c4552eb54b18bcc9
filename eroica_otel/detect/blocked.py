"""Events of the training and what its stack shows -> is it pausing, or does it hang? Pure.

The published rule (no event for 5 x the mean iteration, EROICA, NSDI'26) with a least time of 10 s. Saving, validation
and the end of the training make no event either: what tells them apart is where the training thread is.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

FACTOR = 5.0
LEAST_SECONDS = 10.0
RECENT = 50
PAUSE_FACTOR = 3.0
PAUSE_SECONDS = 600.0
"""A pause is believed for this long, or for three times the longest one before: a dead file system is a hang."""
ROUND_SECONDS = 3.0
"""What a round counts for at most: a process that was stopped itself has not waited for its training meanwhile."""
LONG_IN_A_ROW = 3
"""From that many iterations beyond the limit in a row on they are not pauses but the job's pace."""


def blocked_limit_seconds(recent_seconds: float | None) -> float:
    """Return how long a training may go without an event; infinite while no iteration has been timed."""
    return max(FACTOR * recent_seconds, LEAST_SECONDS) if recent_seconds else float("inf")


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at the training thread says.

    Attributes:
        pause: Family of an intended pause on its stack ("save", "evaluation", "debugger", ...), "" without.
        place: "inside" the loop that trains, "between" two runs of it, "outside" of all loops around it, "" unknown.
        peers_pause: Another rank of the job says that it pauses on purpose.
    """

    pause: str = ""
    place: str = ""
    peers_pause: bool = False


NOTHING = Seen()


class Silence:
    """How long there has been no event, and what that means.

    Attributes:
        seconds: Time without an event as the rule counts it.
        fetching_seconds: Time with inputs and without an update.
        began: When the latest event was seen, by the clock that ``see`` is given.
        state: "", "paused" or "blocked", as of the latest ``judge``.
        longest_blocked_seconds: Longest time in state blocked that ended by itself.
    """

    def __init__(self) -> None:
        self._periods: deque[float] = deque(maxlen=RECENT)
        self._long = 0
        self._longest_pause = 0.0
        self._latest: float | None = None
        self.seconds = self.fetching_seconds = self.began = 0.0
        self.state = ""
        self.longest_blocked_seconds = 0.0

    @property
    def limit_seconds(self) -> float:
        """Return the time without an event from which on a training is blocked."""
        recent = sum(self._periods) / len(self._periods) if self._periods else None
        return blocked_limit_seconds(recent)

    @property
    def near(self) -> bool:
        """Whether half of the limit is over: from then on the stack is looked at and the peers are listened to."""
        return max(self.seconds, self.fetching_seconds) > self.limit_seconds / 2

    @property
    def believed_seconds(self) -> float:
        """Return how long a pause is believed."""
        return max(PAUSE_FACTOR * self._longest_pause, PAUSE_SECONDS, self.limit_seconds)

    def is_pause(self, period_seconds: float) -> bool:
        """Take one timed iteration; return whether it holds a pause and says nothing about the job's pace."""
        self._long = self._long + 1 if period_seconds > self.limit_seconds else 0
        pause = 0 < self._long < LONG_IN_A_ROW
        if not pause:
            self._periods.append(period_seconds)
        return pause

    def forget(self) -> None:
        """Begin anew: another loop is learned, whose pace is not known."""
        self._periods.clear()
        self._long = 0

    def see(self, now: float, event: bool, update: bool) -> None:
        """Take one round at ``now`` (seconds): whether there were events, and an update among them, since the last."""
        passed = min(now - self._latest, ROUND_SECONDS) if self._latest is not None else 0.0
        self._latest = now
        if event and self.state and self.seconds > self.limit_seconds:
            self._end()
        if event:
            self.began, self.seconds = now, 0.0
            self.fetching_seconds = 0.0 if update else self.fetching_seconds + passed
        else:
            self.seconds += passed

    def _end(self) -> None:
        if self.state == "paused":
            self._longest_pause = max(self._longest_pause, self.seconds)
        else:
            self.longest_blocked_seconds = max(self.longest_blocked_seconds, self.seconds)

    def pauses(self, seen: Seen) -> bool:
        """Return whether the peers that wait for this rank are to be told that it pauses on purpose."""
        believed = max(self.seconds, self.fetching_seconds) <= self.believed_seconds
        return self.near and believed and (bool(seen.pause) or self.fetches)

    @property
    def fetches(self) -> bool:
        """Whether inputs come, so that this rank waits for nobody."""
        return self.seconds <= self.limit_seconds / 2

    def judge(self, seen: Seen) -> str:
        """Return the state: "" while events come in time, else "paused" or "blocked"."""
        self.state = self._judged(seen)
        return self.state

    def _judged(self, seen: Seen) -> str:
        if self.seconds <= self.limit_seconds:
            long = self.limit_seconds < self.fetching_seconds <= self.believed_seconds
            return "paused" if long and self.fetches else ""
        if seen.pause == "debugger" or seen.place == "outside":
            return "paused"
        excused = seen.pause or seen.place == "between" or seen.peers_pause
        return "paused" if excused and self.seconds <= self.believed_seconds else "blocked"
