"""Decisions of the localizer job that need no I/O: when a window is judged, when a finding ends. Pure.

Every function takes the time (monotonic seconds) as an argument; states come in, new states go out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from eroica_otel.localize.policy import Policy
from eroica_otel.model import Finding, Report
from eroica_otel.publish.series import OpenFinding, is_alarming

_KEPT_RATIO = Policy().critical_kept_ratio
_HANGS = ("hang_missing_rank", "hang_in_python", "checkpoint_stall")


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
        hang_seconds: Longest wait for workers that are missing from a blocked window: their absence is evidence.
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
    hang_seconds: float = 60.0

    def gone_seconds(self, spacing: float) -> float:
        """Return after which silence a worker that delivers every ``spacing`` seconds counts as gone."""
        return max(self.silent_seconds, self.spacings * spacing)


@dataclass(frozen=True, slots=True)
class Life:
    """The open findings of one job.

    Attributes:
        open: In the order of the verdict.
        window_id: Window of the latest verdict; 0 before the first.
        arrived: When its first part came, by this process's clock; minus infinity before the first and after a
            restart. Windows are ordered by it, never by their ids: those are of the deciders' clocks.
        unhealthy: The trigger has seen the fault too (a window of reason degraded or blocked, or such a state since).
        healthy_since: Since when all workers are healthy; None while one is not.
        moving_since: Since when all workers have events again, be they slow; None while one has not.
    """

    open: tuple[OpenFinding, ...] = ()
    window_id: int = 0
    unhealthy: bool = False
    healthy_since: float | None = None
    moving_since: float | None = None
    arrived: float = -math.inf


@dataclass(frozen=True, slots=True)
class Sighting:
    """One worker as it is seen now; ``state`` is "" while it is unknown, or where two processes claim the rank."""

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


def is_hang_due(
    seen: int, missing: Sequence[float | None], *, first: float, latest: float, spacing: float, now: float,
    patience: Patience,
) -> bool:  # fmt: skip
    """Return whether a blocked window is judged now: what is missing tells as much as what came, if it is known to be.

    Args:
        seen: Workers whose part arrived.
        missing: Of each other worker that has not finished the time since its latest delivery, None where it never
            delivered.
        first: Arrival of the first part.
        latest: Arrival of the latest.
        spacing: Time between two deliveries of one worker, 0 when unknown.
        now: The present.
        patience: The waits.
    """
    if seen <= 0:
        return False
    open_ = [silence for silence in missing if silence is None or silence < patience.gone_seconds(spacing)]
    if not open_ or now - first >= patience.hang_seconds:
        return True
    wait = max(patience.least_seconds, patience.spacings * spacing)
    dying = any(silence is not None and silence >= wait for silence in open_)
    return now - latest >= wait and not dying


def after_verdict(
    life: Life, report: Report, found: tuple[OpenFinding, ...], present: Set[int], arrived: float,
    kept_ratio: float = _KEPT_RATIO,
) -> Life:  # fmt: skip
    """Return the findings that are open after a verdict; one about an older window than the last changes nothing.

    Args:
        life: Before it.
        report: The verdict.
        found: Its findings.
        present: Ranks whose patterns were judged.
        arrived: When the first part of the window came.
        kept_ratio: Impact from which a finding that was critical still is.
    """
    if arrived < life.arrived:
        return life
    kept = tuple(item for item in life.open if not _is_refuted(item, report, found, present))
    placed = (_keep_end(item, life.open) for item in found)
    opened = tuple(_keep_severity(_keep_cause(item, life.open), life.open, kept_ratio) for item in placed)
    open_ = opened + tuple(item for item in kept if not any(_same(item.finding, new.finding) for new in opened))
    triggered = report.reason in ("degraded", "blocked")
    return Life(open_, report.window_id, bool(open_) and (life.unhealthy or triggered), arrived=arrived)


def after_sighting(
    life: Life, workers: Mapping[int, Sighting], world_size: int, *, last_seen: float, now: float, patience: Patience
) -> Life:
    """Return the findings that are open after a look at the workers' states.

    Health ends a finding only where the trigger saw the fault: a rank that is slow from its first iteration is
    healthy to its own trigger, and only a later window can say that it is not. A hang ends where the job has events
    again for as long, be it slow, and at once when the job ended normally. ``last_seen`` is the latest delivery of the
    job, or the start of this localizer.
    """
    if now - last_seen < patience.stale_seconds:
        life = _after_hang(life, workers, world_size, now, patience)
    if not life.open:
        return life
    if now - last_seen >= patience.stale_seconds:
        return _closed(life)
    unhealthy = life.unhealthy or any(worker.state in ("degraded", "blocked") for worker in workers.values())
    if not unhealthy or not _all_healthy(workers, world_size, now, patience):
        return replace(life, unhealthy=unhealthy, healthy_since=None)
    since = now if life.healthy_since is None else life.healthy_since
    if now - since >= patience.healthy_seconds:
        return _closed(life)
    return replace(life, unhealthy=True, healthy_since=since)


def on_clock(life: Life, seconds: float) -> Life:
    """Return it with its times ``seconds`` later, as another clock has them; what is then before 0 is of none.

    So who looks every few minutes, each time as a new process, ends findings too. When a window arrived is not kept:
    what a new process hears of is newer.
    """
    since = (None if at is None or at + seconds < 0 else at + seconds for at in (life.healthy_since, life.moving_since))
    healthy, moving = since
    return replace(life, healthy_since=healthy, moving_since=moving, arrived=-math.inf)


def _closed(life: Life) -> Life:
    return replace(life, open=(), unhealthy=False, healthy_since=None, moving_since=None)


def _after_hang(
    life: Life, workers: Mapping[int, Sighting], world_size: int, now: float, patience: Patience
) -> Life:  # fmt: skip
    """Return what is open when hangs that are over have ended."""
    others = tuple(item for item in life.open if not is_hang(item))
    if len(others) == len(life.open):
        return life
    if not _all_in(workers, world_size, ("learning", "healthy", "degraded"), now, patience):
        return replace(life, moving_since=None)
    since = now if life.moving_since is None else life.moving_since
    ended = _all_in(workers, world_size, (), now, patience) or now - since >= patience.healthy_seconds
    return replace(life, open=others if ended else life.open, moving_since=None if ended else since)


def is_hang(item: OpenFinding) -> bool:
    """Return whether nothing moves because of a finding."""
    return item.reason == "blocked" or item.finding.cause in _HANGS


def _all_healthy(workers: Mapping[int, Sighting], world_size: int, now: float, patience: Patience) -> bool:
    return _all_in(workers, world_size, ("healthy",), now, patience)


def _all_in(
    workers: Mapping[int, Sighting], world_size: int, states: Collection[str], now: float, patience: Patience
) -> bool:  # fmt: skip
    """Return whether each worker has finished, or lives in one of these states."""
    if not 0 < world_size <= len(workers):
        return False
    current = [workers[rank] for rank in range(world_size) if rank in workers]
    return len(current) == world_size and all(
        worker.state == "finished" or (worker.state in states and now - worker.last_seen < patience.silent_seconds)
        for worker in current
    )


def _is_refuted(item: OpenFinding, report: Report, found: tuple[OpenFinding, ...], present: Set[int]) -> bool:
    finding = item.finding
    if is_hang(item) and report.reason != "blocked" and report.detail is not None:
        return True  # the window has iterations: it moves
    if finding.function_id and finding.function_id in report.no_consensus:
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


def _keep_end(item: OpenFinding, earlier: tuple[OpenFinding, ...]) -> OpenFinding:
    """Return a link of which an earlier window showed the end at fault as the finding about that end."""
    link = item.finding.link
    for old in earlier:
        known = old.finding
        if link and not known.link and known.cause == item.finding.cause and not set(link).isdisjoint(known.hosts):
            evidence = (*item.finding.evidence, f"an earlier window showed that it is {', '.join(known.hosts)}")
            finding = replace(
                item.finding, link=known.link, ranks=known.ranks, hosts=known.hosts, roles=known.roles,
                scope=known.scope, evidence=evidence,
            )  # fmt: skip
            return replace(item, finding=finding, workers=old.workers)
    return item


def _keep_cause(item: OpenFinding, earlier: tuple[OpenFinding, ...]) -> OpenFinding:
    """Return the finding with the cause it had: neither "unknown" nor a surmise is evidence against what was shown."""
    new = item.finding
    for old in earlier:
        surmise = new.cause == "unknown" or (new.confidence == "low" and old.finding.confidence == "high")
        if surmise and _same(old.finding, new) and old.finding.cause not in ("unknown", new.cause):
            known = old.finding
            return replace(
                item, finding=replace(item.finding, cause=known.cause, domain=known.domain, advice=known.advice)
            )
    return item


def _keep_severity(item: OpenFinding, earlier: tuple[OpenFinding, ...], kept_ratio: float) -> OpenFinding:
    """Return a finding that was critical as critical until its impact is well below the limit: one that swings around
    the limit would else be two alerts in turn.
    """
    was = {old.finding.severity for old in earlier if _same(old.finding, item.finding)}
    fallen = item.finding.impact_ratio < kept_ratio
    if item.finding.severity != "warning" or "critical" not in was or fallen:
        return item
    return replace(item, finding=replace(item.finding, severity="critical"))
