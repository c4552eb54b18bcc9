"""Deadlines at a steady rate: what is late, what is missed, and that nothing is made up for."""

from __future__ import annotations

import random

import pytest

from eroica_hardware.deadlines import SECOND, Deadlines, Kept

MS = 1_000_000


def run(deadlines: Deadlines, now: int, ticks: int, late: int = 0) -> int:
    """Keep ``ticks`` deadlines, each ``late`` ns after it; return the time of the last."""
    for _ in range(ticks):
        now += deadlines.wait(now) + late
        deadlines.tick(now)
    return now


def test_deadlines_are_absolute_lateness_does_not_add_up() -> None:
    deadlines = Deadlines(100, 0)
    assert run(deadlines, 0, 101, late=2 * MS) == 100 * 10 * MS + 2 * MS


def test_deadlines_are_multiples_of_their_period_whenever_they_begin() -> None:
    assert Deadlines(100, 5 * SECOND).wait(5 * SECOND) == 0
    deadlines = Deadlines(100, 5 * SECOND + 3 * MS)
    assert deadlines.wait(5 * SECOND + 3 * MS) == 7 * MS
    deadlines.tick(5 * SECOND + 12 * MS)
    deadlines.change(125, 5 * SECOND + 12 * MS)
    assert deadlines.wait(5 * SECOND + 12 * MS) == 4 * MS


def test_figures_of_the_latest_second() -> None:
    deadlines = Deadlines(100, 0)
    assert deadlines.kept == Kept()
    run(deadlines, 0, 101, late=2 * MS)
    kept = deadlines.kept
    assert (kept.ticks, kept.missed) == (101, 0)
    assert kept.hertz == pytest.approx(101 / 1.002)
    assert kept.jitter_seconds == pytest.approx(0.002)
    assert kept.jitter_most_seconds == pytest.approx(0.002)


def test_what_passed_meanwhile_is_missed_and_not_made_up_for() -> None:
    deadlines = Deadlines(100, 0)
    deadlines.tick(0)
    deadlines.tick(45 * MS)  # that of 10 ms is used; those of 20, 30 and 40 ms have passed
    assert deadlines.wait(45 * MS) == 5 * MS
    run(deadlines, 45 * MS, 200)
    assert deadlines.kept.missed == 3


def test_a_faster_rate_begins_within_its_own_period() -> None:
    deadlines = Deadlines(1, 0)
    deadlines.tick(0)
    deadlines.change(1000, 1 * MS)
    assert deadlines.wait(1 * MS) == 1 * MS


def test_a_clock_that_goes_back_does_not_stop_the_sampling() -> None:
    deadlines = Deadlines(100, 3600 * SECOND)
    deadlines.tick(3600 * SECOND)
    assert deadlines.wait(0) == 10 * MS


def test_a_clock_that_jumps_ahead_is_missed_deadlines() -> None:
    deadlines = Deadlines(100, 0)
    deadlines.tick(0)
    deadlines.tick(3600 * SECOND)
    assert deadlines.wait(3600 * SECOND) == 10 * MS
    assert deadlines.kept.missed == 359_999  # 360,000 periods after 0; the deadline of 10 ms was used


@pytest.mark.parametrize("seed", range(5))
def test_every_deadline_is_used_or_missed_however_late_the_wakes_are(seed: int) -> None:
    """As on a machine whose cores are taken: most wakes late by less than a period, some by many."""
    drawn = random.Random(seed)
    deadlines, now = Deadlines(1000, 0), 0
    for _ in range(5000):
        now += deadlines.wait(now) + drawn.choice([0, 10_000, 900_000, 1_000_000, drawn.randrange(40 * MS)])
        deadlines.tick(now)
    passed = now // MS + 1  # that of 0 too
    deadlines.tick(now + deadlines.wait(now) + 2 * SECOND)  # closes the second
    kept = deadlines.kept
    assert kept.ticks == 5001
    assert kept.ticks + kept.missed == passed + 1 + 2000
