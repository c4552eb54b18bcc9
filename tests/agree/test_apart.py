"""Ranks that mean different iterations by one number are found; ranks that only write late never are."""

from __future__ import annotations

import random

import pytest

from eroica_otel.agree.apart import MOST_NAMED, POLLS, SILENT_SECONDS, Apart, Meant, allowance
from eroica_otel.agree.window import Standing
from factories_worker import standing


def at(seconds: float, period: float, ahead: int = 0, rank: int = 0) -> Standing:
    """Return what a rank would say ``seconds`` after the first iteration, ``ahead`` of its peers by a miscount."""
    return standing(rank, iteration=10_000 + int(seconds / period) + ahead, period_seconds=period)


@pytest.mark.parametrize("period", [0.005, 0.15, 2.0, 30.0])
def test_ranks_at_one_iteration_are_never_apart_however_late_their_standings(period: float) -> None:
    random.seed(7)
    apart = Apart()
    for poll in range(500):
        now = float(poll)
        own = at(now - random.uniform(0, 1), period)
        others = [at(now - random.uniform(0, 4), period, rank=rank) for rank in range(1, 8)]
        assert apart.judge(own, others, now) == Meant(tuple(others), False, "")


@pytest.mark.parametrize(("period", "ahead"), [(0.15, 100), (0.15, -100), (0.005, 4000), (2.0, 10)])
def test_ranks_that_count_differently_are_found_within_some_polls(period: float, ahead: int) -> None:
    apart, told = Apart(), []
    for poll in range(8):
        now = 10.0 + poll
        meant = apart.judge(at(now, period), [at(now - 3, period, ahead, rank=3), at(now - 2, period, rank=1)], now)
        told.append((meant.undecided, bool(meant.apart)))
        assert len(meant.heard) == 2
    assert told[: POLLS - 1] == [(True, False)] * (POLLS - 1)
    assert told[-1] == (False, True)
    assert "rank 0 is at " in meant.apart
    assert "rank 3 is at " in meant.apart
    assert "rank 1 is at" not in meant.apart


def test_a_standing_that_was_very_late_once_only_defers() -> None:
    apart, period = Apart(), 0.005
    late = at(3, period, rank=1)
    assert apart.judge(at(15, period), [late], 15.0) == Meant((late,), True, "")
    back = at(15.5, period, rank=1)
    assert apart.judge(at(16, period), [back], 16.0) == Meant((back,), False, "")


def test_a_rank_that_does_not_report_any_more_is_left_out_after_a_while() -> None:
    """Its handle was closed, or its 1 Hz thread is lost: its last words stay in the store for ever."""
    apart, period = Apart(), 0.1
    gone = at(0, period, rank=1)
    told = []
    for poll in range(int(SILENT_SECONDS) + 2):
        now = 100.0 + poll
        meant = apart.judge(at(now, period), [gone], now)
        told.append((meant.undecided, len(meant.heard)))
        assert not meant.apart
    assert told == [(True, 1)] * (int(SILENT_SECONDS) + 1) + [(False, 0)]


def test_the_allowance_is_what_the_slower_rank_does_in_ten_seconds_and_one() -> None:
    assert allowance(standing(period_seconds=0.005), standing(period_seconds=0.01)) == 1001
    assert allowance(standing(period_seconds=30.0), standing(period_seconds=30.0)) == 2
    assert allowance(standing(period_seconds=0.0), standing(period_seconds=0.0)) > 1_000_000


def test_updates_that_only_one_rank_makes_do_not_hide_themselves_by_being_fast() -> None:
    apart, own = Apart(), standing(0, iteration=42, period_seconds=0.02)
    for poll in range(POLLS):
        fast = standing(1, iteration=643 + poll, period_seconds=0.00004)
        meant = apart.judge(own, [fast], float(poll))
    assert "rank 1 is at 645" in meant.apart


def test_not_all_of_many_ranks_are_named() -> None:
    apart = Apart()
    for poll in range(POLLS + 1):
        others = [at(float(poll), 0.1, 1000, rank=rank) for rank in range(1, 31)]
        meant = apart.judge(at(float(poll), 0.1), others, float(poll))
    assert meant.apart.count(" is at ") == 1 + MOST_NAMED
    assert f" and {30 - MOST_NAMED} more" in meant.apart
