"""Decisions of the localizer job that need no I/O: when a window is judged, when a finding ends. Pure.

Every function takes the time (monotonic seconds) as an argument; states come in, new states go out.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from eroica_otel.model import Finding, Report
from eroica_otel.publish.series import OpenFinding, is_alarming


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the localizer waits for what.

    Attributes:
        complete_ratio: Share of the expected workers with which a window counts as complete.
        straggler_seconds: Rest given to the last 5 %: the slowest worker tends to be among them.
        least_seconds: Shortest wait for workers that are missing.
        spacings: The same as a multiple of the time between two deliveries of the job's workers.
        most_waits: Waits after the first pattern, while others still come in (their summaries queue on each node).
        healthy_seconds: A finding ends when all workers are healthy again for this long.
        silent_seconds: A worker without a delivery for this long is not known to be healthy.
        stale_seconds: A finding ends when nothing came from its job for this long.
        late_seconds: For this long after a verdict workers that were missing can still change it, once.
    """

    complete_ratio: float = 0.95
    straggler_seconds: float = 2.0
    least_seconds: float = 15.0
    spacings: float = 2.5
    most_waits: float = 4.0
    healthy_seconds: float = 120.0
    silent_seconds: float = 60.0
    stale_seconds: float = 300.0
    late_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Life:
    """The open findings of one job.

    Attributes:
        open: In the order of the verdict.
        window_id: Window of the latest verdict; 0 before the first.
        unhealthy: The trigger has seen the fault too (a window of reason degraded or blocked, or such a state since).
        healthy_since: Since when all workers are healthy; None while one is not.
    """

    open: tuple[OpenFinding, ...] = ()
    window_id: int = 0
    unhealthy: bool = False
    healthy_since: float | None = None


@dataclass(frozen=True, slots=True)
class Sighting:
    """One worker as it is seen now; ``state`` is "" while it is unknown."""

    state: str
    last_seen: float


@dataclass(frozen=True, slots=True)
class Early:
    """A verdict that was given while workers were missing: when, and on which ranks."""

    given: float
    ranks: frozenset[int]


def is_final(early: Early, ranks: Set[int], expected: int, *, now: float, patience: Patience) -> bool:
    """Return whether there is nothing more to wait for: all of ``expected`` are there, or the time is over."""
    return len(ranks) >= expected or now - early.given >= patience.late_seconds


def is_due(
    seen: int, expected: int, *, first: float, latest: float, spacing: float, now: float, patience: Patience
) -> bool:
    """Return whether a window with ``seen`` of ``expected`` workers is judged now.

    Args:
        seen: Workers whose patterns arrived.
        expected: Workers of the job.
        first: Arrival of the first pattern.
        latest: Arrival of the latest.
        spacing: Time between two deliveries of one worker, 0 when unknown.
        now: The present.
        patience: The waits.
    """
    if seen <= 0:
        return False
    if seen >= expected:
        return True
    quiet = now - latest
    if seen >= patience.complete_ratio * expected and quiet >= patience.straggler_seconds:
        return True
    wait = max(patience.least_seconds, patience.spacings * spacing)
    return quiet >= wait or now - first >= patience.most_waits * wait


def after_verdict(life: Life, report: Report, found: tuple[OpenFinding, ...], present: Set[int]) -> Life:
    """Return the findings that are open after a verdict; one about an older window than the last changes nothing.

    Args:
        life: Before it.
        report: The verdict.
        found: Its findings.
        present: Ranks whose patterns were judged.
    """
    if report.window_id < life.window_id:
        return life
    kept = tuple(item for item in life.open if not _is_refuted(item, report, found, present))
    opened = tuple(_keep_cause(item, life.open) for item in found)
    open_ = opened + tuple(item for item in kept if not any(_same(item.finding, new.finding) for new in opened))
    triggered = report.reason in ("degraded", "blocked")
    return Life(open_, report.window_id, bool(open_) and (life.unhealthy or triggered), None)


def after_sighting(
    life: Life, workers: Mapping[int, Sighting], world_size: int, *, last_seen: float, now: float, patience: Patience
) -> Life:
    """Return the findings that are open after a look at the workers' states.

    Health ends a finding only where the trigger saw the fault: a rank that is slow from its first iteration is
    healthy to its own trigger, and only a later window can say that it is not. ``last_seen`` is the latest delivery
    of the job, or the start of this localizer.
    """
    if not life.open:
        return life
    if now - last_seen >= patience.stale_seconds:
        return replace(life, open=(), unhealthy=False, healthy_since=None)
    unhealthy = life.unhealthy or any(worker.state in ("degraded", "blocked") for worker in workers.values())
    if not unhealthy or not _all_healthy(workers, world_size, now, patience):
        return replace(life, unhealthy=unhealthy, healthy_since=None)
    since = now if life.healthy_since is None else life.healthy_since
    if now - since >= patience.healthy_seconds:
        return replace(life, open=(), unhealthy=False, healthy_since=None)
    return replace(life, unhealthy=True, healthy_since=since)


def _all_healthy(workers: Mapping[int, Sighting], world_size: int, now: float, patience: Patience) -> bool:
    if not 0 < world_size <= len(workers):
        return False
    current = (workers.get(rank) for rank in range(world_size))
    return all(worker is not None and _is_healthy(worker, now, patience) for worker in current)


def _is_healthy(worker: Sighting, now: float, patience: Patience) -> bool:
    lives = now - worker.last_seen < patience.silent_seconds
    return worker.state == "finished" or (worker.state == "healthy" and lives)


def _is_refuted(item: OpenFinding, report: Report, found: tuple[OpenFinding, ...], present: Set[int]) -> bool:
    finding = item.finding
    if finding.function_id in report.no_consensus:
        return False
    if finding.ranks and present.isdisjoint(finding.ranks):
        return False
    if not finding.ranks and report.workers_seen < report.workers_expected:
        return False
    # A window of a slow job that finds nothing has not shown that the fault is gone.
    return report.reason not in ("degraded", "blocked") or any(is_alarming(new.finding) for new in found)


def _same(one: Finding, other: Finding) -> bool:
    return (one.verdict, one.ranks, one.function_id, one.link) == (
        other.verdict, other.ranks, other.function_id, other.link,
    )  # fmt: skip


def _keep_cause(item: OpenFinding, earlier: tuple[OpenFinding, ...]) -> OpenFinding:
    """Return the finding with the cause it had: "unknown" is no evidence against a cause."""
    if item.finding.cause != "unknown":
        return item
    for old in earlier:
        if _same(old.finding, item.finding) and old.finding.cause != "unknown":
            known = old.finding
            return replace(
                item, finding=replace(item.finding, cause=known.cause, domain=known.domain, advice=known.advice)
            )
    return item
