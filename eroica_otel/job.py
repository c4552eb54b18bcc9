"""The localizer job: deliveries in, verdicts and series out. Composition; what it decides is in jobstate.py.

Rounds look which windows are due, judge each exactly once, keep references, end findings, write reports and publish.
A failure in one stage is counted under its name, logged once per kind, and the service goes on.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from eroica_otel import __version__, jobhang, jobview, names
from eroica_otel.errors import ConfigError, QueryError
from eroica_otel.jobfaults import Faults
from eroica_otel.jobfiles import ReportFiles
from eroica_otel.joboptions import JobOptions, Judge
from eroica_otel.jobsend import Sender
from eroica_otel.jobsources import Sources
from eroica_otel.jobstate import Early, after_sighting, after_verdict, is_final
from eroica_otel.jobtalk import Talk
from eroica_otel.model import Finding, Point, Report, WorkerWindow
from eroica_otel.publish.report.words import visible
from eroica_otel.publish.series import LocalizerStatus, job_points, localizer_points
from eroica_otel.publish.serve import MetricsServer, Publication
from eroica_otel.query.journal import Journal
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.receiver import Receiver
from eroica_otel.query.store import Arrived, Job, JobKey, Store
from eroica_otel.statefolder import JobRecord, Reference, StateFolder, key_of

SHOWN_SECONDS = 3600.0
"""A job that has been silent for this long leaves /metrics."""
_JUDGED_KEPT = 64
_HISTORY_KEPT = 8
_LEAST_REST_SECONDS = 0.05
_RECORDS_KEPT = 128
_FUTURE_SECONDS = 86400.0
"""A worker's clock may be wrong by a day."""
logger = logging.getLogger(__name__)


