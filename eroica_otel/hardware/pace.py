"""When a reading is due again: a cap on the rate of what answers slowly (firmware, drivers). The clock is injected."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

Clock = Callable[[], float]

# A reading longer than this share of its interval stretches the interval: asking must not keep firmware busy.
MOST_OF_THE_TIME = 0.1


class Pace:
    """At most one reading per interval, fewer where a reading takes long."""

    def __init__(self, interval_s: float, clock: Clock, most: float = MOST_OF_THE_TIME) -> None:
        """``most`` is the share of the time that readings may take; an ``interval_s`` of 0 makes all of them due."""
        self._interval, self._clock, self._most = interval_s, clock, most
        self._began = float("-inf")
        self._wait = 0.0

    @property
    def due(self) -> float:
        """The time at which the next reading is due."""
        return self._began + self._wait

    def begin(self) -> bool:
        """Return whether a reading is due, and take it as begun; a clock that went back makes it due."""
        if not self._interval:
            return True
        now = self._clock()
        if 0 <= now - self._began < self._wait:
            return False
        self.start(now)
        return True

    def start(self, now: float) -> None:
        """Take a reading as begun ``now``, for a caller that has compared ``due`` itself."""
        self._began, self._wait = now, self._interval

    def end(self) -> None:
        """Say that the reading is done: at a tenth of the time, one of 10 ms leads to at most ten a second."""
        if self._interval:
            self.took(self._clock() - self._began)

    def took(self, seconds: float) -> None:
        """Say that the reading is done and how long it took, for a caller that has asked others in between."""
        self._wait = max(self._interval, seconds / self._most)


class Turns:
    """Which of several paced readings are due; those that are not cost nothing."""

    def __init__(self, count: int) -> None:
        """All ``count`` are due at once."""
        self._count = count
        self._latest = -math.inf
        self._next = [(-math.inf, index) for index in range(count)]

    def due(self, now: float) -> list[int]:
        """Return the indices of what is due ``now``; each has to be given its next turn by ``again``."""
        if now < self._latest:  # a clock that went back would make all wait
            self._next = [(-math.inf, index) for index in range(self._count)]
        self._latest = now
        due = []
        while self._next and self._next[0][0] <= now:
            due.append(heappop(self._next)[1])
        return due

    def again(self, index: int, when: float) -> None:
        """Have one be due at ``when``."""
        heappush(self._next, (when, index))
