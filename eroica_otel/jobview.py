"""What the localizer says about a job: progress lines, what is published, notes on a verdict. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from eroica_otel.model import Finding, Identity, Report, WorkerWindow
from eroica_otel.publish.report.words import listed, plural, ranks_text, visible
from eroica_otel.publish.series import JobStatus, OpenFinding
from eroica_otel.query.store import Arrived, Job
from eroica_otel.statefolder import JobRecord

LIVE_SECONDS = 60.0
"""A worker that delivered within this time of the job's latest delivery belongs to its present world."""
CLOCKS_SECONDS = 120.0
"""Clocks of one job that differ by more are told of; ranks may end a blocked window a minute apart."""
_DOUBLES_NAMED = 4


def expected_workers(job: Job, arrived: Arrived | None = None) -> int:
    """Return how many workers the job should have: the world size that its workers report, at least those seen."""
    live = [who.identity.world_size for who in job.workers.values() if job.last_seen - who.last_seen <= LIVE_SECONDS]
    inside: Sequence[int] = (arrived.world_size, len(arrived.ranks)) if arrived is not None else ()
    return max([*live, *inside, len(live)])


def states_line(job: Job) -> str:
    """Return one line on the workers of a job: "llm-7b: 4 of 4 workers; 3 healthy, 1 degraded".

    Where several processes claim one rank: "llm-7b: 8 processes deliver as 4 of 4 workers; 4 healthy".
    """
    states = Counter(worker.state or "starting" for worker in job.workers.values())
    counted = ", ".join(
        f"{count} {state}" for state, count in sorted(states.items(), key=lambda item: (-item[1], item[0]))
    )
    extra = sum(len(processes) - 1 for processes in doubles(job).values())
    who = f"{len(job.workers) + extra} processes deliver as " if extra else ""
    return f"{visible(job.key[1])}: {who}{len(job.workers)} of {plural(expected_workers(job), 'worker')}; {counted}"


def window_line(job: Job, arrived: Arrived) -> str:
    """Return one line on what arrived of a window."""
    seen, expected = len(arrived.ranks), expected_workers(job, arrived)
    workers = plural(expected, "worker")
    return f"window {arrived.window_id} of {visible(job.key[1])} ({arrived.reason}): patterns from {seen} of {workers}"


def doubles(job: Job) -> dict[int, tuple[str, ...]]:
    """Return the ranks that two live processes claim, each with those processes."""
    return {rank: worker.duplicates for rank, worker in job.workers.items() if worker.duplicates}


def shared_line(job: Job, twice: Mapping[int, Sequence[str]]) -> str:
    """Return one line on a name that several processes share: where they are, and the remedy."""
    first = min(twice)
    which = sorted(twice)
    ranks = "all of its ranks are" if len(twice) == len(job.workers) > 1 else f"{ranks_text(which)} {_are(which)}"
    return (
        f"{plural(len(twice[first]), 'training')} deliver under the name {visible(job.key[1])!r}, so {ranks} left "
        f"out (rank {first}: {_listed(twice[first])}); give each training a name of its own, "
        "EROICA_TRAINING_JOB=NAME, or stop the one that is not wanted"
    )


def shared_report(job: Job, arrived: Arrived, twice: Mapping[int, Sequence[str]]) -> Report:
    """Return the verdict on a window of which each rank is claimed by several processes: there is none, and why."""
    return Report(
        training_job=job.key[1],
        window_id=arrived.named,
        reason=arrived.reason,
        workers_seen=len(arrived.ranks),
        workers_expected=expected_workers(job, arrived),
        notes=(f"cannot be judged: {shared_line(job, twice)}",),
    )


def _are(ranks: Sequence[int]) -> str:
    return "is" if len(ranks) == 1 else "are"


def _listed(processes: Sequence[str]) -> str:
    return visible(listed([*processes]))


