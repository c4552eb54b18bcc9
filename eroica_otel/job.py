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

from eroica_otel import __version__, jobhang, jobview
from eroica_otel.errors import ConfigError
from eroica_otel.jobadmit import Admission
from eroica_otel.jobannotate import Annotations
from eroica_otel.jobfaults import Faults
from eroica_otel.jobfiles import ReportFiles
from eroica_otel.jobinlet import Inlet
from eroica_otel.jobjudge import Given, Judging, Work
from eroica_otel.joboptions import JobOptions, Judge
from eroica_otel.jobsend import Sender
from eroica_otel.jobshow import Show
from eroica_otel.jobsources import Places, Sources
from eroica_otel.jobstate import Early, after_sighting, after_verdict, is_final, on_clock
from eroica_otel.jobtalk import Talk
from eroica_otel.jobwindow import Evidence, Judges, evidence_of
from eroica_otel.model import Finding, Report
from eroica_otel.publish.report.words import visible
from eroica_otel.publish.series import LocalizerStatus
from eroica_otel.publish.serve import MetricsServer
from eroica_otel.query.journal import Journal
from eroica_otel.query.receiver import Receiver
from eroica_otel.query.store import Arrived, Job, JobKey, Store
from eroica_otel.statefolder import JobRecord, Reference, StateFolder, key_of

