"""Whose clock stamps what is written: takes the Date of a server's answers, gives the time for the next sample.

A sample from an hour ahead does more harm than that nobody sees it: Prometheus takes it, and from then on refuses, for
that hour, everything that is older, from whomever it comes (seen with 2.42; one Prometheus serves many jobs). So where
both clocks are far apart that of the server counts. The localizer compares no clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

APART_SECONDS = 30.0
"""Below it the machine's own clock counts: Date has whole seconds, and an answer may take some."""


class ServerTime:
    """The time of one server, between its answers by a clock that nobody sets.

    Attributes:
        known: Whether the server has told its time.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args: say: Is told once that the clocks are apart, and again where they were not in between."""
        self._say, self._wall, self._monotonic = say, wall, monotonic
        self._offset = 0.0
        self._apart = self.known = False

    def hear(self, date: str | None) -> None:
        """Take the Date header of an answer that has just come; what is no date tells nothing."""
        try:
            told = parsedate_to_datetime(date or "").timestamp()
        except (ValueError, TypeError, OverflowError, IndexError):
            return
        self._offset, self.known = told - self._monotonic(), True
        ahead = self._wall() - told
        apart = abs(ahead) > APART_SECONDS
        if apart and not self._apart:
            way = "ahead of" if ahead > 0 else "behind"
            self._say(
                f"the clock of this machine is {_span(abs(ahead))} {way} that of the server; what is written there has "
                "the server's time, other times from here are wrong: set the clock (NTP)"
            )
        self._apart = apart

    def now(self) -> float:
        """Return the time for a sample in unix seconds: the machine's, or the server's where they are far apart."""
        own, told = self._wall(), self._offset + self._monotonic()
        return told if self.known and abs(own - told) > APART_SECONDS else own


def _span(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