def with_notes(
    report: Report,
    twice: Mapping[int, Sequence[str]],
    verdict_seconds: float,
    windows: Sequence[WorkerWindow] = (),
    more: Sequence[str] = (),
) -> Report:
    """Return the verdict with what only the job knows: doubled ranks, clocks that differ, ``more`` notes, and the time
    from the first pattern on.
    """
    notes = tuple(
        f"rank {rank} is reported by {len(processes)} live processes ({', '.join(processes)}) and is not judged; "
        "give each training a name of its own (EROICA_TRAINING_JOB)"
        for rank, processes in sorted(twice.items())[:_DOUBLES_NAMED]
    )
    if len(twice) > _DOUBLES_NAMED:
        notes += (f"{len(twice) - _DOUBLES_NAMED} more ranks are reported twice and not judged",)
    notes += (*clocks_apart(windows), *more)
    detail = report.detail and replace(report.detail, verdict_seconds=verdict_seconds)
    return replace(report, notes=report.notes + notes, detail=detail)


def clocks_apart(windows: Sequence[WorkerWindow]) -> tuple[str, ...]:
    """Return a note on nodes whose clocks are far from those of the others; a window ends at once on all of them."""
    ends = {w.identity.rank: w.end_timestamp_seconds for w in windows if w.end_timestamp_seconds > 0}
    middle = statistics.median_low(ends.values()) if ends else 0.0
    apart = {rank: end - middle for rank, end in ends.items() if abs(end - middle) > CLOCKS_SECONDS}
    if not apart:
        return ()
    hosts = sorted({w.identity.host or f"rank {w.identity.rank}" for w in windows if w.identity.rank in apart})
    most = max(map(abs, apart.values()))
    far = f"{most / 3600:.1f} h" if most >= 3600 else f"{most / 60:.0f} min"
    which = listed([visible(host) for host in hosts[:_DOUBLES_NAMED]])
    more = f" and {len(hosts) - _DOUBLES_NAMED} more" if len(hosts) > _DOUBLES_NAMED else ""
    return (
        f"the clock of {which}{more} is up to {far} away from that of the other nodes; no verdict rests on clocks, "
        "but times from there are wrong: set it (NTP)",
    )


def own_thresholds(changes: Mapping[str, float]) -> tuple[str, ...]:
    """Return a note on thresholds that a person set for this job alone; nothing without any."""
    listed_ = ", ".join(f"{name} = {value:g}" for name, value in sorted(changes.items()))
    return (f"judged by thresholds of this job's own: {listed_}",) if changes else ()


def judged_again(report: Report, late: Sequence[int]) -> Report:
    """Return the second verdict on a window with the reason for it."""
    note = f"judged again: {ranks_text(sorted(late))} came after the first verdict"
    return replace(report, notes=(*report.notes, note))


def opened(
    finding: Finding, report: Report, windows: Sequence[WorkerWindow], job: Job | None = None
) -> OpenFinding:  # fmt: skip
    """Return a finding with what its series need from the windows it was found in; ``job`` knows who sent none."""
    victims = {rank for group in report.victims if set(group.waits_for) & set(finding.ranks) for rank in group.ranks}
    families = (
        pattern.family
        for window in windows
        for pattern in window.patterns
        if pattern.function_id == finding.function_id
    )
    return OpenFinding(
        finding=finding,
        window_id=report.window_id,
        reason=report.reason,
        workers=_culprits(finding, windows, job),
        victims=len(victims),
        family=next(families, ""),
    )


def _culprits(finding: Finding, windows: Sequence[WorkerWindow], job: Job | None) -> tuple[Identity, ...]:
    there = {window.identity.rank: window.identity for window in windows}
    known = {} if job is None else {rank: worker.identity for rank, worker in job.workers.items()}
    return tuple(who for rank in finding.ranks if (who := there.get(rank) or known.get(rank)) is not None)


def job_status(record: JobRecord, job: Job | None, thresholds: Mapping[str, float] | None = None) -> JobStatus:
    """Return what is published about a job; ``job`` is None while nothing came from it since the start."""
    expected = expected_workers(job) if job is not None and job.workers else 0
    return JobStatus(
        training_job=record.training_job,
        team=record.team,
        expected=expected or (record.report.workers_expected if record.report else 0),
        open=record.life.open,
        report=record.report,
        duplicates=sum(len(processes) for processes in doubles(job).values()) if job else 0,
        success_timestamp_seconds=record.success_timestamp_seconds,
        duration_seconds=record.duration_seconds,
        thresholds=thresholds or {},
    )
