"""What the localizer shows: takes what it remembers and sees, publishes series and reports, pushes and annotates."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from eroica_otel import jobview
from eroica_otel.jobannotate import Annotations
from eroica_otel.jobfaults import Faults
from eroica_otel.jobpolicy import Policies
from eroica_otel.jobsend import Sender
from eroica_otel.model import Point
from eroica_otel.publish.series import LocalizerStatus, job_points, localizer_points
from eroica_otel.publish.serve import MetricsServer, Publication
from eroica_otel.query.store import Job, JobKey
from eroica_otel.statefolder import JobRecord

SHOWN_SECONDS = 3600.0
"""A job that has been silent for this long leaves /metrics."""


class Show:
    """Shows one state after another; a job that cannot be shown costs itself only."""

    def __init__(
        self,
        metrics: MetricsServer,
        sender: Sender,
        policies: Policies,
        faults: Faults,
        annotations: Annotations,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics, self._sender, self._policies = metrics, sender, policies
        self._faults, self._annotations, self._clock = faults, annotations, clock

    def __call__(
        self, status: LocalizerStatus, jobs: Mapping[JobKey, Job], records: Mapping[JobKey, JobRecord]
    ) -> None:  # fmt: skip
        """Show this from now on."""
        points, now = localizer_points(status), self._clock()
        for key, job in jobs.items():
            if now - job.last_seen < SHOWN_SECONDS:
                add = partial(self._add, points, records.get(key) or JobRecord(*key), job)
                self._faults.guard("publish", add)
        reports = {key: record.report for key, record in records.items() if record.report is not None}
        self._metrics.publish(Publication(tuple(points), reports))
        self._faults.guard("publish", lambda: self._sender.show(points))
        self._faults.guard("publish", lambda: self._annotations.show(records))

    def stop(self) -> None:
        """Write and push a last time."""
        self._annotations.stop()
        self._sender.stop()

    def _add(self, points: list[Point], record: JobRecord, job: Job) -> None:
        points += job_points(jobview.job_status(record, job, self._policies.changes(*job.key)))