class Localizer:
    """One running localizer; ``close`` frees its ports, files and lock."""

    def __init__(
        self,
        options: JobOptions,
        judge: Judge,
        *,
        progress: Callable[[str], None] = logger.info,
        verdict: Callable[[Report], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Open the ports and the state folder; ``start`` restores and serves.

        Raises:
            ConfigError: the state folder or an address cannot be used.
            DeliveryError: a port is taken.
        """
        self._options, self._judge, self._clock, self._wall = options, judge, clock, wall
        self._talk, self._verdict = Talk(progress, clock), verdict
        self._faults, self._rejudged = Faults(), 0
        self._records: dict[JobKey, JobRecord] = {}
        self._news = threading.Event()
        self._early: dict[tuple[JobKey, int], tuple[Early, JobRecord]] = {}
        self._store = Store()
        self._files = ReportFiles(options.folder, options.renderers, options.outputs)
        self._started = clock()
        with ExitStack() as undo:
            self.sources = Sources(
                options.listen, options.backend, self._accept, say=self._talk.say, faults=self._faults
            )
            undo.callback(self.sources.stop)
            self.metrics = MetricsServer(options.metrics, options.renderers)
            undo.callback(self.metrics.stop)
            self.sender = Sender(options.send, socket.gethostname(), self.metrics.address.port, self._talk.say)
            self._folder = StateFolder(options.state)
            undo.callback(self._folder.close)
            self.sources.read_back(self._folder.idle_seconds(wall()))
            self._journal = Journal(self._folder.journal)
            undo.pop_all()

    def start(self) -> None:
        """Restore windows, findings and references, publish them, and only then accept deliveries and be ready."""
        self.metrics.start("eroica-metrics")
        for record in self._folder.read():
            # The clock of the earlier process says nothing about this one's.
            life = replace(record.life, healthy_since=None, moving_since=None, arrived=-math.inf)
            self._records[record.team, record.training_job] = replace(record, life=life)
        self._files.resume(self._records)
        for window in self._journal.windows():
            self._store.restore(window, self._clock())
        self._faults.guard("state", lambda: self._folder.prune(self._wall()))
        windows = sum(len(job.windows) for job in self._store.jobs())
        for record in self._records.values():
            for window_id in record.judged:
                self._store.release((record.team, record.training_job), window_id)
        findings = len(self.open_findings())
        if windows or findings:
            self._talk.say(f"restored {windows} windows and {findings} open findings from {self._folder.path}")
        self._publish(self._jobs())
        self.sources.start()

    def run(self, stop: threading.Event) -> None:
        """Make rounds until ``stop`` is set; half of the time at most goes into rounds, however fast windows come."""
        while not stop.is_set():
            began = self._clock()
            self.round()
            stop.wait(max(_LEAST_REST_SECONDS, self._clock() - began))
            self._news.wait(self._options.round_seconds)
            self._news.clear()

    def wake(self) -> None:
        """Make the next round now."""
        self._news.set()

    def round(self) -> None:
        """Look once at everything: judge what is due, end what has ended, publish."""
        before = dict(self._records)
        jobs = self._jobs()
        for job in jobs.values():
            self._faults.guard("judge", partial(self._job_round, job))
        if self._records != before:
            self._save()
        self._faults.guard("state", self._folder.beat)
        self._talk.keep(jobs)
        self._early = {key: early for key, early in self._early.items() if key[1] in jobs[key[0]].windows}
        self._publish(jobs)

    def _job_round(self, job: Job) -> None:
        self._talk.about(job, self._record(job.key).judged)
        # By arrival: ids are of the deciders' clocks, which may be an hour apart.
        for arrived in job.windows.values():
            self._consider(job, arrived)
        self._look(job)

    def open_findings(self) -> tuple[Finding, ...]:
        """Return the findings of all jobs that have not ended."""
        return tuple(item.finding for record in self._records.values() for item in record.life.open)

    def workers_seen(self) -> int:
        """Return how many workers have delivered since the start."""
        return sum(len(job.workers) for job in self._store.jobs())

    @property
    def receiver(self) -> Receiver:
        """The embedded receiver.

        Raises:
            ConfigError: there is none.
        """
        if self.sources.receiver is None:
            raise ConfigError("this localizer receives nothing itself; give it an address to listen on")
        return self.sources.receiver

    def close(self) -> None:
        """Stop sources and server and write what is remembered."""
        self.sources.stop()
        self.metrics.stop()
        self.sender.stop()
        self._save()
        self._journal.close()
        self._folder.close()

    def _accept(self, delivery: Delivery) -> None:
        for point in delivery.points:
            if point.name == names.WINDOW_ID.name and point.value > self._wall() + _FUTURE_SECONDS:
                # It would count as newer than every true window of its job.
                raise QueryError(f"window {point.value:.0f} lies in the future; set the clock of the worker")
        window = self._store.add(delivery, self._clock())
        if window is not None:
            self._journal.append(window)
            self._news.set()

    def _jobs(self) -> dict[JobKey, Job]:
        """Return the jobs that deliver, and those that are only remembered."""
        remembered = {key: Job(key, {}, {}, 0.0, self._started) for key in self._records}
        return remembered | {job.key: job for job in self._store.jobs()}

    def _record(self, key: JobKey) -> JobRecord:
        return self._records.get(key) or JobRecord(*key)

    def _consider(self, job: Job, arrived: Arrived) -> None:
        expected = jobview.expected_workers(job, arrived)
        if arrived.window_id in self._record(job.key).judged:
            self._reconsider(job, arrived, expected)
        elif jobhang.due(job, arrived, expected, now=self._clock(), patience=self._options.patience):
            self._decide(job, arrived, expected)

    def _decide(self, job: Job, arrived: Arrived, expected: int) -> None:
        """Judge one window; only workers that come late bring a second verdict, also when the judge fails."""
        record = self._record(job.key)
        record = replace(record, judged=(*record.judged, arrived.window_id)[-_JUDGED_KEPT:])
        self._records[job.key] = record
        self._talk.forget(job.key, arrived.window_id)
        if len(arrived.windows) < expected:
            self._early[job.key, arrived.window_id] = (Early(self._clock(), frozenset(arrived.windows)), record)
        else:
            self._store.release(job.key, arrived.window_id)
        self._give(job, arrived, expected, record)

    def _reconsider(self, job: Job, arrived: Arrived, expected: int) -> None:
        """Judge a window a second time when its missing workers have come, unless a newer verdict stands."""
        present = self._record(job.key)
        early, before = self._early.get((job.key, arrived.window_id), (Early(-math.inf, frozenset()), present))
        latest = present.report is None or present.report.window_id == arrived.window_id
        patience = self._options.patience
        if latest and not is_final(early, arrived.windows.keys(), expected, now=self._clock(), patience=patience):
            return
        known = self._early.pop((job.key, arrived.window_id), None) is not None
        self._store.release(job.key, arrived.window_id)
        late = arrived.windows.keys() - early.ranks
        if known and latest and late:
            self._rejudged += 1
            self._give(job, arrived, expected, replace(before, judged=present.judged), tuple(late))

    def _give(self, job: Job, arrived: Arrived, expected: int, record: JobRecord, late: Sequence[int] = ()) -> None:
        """Judge, remember and deliver; ``record`` is what was known before the window."""
        twice = jobview.doubles(job)
        windows = [window for rank, window in sorted(arrived.windows.items()) if rank not in twice]
        if not windows:
            # Nothing failed and nothing was judged: findings, history and the time of the latest verdict stay.
            report = jobview.shared_report(job, arrived, twice)
            self._records[job.key] = replace(record, report=report)
            self._deliver(job.key, report)
            return
        began = time.perf_counter()
        reference = self._folder.reference(key_of(windows), self._wall())
        before = reference.windows if reference else ()
        there = jobhang.presence(job, self._clock(), self._options.patience)
        judge = partial(self._judge, windows, before, expected=expected, history=record.history, presence=there)
        what = f"window {arrived.window_id} of {visible(job.key[1])}"
        judged: list[Report] = []
        self._faults.guard("judge", lambda: judged.append(judge()), what)
        if not judged:
            return
        report = jobview.with_notes(judged[0], twice, self._clock() - arrived.first, windows)
        report = jobview.judged_again(report, late) if late else report
        self._remember(replace(record, duration_seconds=time.perf_counter() - began), report, windows, arrived.first)
        self._deliver(job.key, report)

    def _remember(self, record: JobRecord, report: Report, windows: Sequence[WorkerWindow], first: float) -> None:
        if report.reason == "reference" and all(window.iterations > 0 for window in windows):
            reference = Reference(key_of(windows), self._wall(), tuple(windows))
            self._faults.guard("state", lambda: self._folder.keep(reference))
        job = self._jobs().get((record.team, record.training_job))
        found = tuple(jobview.opened(finding, report, windows, job) for finding in report.findings)
        present = {window.identity.rank for window in windows}
        self._records[record.team, record.training_job] = replace(
            record,
            life=after_verdict(record.life, report, found, present, first),
            report=report,
            history=(*record.history, replace(report, detail=None))[-_HISTORY_KEPT:],
            success_timestamp_seconds=self._wall(),
        )

    def _deliver(self, key: JobKey, report: Report) -> None:
        for path, render, held in self._files.paths(key, report):
            self._faults.guard("report", partial(self._files.write, path, render, held))
        if self._verdict is not None:
            self._verdict(report)

    def _look(self, job: Job) -> None:
        record = self._record(job.key)
        life = after_sighting(
            record.life,
            jobhang.sightings(job),
            jobview.expected_workers(job),
            last_seen=job.last_seen,
            now=self._clock(),
            patience=self._options.patience,
        )
        if life != record.life:
            self._records[job.key] = replace(record, life=life)
        if len(life.open) < len(record.life.open):
            self._talk.say(f"{visible(job.key[1])}: its findings have ended, it is healthy again or gone")

    def _publish(self, jobs: Mapping[JobKey, Job]) -> None:
        failures = self._faults.counts()
        failures["journal"] += self._journal.failures
        failures["query"] += self.sources.failures()
        requests, queries = self.sources.requests(), self.sources.queries()
        thresholds, sent = self._options.thresholds, self.sender.counts()
        status = LocalizerStatus(__version__, failures, requests, thresholds, self._rejudged, queries, sent)
        points = localizer_points(status)
        now = self._clock()
        for key, job in jobs.items():
            if now - job.last_seen < SHOWN_SECONDS:
                self._faults.guard("publish", partial(_add_points, points, self._record(key), job))
        reports = {key: record.report for key, record in self._records.items() if record.report is not None}
        self.metrics.publish(Publication(tuple(points), reports))
        self._faults.guard("publish", lambda: self.sender.show(points))

    def _save(self) -> None:
        ordered = sorted(self._records.items(), key=lambda item: item[1].success_timestamp_seconds or 0.0)
        self._records = dict(ordered[-_RECORDS_KEPT:])
        self._faults.guard("state", lambda: self._folder.write(tuple(self._records.values())))


def _add_points(points: list[Point], record: JobRecord, job: Job) -> None:
    points += job_points(jobview.job_status(record, job))
