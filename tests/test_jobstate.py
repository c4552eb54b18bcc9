from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eroica_otel.jobstate import Life, Patience, Sighting, after_sighting, after_verdict, is_due, is_hang_due
from eroica_otel.publish.series import OpenFinding
from factories_central import WINDOW, finding, identity, report

PATIENCE = Patience()
ALL = frozenset(range(4))


def item(reason: str = "degraded", **changes: object) -> OpenFinding:
    judged = finding(**changes)
    return OpenFinding(judged, WINDOW, reason, tuple(identity(rank) for rank in judged.ranks))


def due(
    seen: int, expected: int = 4, *, first: float = 0.0, latest: float = 0.0, spacing: float = 1.0, now: float
) -> bool:
    return is_due(seen, expected, first=first, latest=latest, spacing=spacing, now=now, patience=PATIENCE)


def test_a_complete_window_is_due_at_once() -> None:
    assert due(4, now=0.0)
    assert not due(3, now=0.0)
    assert not due(0, now=1e9)


def test_with_95_percent_the_last_get_a_short_rest() -> None:
    assert not due(95, 100, latest=5.0, now=6.9)
    assert due(95, 100, latest=5.0, now=7.0)
    assert not due(94, 100, latest=5.0, now=7.0)


def test_missing_workers_are_waited_for_15_seconds_or_two_and_a_half_deliveries() -> None:
    assert not due(3, now=14.9)
    assert due(3, now=15.0)
    assert not due(3, spacing=10.0, now=24.9)
    assert due(3, spacing=10.0, now=25.0)


def test_while_workers_still_come_in_the_wait_goes_on_but_not_for_ever() -> None:
    assert not due(2, latest=10.0, now=24.0)
    assert due(2, latest=10.0, now=25.0)
    assert due(50, 100, latest=59.0, now=60.0)


def verdict(
    life: Life, *found: OpenFinding, present: frozenset[int] = ALL, arrived: float = 60.0, **changes: object
) -> Life:
    given = report(**{"window_id": WINDOW + 60, "findings": tuple(new.finding for new in found)} | changes)
    return after_verdict(life, given, found, present, arrived)


OPEN = Life((item(),), WINDOW, unhealthy=True, arrived=0.0)


def test_a_verdict_opens_its_findings() -> None:
    assert verdict(Life(), item()) == Life((item(),), WINDOW + 60, unhealthy=True, arrived=60.0)


@pytest.mark.parametrize("reason", ["reference", "manual", "periodic"])
def test_a_later_window_without_it_refutes_a_finding(reason: str) -> None:
    assert verdict(OPEN, reason=reason) == Life((), WINDOW + 60, arrived=60.0)


@pytest.mark.parametrize(
    ("before", "after", "impact", "shown"),
    [
        ("critical", "warning", 0.19, "critical"),
        ("critical", "warning", 0.15, "critical"),  # three quarters of the limit, 20 %
        ("critical", "warning", 0.149, "warning"),
        ("critical", "info", 0.01, "info"),
        ("warning", "warning", 0.19, "warning"),
        ("warning", "critical", 0.2, "critical"),
    ],
)
def test_an_impact_that_swings_around_the_limit_is_one_alert(
    before: str, after: str, impact: float, shown: str
) -> None:
    life = verdict(Life(), item(severity=before))
    (kept,) = verdict(life, item(severity=after, impact_ratio=impact), arrived=120.0).open
    assert (kept.finding.severity, kept.finding.impact_ratio) == (shown, impact)


def test_a_critical_finding_falls_once_and_rises_at_the_limit_only() -> None:
    life, shown = Life(), []
    measured = [("warning", 0.19), ("critical", 0.22), ("warning", 0.16), ("warning", 0.14), ("warning", 0.16)]
    for at, (severity, impact) in enumerate(measured):
        life = verdict(life, item(severity=severity, impact_ratio=impact), arrived=60.0 * at)
        shown += [one.finding.severity for one in life.open]
    assert shown == ["warning", "critical", "critical", "warning", "warning"]


def test_a_later_window_with_another_culprit_refutes_it() -> None:
    assert verdict(OPEN, item(ranks=(2,))).open == (item(ranks=(2,)),)


def test_a_slow_window_without_a_finding_refutes_nothing() -> None:
    assert verdict(OPEN).open == OPEN.open


def test_a_window_without_the_culprit_refutes_nothing() -> None:
    assert verdict(OPEN, reason="manual", present=ALL - {1}).open == OPEN.open


def test_a_finding_about_the_whole_job_needs_the_whole_job() -> None:
    job = Life((item(verdict="job", ranks=(), scope="job"),), WINDOW)
    assert verdict(job, reason="manual", workers_seen=3).open == job.open
    assert verdict(job, reason="manual").open == ()


