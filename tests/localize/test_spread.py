"""Many healthy ranks show what differs by chance: beyond that a rank is named, within it nobody."""

from __future__ import annotations

from statistics import NormalDist

import pytest

from eroica_otel.localize.verdict import judge
from eroica_otel.model import Report
from factories_localize import Rank, device, ordinary, rank, window_of

RANKS = 64


def spread_by(sd: float, *, levels: float, on: float | None = None) -> list[Rank]:
    """Return ranks of which the last takes ``levels`` standard deviations longer for a function of 60 ms than the
    median, the others what is expected of as many normal numbers.
    """
    usual = [NormalDist().inv_cdf((at + 0.5) / (RANKS - 1)) for at in range(RANKS - 1)]
    return [
        rank(base=(device(ms := 60 * (1 + sd * level), name="gemm", family="gemm", on=on and on * ms), *ordinary()[1:]))
        for level in (*usual, levels)
    ]


def named(report: Report) -> list[int]:
    return [rank for finding in report.findings if finding.severity != "info" for rank in finding.ranks]


@pytest.mark.parametrize("on", [None, 0.95])
def test_a_rank_within_what_many_differ_by_is_not_named(on: float | None) -> None:
    """45 % above the median is far, and so are CPU seconds; where all differ by 10 %, it is one in 300,000."""
    assert named(judge(window_of(spread_by(0.10, levels=4.5, on=on)), expected=RANKS)) == []


@pytest.mark.parametrize("on", [None, 0.95])
def test_a_rank_beyond_it_is_named(on: float | None) -> None:
    assert named(judge(window_of(spread_by(0.10, levels=8, on=on)), expected=RANKS)) == [RANKS - 1]


def test_many_alike_ranks_need_no_reference_to_tell_one_that_is_not_far_above_them() -> None:
    """20 % above the others, where these differ by 1 %."""
    assert named(judge(window_of(spread_by(0.01, levels=20)), expected=RANKS)) == [RANKS - 1]


def test_few_ranks_without_a_reference_are_named_only_when_far_above_the_others() -> None:
    assert named(judge(window_of(spread_by(0.01, levels=20)[-8:]), expected=8)) == []
