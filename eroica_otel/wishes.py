"""What this rank wants of the others: one window at most, and for which reason. Clocks are arguments."""

from __future__ import annotations

import math
from pathlib import Path

from eroica_otel.agree.window import Cooldown
from eroica_otel.config import WorkerConfig
from eroica_otel.model import Window
from eroica_otel.status import REQUEST_FILE

REFUSED_SECONDS = 60.0
"""Least time between a window that was refused and the next wish."""


class Wishes:
    """One rank's wish; times are seconds of the monotonic clock.

    Attributes:
        reason: Of the window that is wanted, one of model.REASONS; "" for none.
        since: When that began.
        reference_done: Whether the job's healthy window was agreed on, or is not to be taken.
    """

    def __init__(self, config: WorkerConfig, folder: Path) -> None:
        """Args: folder: The worker's private one, in which a request for a manual window lies."""
        self._config = config
        self._request = folder / REQUEST_FILE
        self._cooldown = Cooldown(config.cooldown_seconds)
        self._refused_until = 0.0
        self._latest = math.inf  # until the first look: as if a window had begun with it
        self.reason, self.since = "", 0.0
        self.begin()

    def begin(self) -> None:
        """Another loop is to be learned, which has a reference of its own."""
        self.reference_done = not self._config.reference

    def change(self, config: WorkerConfig) -> None:
        """Take other values of options that may change while the training runs."""
        self._config = config
        self._cooldown.base_seconds = config.cooldown_seconds

    def look(self, now: float, *, busy: bool, timed: int, degraded: bool, steady: bool, again: bool) -> None:
        """Find out what is wanted at ``now``; the first look, once the loop is learned, begins the intervals.

        Args:
            busy: A window is agreed or running, so nothing is wanted.
            timed: Iterations timed so far.
            degraded: The training is slower than it was.
            steady: It goes on, at its usual pace.
            again: This rank was too late for the reference.
        """
        self._latest = min(self._latest, now)
        reason = "" if busy else self._wanted(now, timed, degraded, steady, again)
        if reason != self.reason:
            self.reason, self.since = reason, now

    def _wanted(self, now: float, timed: int, degraded: bool, steady: bool, again: bool) -> str:
        if self._request.exists():
            return "manual"
        if not degraded:
            self._cooldown.reset()
        if now < self._refused_until:
            return ""
        if degraded:
            return "degraded" if self._cooldown.over(now) else ""
        if timed < self._config.recent_iterations:
            return ""
        if again or not self.reference_done:
            return "reference"
        return "periodic" if steady and self._is_due(now) else ""

    def _is_due(self, now: float) -> bool:
        """Whether the interval since the latest window is over, and the rest after a degraded one."""
        return 0 < self._config.periodic_seconds <= now - self._latest and self._cooldown.over(now)

    def taken(self, window: Window, now: float, recent_seconds: float) -> None:
        """A window is agreed on; ``recent_seconds`` is the iteration time by now."""
        self._latest = now
        self.reference_done |= window.reason == "reference"
        self._request.unlink(missing_ok=True)
        if window.reason == "degraded":
            self._cooldown.begin(now, recent_seconds)

    def looked(self, now: float) -> None:
        """A blocked window is agreed on, which nobody needs to wish for here."""
        self._latest = now

    def refused(self, now: float) -> None:
        """There can be no such window; rest before the next wish."""
        self._refused_until = now + max(REFUSED_SECONDS, self._config.cooldown_seconds)
        self._request.unlink(missing_ok=True)
