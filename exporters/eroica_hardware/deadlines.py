"""When the next sample is due: absolute deadlines of a monotonic clock, and how well they were kept.

Takes times in ns, gives waits in ns and figures. A wait that ends late shifts no later deadline; deadlines that have
passed meanwhile are counted as missed and never made up for, so a source that hung is not asked in a burst. Deadlines
are multiples of their period, so that those who share a thread also share its wakes.
"""

from __future__ import annotations

from dataclasses import dataclass

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Kept:
    """How well deadlines were kept.

    Attributes:
        ticks, missed: Deadlines that were kept, and that passed unused; since the start.
        hertz: Rate that was reached over the latest whole second, 0 before the first one.
        jitter_seconds, jitter_most_seconds: Mean and largest lateness in that second.
    """

    ticks: int = 0
    missed: int = 0
    hertz: float = 0.0
    jitter_seconds: float = 0.0
    jitter_most_seconds: float = 0.0


class Deadlines:
    """One deadline after the other at a rate that may change."""

    def __init__(self, hertz: float, now: int) -> None:
        """Begin at ``now`` (monotonic ns)."""
        self.kept = Kept()
        self._hertz, self._period = hertz, round(SECOND / hertz)
        self._next = -(-now // self._period) * self._period
        self._ticks = self._missed = 0
        self._since, self._lates, self._late, self._most = now, 0, 0, 0

    def change(self, hertz: float, now: int) -> None:
        """Go on at another rate, with the next of its deadlines after ``now``."""
        if hertz == self._hertz:
            return
        self._hertz, self._period = hertz, round(SECOND / hertz)
        self._next = self._after(now)

    def wait(self, now: int) -> int:
        """Return the ns until the next deadline, 0 where it has come."""
        if self._next - now > 2 * self._period:  # the clock went back
            self._next = self._after(now)
        return max(0, self._next - now)

    def overdue(self, now: int) -> int:
        """Return the ns for which a deadline has been waiting; any thread may ask."""
        return max(0, now - self._next)

    def tick(self, now: int) -> None:
        """Say that the deadline that has come is used ``now``."""
        late = max(0, now - self._next)
        skipped = late // self._period
        self._ticks += 1
        self._missed += skipped
        self._next += (skipped + 1) * self._period
        self._lates += 1
        self._late += late
        self._most = max(self._most, late)
        if now - self._since >= SECOND:
            self._close(now)

    def _after(self, now: int) -> int:
        return (now // self._period + 1) * self._period

    def _close(self, now: int) -> None:
        """Make figures of the second that is over."""
        hertz = self._lates * SECOND / (now - self._since)
        mean = self._late / self._lates / SECOND
        self.kept = Kept(self._ticks, self._missed, hertz, mean, self._most / SECOND)
        self._since, self._lates, self._late, self._most = now, 0, 0, 0
