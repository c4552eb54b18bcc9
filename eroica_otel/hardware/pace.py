"""When a reading is due again: a cap on the rate of what answers slowly (firmware, drivers). The clock is injected."""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], float]

# A reading longer than this share of its interval stretches the interval: asking must not keep firmware busy.
MOST_OF_THE_TIME = 0.1


class Pace:
    """At most one reading per interval, fewer where a reading takes long."""

    def __init__(self, interval_s: float, clock: Clock) -> None:
        self._interval, self._clock = interval_s, clock
        self._began = float("-inf")
        self._wait = 0.0

    def begin(self) -> bool:
        """Return whether a reading is due, and take it as begun; a clock that went back makes it due."""
        if not self._interval:
            return True
        now = self._clock()
        if 0 <= now - self._began < self._wait:
            return False
        self._began, self._wait = now, self._interval
        return True

    def end(self) -> None:
        """Say that the reading is done: one of 10 ms leads to at most ten a second, whatever the interval."""
        if self._interval:
            self._wait = max(self._interval, (self._clock() - self._began) / MOST_OF_THE_TIME)
