"""What the localizer says while it works: takes snapshots of jobs, gives lines, each once and not too often."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from eroica_otel import jobview
from eroica_otel.query.store import Job, JobKey

LINE_SECONDS = 1.0
"""Shortest time between two lines about the same thing, unless it is complete."""
_STATES, _SHARED = 0, -1
"""What a line is about where it is not a window id."""


class Talk:
    """Remembers what was said about which job and window."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float]) -> None:
        self.say, self._clock = say, clock
        self._said: dict[tuple[JobKey, int], tuple[str, float]] = {}

    def about(self, job: Job, judged: Collection[int]) -> None:
        """Say what has changed about a job since the last call; windows in ``judged`` are over."""
        if job.workers:
            self._tell((job.key, _STATES), jobview.states_line(job))
        self._shared(job)
        for window_id, arrived in job.windows.items():
            if window_id not in judged:
                complete = len(arrived.ranks) >= jobview.expected_workers(job, arrived)
                self._tell((job.key, window_id), jobview.window_line(job, arrived), at_once=complete)

    def forget(self, key: JobKey, window_id: int) -> None:
        """Drop what was said about a window."""
        self._said.pop((key, window_id), None)

    def keep(self, jobs: Collection[JobKey]) -> None:
        """Drop what was said about other jobs than these."""
        self._said = {key: said for key, said in self._said.items() if key[0] in jobs}

    def _tell(self, key: tuple[JobKey, int], line: str, *, at_once: bool = False) -> None:
        said, when = self._said.get(key, ("", -math.inf))
        now = self._clock()
        if line != said and (at_once or now - when >= LINE_SECONDS):
            self._said[key] = (line, now)
            self.say(line)

    def _shared(self, job: Job) -> None:
        """Say once that several processes claim the same ranks, and again only after they did not."""
        twice = jobview.doubles(job)
        if not twice:
            self.forget(job.key, _SHARED)
        elif (job.key, _SHARED) not in self._said:
            self._tell((job.key, _SHARED), jobview.shared_line(job, twice))