_JUDGED_KEPT = 64
_HISTORY_KEPT = 8
_LEAST_REST_SECONDS = 0.05
LAST_SECONDS = 5.0
"""How long the end waits for verdicts under way."""
STUCK_SECONDS = 60.0
"""A localizer that has made no round for so long is not healthy."""
_RECORDS_KEPT = 128
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
        self._options, self._judges, self._clock, self._wall = options, Judges(judge), clock, wall
        self._talk, self._verdict = Talk(progress, clock), verdict
        self._faults, self._rejudged, self._admit = Faults(), 0, Admission(self._talk.say, wall)
        self._records: dict[JobKey, JobRecord] = {}
        self._news, self._store = threading.Event(), Store(workers=options.workers)
        self._early: dict[tuple[JobKey, int], tuple[Early, JobRecord]] = {}
        self._judging, self._undecided = Judging(self._news.set), dict[JobKey, JobRecord]()
        self._files = ReportFiles(options.folder, options.renderers, options.outputs)
        self._started = self._rounded = clock()
        with ExitStack() as undo:
            inlet = Inlet(self._store, self._admit, lambda window: self._journal.append(window), self._news.set, clock)
            places = Places(options.listen, options.backend, options.files, options.state, options.workers)
            self.sources = Sources(places, inlet, say=self._talk.say, faults=self._faults)
            undo.callback(self.sources.stop)
            self.metrics = MetricsServer(options.metrics, options.renderers, alive=self.alive)
            undo.callback(self.metrics.stop)
            self.sender = Sender(options.send, socket.gethostname(), self.metrics.address.port, self._talk.say)
            notes = Annotations(options.annotate, self._faults.guard, wall=wall)
            self._show = Show(self.metrics, self.sender, options.policies, self._faults, notes, clock=clock)
            self._folder = StateFolder(options.state)
            undo.callback(self._folder.close)
            self.sources.read_back(self._folder.idle_seconds(wall()))
            self._journal = Journal(self._folder.journal)
            undo.pop_all()

    def start(self) -> None:
        """Restore windows, findings and references, publish them, and only then accept deliveries and be ready."""
        self.metrics.start("eroica-metrics")
        for record in self._folder.read():
            life = on_clock(record.life, self._clock() - self._wall())
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

    def run(self, stop: threading.Event, over: Callable[[], bool] = lambda: False) -> None:
        """Make rounds, in half of the time at most, until ``stop`` is set or one is ``over``; then a last one."""
        while not stop.is_set():
            began = self._clock()
            self._round(0.0)
            if over():
                break
            stop.wait(max(_LEAST_REST_SECONDS, self._clock() - began))
            self._news.wait(self._options.round_seconds)
            self._news.clear()
        self.sources.stop()
        self._round(LAST_SECONDS)
        for _, job in self._undecided:
            self._talk.say(f"{visible(job)}: its window is still being judged; the next start judges it anew")

    def pending(self) -> bool:
        """Return whether a window waits to be judged, or is."""
        waiting = (job for job in self._store.jobs() if not set(job.windows) <= set(self._record(job.key).judged))
        return bool(self._judging.under_way()) or next(waiting, None) is not None

    def alive(self) -> bool:
        """Return whether rounds are made."""
        return self._clock() - self._rounded < STUCK_SECONDS

    def wake(self) -> None:
        """Make the next round now."""
        self._news.set()

    def round(self) -> None:
        """Look once at everything: judge what is due, end what has ended, publish; waits for the verdicts."""
        self._round(None)

    def _round(self, wait: float | None) -> None:
        """Make a round that waits so long for verdicts (None = for all); what is ready later is in a later one."""
        before, end = dict(self._records), None if wait is None else time.monotonic() + wait
        self._judging.collect()
        more = True
        while more:
            jobs = self._jobs()
            for job in jobs.values():
                self._faults.guard("judge", partial(self._job_round, job))
            more = self._judging.collect(end)
        if self._records != before:
            self._save()
        self._rounded = self._clock()
        self._faults.guard("state", self._folder.beat)
        self._talk.keep(jobs)
        self._early = {key: early for key, early in self._early.items() if key[1] in jobs[key[0]].windows}
        self._publish(jobs)

    def _job_round(self, job: Job) -> None:
        self._talk.about(job, self._record(job.key).judged)
        # By arrival: ids are of the deciders' clocks, which may be an hour apart.
        for arrived in job.windows.values():
            if self._judging.may_begin(job.key):
                self._consider(job, arrived)
        if job.key not in self._judging.under_way():
            self._look(job)

    def open_findings(self) -> tuple[Finding, ...]:
        """Return the findings of all jobs that have not ended."""
        return tuple(item.finding for record in self._records.values() for item in record.life.open)

    def workers_seen(self) -> int:
        """Return how many workers have delivered since the start."""
        return sum(len(job.workers) for job in self._store.jobs())

    @property
    def receiver(self) -> Receiver:
        """The embedded receiver; raises ConfigError where there is none."""
        if self.sources.receiver is None:
            raise ConfigError("this localizer receives nothing itself; give it an address to listen on")
        return self.sources.receiver

    def close(self) -> None:
        """Stop sources and server and write what is remembered."""
        self.sources.stop()
        self.metrics.stop()
        self._show.stop()
        self._save()
        self._journal.close()
        self._folder.close()

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
        before = self._record(job.key)
        record = replace(before, judged=(*before.judged, arrived.window_id)[-_JUDGED_KEPT:])
        self._records[job.key] = record
        self._talk.forget(job.key, arrived.window_id)
        if len(arrived.ranks) < expected:
            self._early[job.key, arrived.window_id] = (Early(self._clock(), frozenset(arrived.ranks)), record)
        else:
            self._store.release(job.key, arrived.window_id)
        self._undecided[job.key] = before
        self._give(job, arrived, expected, record)

    def _reconsider(self, job: Job, arrived: Arrived, expected: int) -> None:
        """Judge a window a second time when its missing workers have come, unless a newer verdict stands."""
        present = self._record(job.key)
        early, before = self._early.get((job.key, arrived.window_id), (Early(-math.inf, frozenset()), present))
        latest = present.report is None or present.report.window_id in arrived.ids
        if latest and not is_final(early, arrived.ranks, expected, now=self._clock(), patience=self._options.patience):
            return
        known = self._early.pop((job.key, arrived.window_id), None) is not None
        self._store.release(job.key, arrived.window_id)
        late = arrived.ranks - early.ranks
        if known and latest and late:
            self._rejudged += 1
            self._give(job, arrived, expected, replace(before, judged=present.judged), tuple(late))

    def _give(self, job: Job, arrived: Arrived, expected: int, record: JobRecord, late: Sequence[int] = ()) -> None:
        """Begin to judge, or tell why nobody can; ``record`` is what was known before the window."""
        twice = jobview.doubles(job)
        evidence = evidence_of(job.key[0], arrived, twice)
        if not evidence.windows:
            # Nothing failed and nothing was judged: findings, history and the time of the latest verdict stay.
            report = jobview.shared_report(job, arrived, twice)
            self._records[job.key] = replace(record, report=report)
            self._undecided.pop(job.key, None)
            self._deliver(job.key, report)
            return
        judge = partial(
            evidence.judged, self._judges, expected=expected, policy=self._options.policies.of(*job.key),
            history=record.history, presence=jobhang.presence(job, self._clock(), self._options.patience),
        )  # fmt: skip
        given = Given(job, arrived, evidence, record, twice, tuple(late))

        def judged() -> Report:  # beside the rounds: it changes nothing
            reference = self._folder.reference(key_of(evidence.windows), self._wall())
            return judge(reference.windows if reference else ())

        def then(work: Work) -> None:
            self._undecided.pop(job.key, None)
            self._faults.guard("judge", partial(self._take_over, given, work))

        self._judging.begin(Work(job.key, judged, then))

    def _take_over(self, given: Given, work: Work) -> None:
        """Remember and deliver a verdict."""
        key, arrived = work.key, given.arrived
        judged: list[Report] = []
        what = f"window {arrived.window_id} of {visible(key[1])}"
        self._faults.guard("judge", lambda: judged.append(work.report()), what)
        if not judged:
            return
        own = jobview.own_thresholds(self._options.policies.changes(*key))
        report, waited = replace(judged[0], window_id=arrived.named), self._clock() - arrived.first
        report = jobview.with_notes(report, given.twice, waited, given.evidence.windows, own)
        report = jobview.judged_again(report, given.late) if given.late else report
        self._remember(replace(given.record, duration_seconds=work.seconds), report, given.evidence, arrived.first)
        self._deliver(key, report)

    def _remember(self, record: JobRecord, report: Report, evidence: Evidence, first: float) -> None:
        windows, policy = evidence.windows, self._options.policies.of(record.team, record.training_job)
        if report.reason == "reference" and all(window.iterations > 0 for window in windows):
            reference = Reference(key_of(windows), self._wall(), evidence.kept(policy), len(windows))
            self._faults.guard("state", lambda: self._folder.keep(reference))
        job = self._jobs().get((record.team, record.training_job))
        found = tuple(jobview.opened(finding, report, windows, job) for finding in report.findings)
        present = {window.identity.rank for window in windows}
        self._records[record.team, record.training_job] = replace(
            record,
            life=after_verdict(record.life, report, found, present, first, policy.critical_kept_ratio),
            report=report,
            history=(*record.history, replace(report, detail=None))[-_HISTORY_KEPT:],
            success_timestamp_seconds=self._wall(),
        )

    def _deliver(self, key: JobKey, report: Report) -> None:
        """Hand the verdict over, and begin to write its files: those of a large job take as long as its verdict."""
        self._judging.begin(Work(key, self._files.writing(key, report, self._faults.guard)))
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
        thresholds, sent, now = self._options.thresholds, self.sender.counts(), self._wall()
        status = LocalizerStatus(__version__, failures, requests, thresholds, self._rejudged, queries, sent, now)
        self._show(status, jobs, self._records)

    def _save(self) -> None:
        ordered = sorted(self._records.items(), key=lambda item: item[1].success_timestamp_seconds or 0.0)
        self._records = dict(ordered[-_RECORDS_KEPT:])
        # What is not decided yet is judged anew by the next start, should this one end before.
        kept, ahead = (self._records | self._undecided).values(), self._wall() - self._clock()
        told = tuple(replace(record, life=on_clock(record.life, ahead)) for record in kept)
        self._faults.guard("state", lambda: self._folder.write(told))