def test_no_consensus_on_its_function_refutes_nothing() -> None:
    assert verdict(OPEN, reason="manual", no_consensus=("aaaaaaaaaaaa",)).open == OPEN.open


def test_a_window_that_came_earlier_changes_nothing_whatever_its_id() -> None:
    assert verdict(OPEN, reason="manual", window_id=WINDOW + 3600, arrived=-1.0) == OPEN


def test_a_window_that_came_later_counts_though_its_decider_s_clock_is_an_hour_behind() -> None:
    assert verdict(OPEN, reason="manual", window_id=WINDOW - 3600).open == ()


def test_unknown_is_no_evidence_against_a_cause() -> None:
    (kept,) = verdict(OPEN, item(cause="unknown", domain="code", advice="?", impact_ratio=0.2)).open
    assert (kept.finding.cause, kept.finding.advice) == ("python_overhead", "Look at augment.")
    assert kept.finding.impact_ratio == 0.2
    (changed,) = verdict(OPEN, item(cause="gc_pause")).open
    assert changed.finding.cause == "gc_pause"


def test_a_surmise_is_no_evidence_against_a_cause_that_was_shown() -> None:
    (kept,) = verdict(OPEN, item(cause="gc_pause", confidence="low")).open
    assert (kept.finding.cause, kept.finding.confidence) == ("python_overhead", "low")
    guessed = replace(OPEN, open=(item(confidence="low"),))
    assert verdict(guessed, item(cause="gc_pause", confidence="low")).open[0].finding.cause == "gc_pause"


NIC: dict[str, Any] = {"cause": "nic_degraded", "kind": "communication", "function_id": "bbbbbbbbbbbb"}


def test_a_link_of_which_one_end_was_shown_to_be_slow_stays_that_end_s_finding() -> None:
    """Seen with one node's link limited: of the windows after the first some show only one of its two edges as slow."""
    node = item(**NIC, ranks=(2,), hosts=("node-2",))
    one_edge: dict[str, Any] = {"ranks": (), "hosts": (), "roles": (), "scope": "link"}
    life = verdict(Life(), node)
    later = replace(item(**NIC, **one_edge, link=("node-2", "node-1"), impact_ratio=0.3), window_id=WINDOW + 60)
    (kept,) = verdict(life, later, arrived=120.0).open
    assert kept.window_id == WINDOW + 60
    assert (kept.finding.ranks, kept.finding.hosts, kept.finding.link) == ((2,), ("node-2",), node.finding.link)
    assert (kept.finding.scope, kept.finding.impact_ratio, kept.workers) == ("worker", 0.3, node.workers)
    assert kept.finding.evidence[-1] == "an earlier window showed that it is node-2"
    (other,) = verdict(life, item(**NIC, **one_edge, link=("node-1", "node-0")), arrived=120.0).open
    assert other.finding.link == ("node-1", "node-0")


def look(life: Life, *states: str, now: float, world_size: int = 4, last_seen: float | None = None) -> Life:
    seen = now if last_seen is None else last_seen
    workers = {rank: Sighting(state, seen) for rank, state in enumerate(states)}
    return after_sighting(life, workers, world_size, last_seen=seen, now=now, patience=PATIENCE)


HEALTHY = ("healthy",) * 4
SLOW = ("healthy", "degraded", "healthy", "healthy")


def test_two_minutes_of_health_end_a_finding() -> None:
    life = look(OPEN, *HEALTHY, now=100.0)
    assert look(life, *HEALTHY, now=219.9).open == OPEN.open
    assert look(life, *HEALTHY, now=220.0).open == ()


def test_a_relapse_starts_the_two_minutes_again() -> None:
    life = look(look(OPEN, *HEALTHY, now=100.0), *SLOW, now=200.0)
    life = look(life, *HEALTHY, now=210.0)
    assert look(life, *HEALTHY, now=329.0).open
    assert not look(life, *HEALTHY, now=330.0).open


@pytest.mark.parametrize("states", [HEALTHY[:3], ("healthy", "", "healthy", "healthy"), ("learning", *HEALTHY[1:]), ()])
def test_a_worker_that_is_not_known_to_be_healthy_keeps_it(states: tuple[str, ...]) -> None:
    life = look(OPEN, *states, now=100.0)
    assert look(life, *states, now=1000.0).open == OPEN.open


def test_a_silent_worker_is_not_healthy_and_a_finished_one_needs_no_life() -> None:
    workers = {rank: Sighting("healthy", 500.0) for rank in range(3)}
    for state, ended in (("healthy", False), ("finished", True)):
        life = OPEN
        for now in (500.0, 630.0):
            workers = {rank: Sighting("healthy", now) for rank in range(3)} | {3: Sighting(state, 400.0)}
            life = after_sighting(life, workers, 4, last_seen=now, now=now, patience=PATIENCE)
        assert (life.open == ()) is ended


