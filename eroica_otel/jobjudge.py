"""Verdicts that are being worked out or written down: takes an act for each job, gives back what it came to, one thread
for each.

So a job with many workers, or one whose judge does not end, takes none of the others' time: they are judged beside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from eroica_otel.jobfaults import OWN_ERRORS
from eroica_otel.jobwindow import Evidence
from eroica_otel.model import Report
from eroica_otel.query.store import Arrived, Job, JobKey
from eroica_otel.statefolder import JobRecord

AT_ONCE = 8
"""Windows of different jobs that are judged at once; a further one waits for the first that ends."""


@dataclass(slots=True)
class Work:
    """One verdict to be, or to be written.

    Attributes:
        key: The job.
        judge: Works it out, or writes it.
        then: Takes this when it is done; run by who collects.
        seconds: What it took.
        done: Set when it is.
    """

    key: JobKey
    judge: Callable[[], Report]
    then: Callable[[Work], None] = lambda work: None
    seconds: float = 0.0
    done: threading.Event = field(default_factory=threading.Event)
    _report: Report | None = None
    _error: Exception | None = None

    def run(self) -> None:
        """Judge, and keep what comes of it."""
        began = time.perf_counter()
        try:
            self._report = self.judge()
        except (OSError, *OWN_ERRORS) as error:
            self._error = error
        finally:
            self.seconds = time.perf_counter() - began
            self.done.set()

    def report(self) -> Report:
        """Return the verdict, or raise what the judge raised."""
        if self._report is None:
            raise self._error or RuntimeError("the judge gave no verdict")
        return self._report


@dataclass(frozen=True, slots=True)
class Given:
    """What a window is judged from: the job and the window, what of it counts, what was known before, who came late."""

    job: Job
    arrived: Arrived
    evidence: Evidence
    record: JobRecord
    twice: Mapping[int, Sequence[str]]
    late: tuple[int, ...]


class Judging:
    """The verdicts under way; one thread begins and collects them."""

    def __init__(self, wake: Callable[[], None], *, at_once: int = AT_ONCE) -> None:
        """Take what to call, from another thread, when a verdict is ready to be collected."""
        self._wake, self._at_once = wake, at_once
        self._under_way: dict[JobKey, Work] = {}

    def may_begin(self, key: JobKey) -> bool:
        """Return whether a window of the job can be judged now: its one before is, and there are not too many."""
        return key not in self._under_way and len(self._under_way) < self._at_once

    def under_way(self) -> tuple[JobKey, ...]:
        """Return the jobs about which a verdict is under way."""
        return tuple(self._under_way)

    def begin(self, work: Work) -> None:
        """Begin to judge."""

        def run() -> None:
            try:
                work.run()
            finally:
                self._wake()

        self._under_way[work.key] = work
        # A daemon: who ends the localizer does not wait for a judge that does not end.
        threading.Thread(target=run, name="eroica-judge", daemon=True).start()

    def collect(self, end: float | None = 0.0) -> bool:
        """Hand over the verdicts that are ready now, or by ``end`` of time.monotonic() (None = all); tell if any."""
        waited = [work for work in self._under_way.values()
                  if work.done.wait(None if end is None else max(0.0, end - time.monotonic()))]  # fmt: skip
        for work in waited:
            del self._under_way[work.key]
            work.then(work)
        return bool(waited)