def test_ranks_of_an_earlier_larger_world_do_not_count() -> None:
    life = look(OPEN, *HEALTHY, "degraded", now=100.0)
    assert look(life, *HEALTHY, "degraded", now=220.0).open == ()


def test_five_minutes_of_silence_end_a_finding() -> None:
    assert look(OPEN, *SLOW, now=399.9, last_seen=100.0).open == OPEN.open
    assert look(OPEN, *SLOW, now=400.0, last_seen=100.0).open == ()


def test_a_chronic_culprit_is_not_ended_by_the_health_that_it_always_had() -> None:
    chronic = Life((item("reference"),), WINDOW)
    life = look(look(chronic, *HEALTHY, now=0.0), *HEALTHY, now=500.0)
    assert life.open == chronic.open
    life = look(look(look(life, *SLOW, now=510.0), *HEALTHY, now=520.0), *HEALTHY, now=640.0)
    assert life.open == ()


def test_nothing_open_stays_nothing() -> None:
    closed = replace(OPEN, open=())
    assert look(closed, *HEALTHY, now=1.0) == closed


def hang_due(*missing: float | None, seen: int = 3, now: float = 0.0, latest: float = 0.0) -> bool:
    return is_hang_due(seen, missing, first=0.0, latest=latest, spacing=10.0, now=now, patience=PATIENCE)


def test_a_blocked_window_is_due_at_once_where_who_is_missing_is_known_to_be_gone() -> None:
    assert hang_due()
    assert hang_due(60.0)
    assert not hang_due(seen=0)
    assert not hang_due(59.9)


def test_a_worker_that_lives_is_waited_for_two_and_a_half_deliveries() -> None:
    assert not hang_due(5.0, now=24.9)
    assert hang_due(5.0, now=25.0)
    assert hang_due(None, now=25.0)
    assert not hang_due(None, now=30.0, latest=10.0)


def test_a_worker_that_may_be_dying_is_waited_for_until_it_is_known_but_never_beyond_a_minute() -> None:
    assert not hang_due(25.0, 5.0, now=25.0)
    assert not hang_due(59.0, now=59.0)
    assert hang_due(60.0, now=59.0)
    assert hang_due(25.0, 59.0, now=60.0)


def test_where_deliveries_are_rare_silence_is_no_death() -> None:
    assert Patience().gone_seconds(10.0) == 60.0
    assert Patience().gone_seconds(60.0) == 150.0


HANG = Life((item("blocked", cause="hang_in_python"),), WINDOW, unhealthy=True, arrived=0.0)
BLOCKED = ("blocked",) * 4


def test_a_hang_ends_two_minutes_after_events_came_again_be_they_slow() -> None:
    life = look(look(HANG, *BLOCKED, now=90.0), *SLOW, now=100.0)
    assert look(life, *SLOW, now=219.9).open
    assert not look(life, *SLOW, now=220.0).open


def test_a_relapse_into_the_hang_starts_the_two_minutes_again() -> None:
    life = look(look(HANG, *HEALTHY, now=100.0), *BLOCKED, now=200.0)
    life = look(life, *HEALTHY, now=210.0)
    assert look(life, *HEALTHY, now=329.0).open
    assert not look(life, *HEALTHY, now=330.0).open


@pytest.mark.parametrize("states", [("blocked", *HEALTHY[1:]), ("", *HEALTHY[1:]), ("paused", *HEALTHY[1:])])
def test_a_hang_lasts_while_one_rank_has_no_events(states: tuple[str, ...]) -> None:
    assert look(look(HANG, *states, now=100.0), *states, now=1000.0).open


def test_a_hang_ends_at_once_when_the_job_ended_normally_and_other_findings_do_not() -> None:
    both = replace(HANG, open=(*HANG.open, item()))
    assert look(both, *("finished",) * 4, now=1.0).open == (item(),)
    assert look(HANG, *("finished",) * 3, "blocked", now=1.0).open


def test_a_window_with_iterations_refutes_a_hang_even_where_the_rank_is_not_in_it() -> None:
    moved: dict[str, Any] = {"detail": report().detail, "present": ALL - {1}}
    assert verdict(HANG, reason="degraded", **moved).open == ()
    assert verdict(HANG, reason="blocked", **moved).open == HANG.open


def test_a_hang_whose_job_is_silent_for_five_minutes_has_ended() -> None:
    assert look(HANG, *BLOCKED, now=299.9, last_seen=0.0).open
    assert not look(HANG, *BLOCKED, now=300.0, last_seen=0.0).open
