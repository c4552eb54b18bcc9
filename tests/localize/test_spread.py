"""Many healthy ranks show what differs by chance: beyond that a rank is named, within it nobody."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
import pytest

from eroica_otel.localize.verdict import judge
from eroica_otel.model import Report
from factories_localize import Rank, Work, device, ordinary, rank, window_of

RANKS = 64
FUNCTIONS = 12


def normal(share: float) -> float:
    return NormalDist().inv_cdf(share)


def double_exponential(share: float) -> float:
    """A standard deviation of 1; one in a million is 9.3 above the mean."""
    return math.copysign(math.log1p(-2 * abs(share - 0.5)) * math.sqrt(0.5), 0.5 - share)


def spread_by(sd: float, *, levels: float, on: float | None = None) -> list[Rank]:
    """Return ranks of which the last takes ``levels`` standard deviations longer for a function of 60 ms than the
    median, the others what is expected of as many normal numbers.
    """
    usual = [normal((at + 0.5) / (RANKS - 1)) for at in range(RANKS - 1)]
    return [
        rank(base=(device(ms := 60 * (1 + sd * level), name="gemm", family="gemm", on=on and on * ms), *ordinary()[1:]))
        for level in (*usual, levels)
    ]


def kernels(levels: Sequence[float], sd: float) -> tuple[Work, ...]:
    """Return one kernel of 40 ms and eleven of 5 ms, each so many standard deviations longer."""
    sizes = (40.0, *[5.0] * (FUNCTIONS - 1))
    return tuple(
        device(ms * (1 + sd * level), name=f"kernel {at}", family=f"family {at}", on=None, noise_ms=sd * ms)
        for at, (ms, level) in enumerate(zip(sizes, levels, strict=True))
    )


def many(
    law: Callable[[float], float], extra: float, lasting: float = 0.0, *, seed: int = 5, sd: float = 0.03
) -> list[Rank]:
    """Return ranks whose kernels differ as this law has it, in another order each; rank 0 is as long as the median but
    for ``extra`` and ``lasting`` in the first.
    """
    count, random = 256, np.random.default_rng(seed)
    shares = (np.arange(count) + 0.5) / count
    levels = np.array([[law(share) for share in random.permutation(shares)] for _ in range(FUNCTIONS)])
    levels[0, 0] = extra + lasting
    return [rank(base=(*kernels(levels[:, at].tolist(), sd), *ordinary()[1:])) for at in range(count)]


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


@pytest.mark.parametrize(
    ("law", "levels", "found"), [(normal, 7.0, [0]), (double_exponential, 7.0, []), (double_exponential, 12.0, [0])]
)
def test_where_chance_reaches_further_a_rank_must_be_further_above(
    law: Callable[[float], float], levels: float, found: list[int]
) -> None:
    """7 standard deviations are never chance where it is normal, and once in 40,000 where it is double exponential."""
    assert named(judge(window_of(many(law, levels)), expected=256)) == found


def test_a_rank_is_measured_by_what_it_was() -> None:
    """6.6 standard deviations longer than before are no chance, though the law is double exponential: before and now
    differ by nothing else. The same as before is no news, and not far enough above the peers.
    """
    before = window_of(many(double_exponential, 0.0), window_id=1, reason="reference")
    assert named(judge(window_of(many(double_exponential, 6.6)), before, expected=256)) == [0]
    lasted = window_of(many(double_exponential, 0.0, 6.6), window_id=1, reason="reference")
    assert named(judge(window_of(many(double_exponential, 6.6)), lasted, expected=256)) == []


def test_one_of_many_that_changed_within_chance_is_not_named_for_the_change() -> None:
    """42 % above the peers and 7 noise levels above itself, where windows differ by a law that reaches as far."""
    then = window_of(many(double_exponential, 0.0, seed=6, sd=0.06), window_id=1, reason="reference")
    assert named(judge(window_of(many(double_exponential, 7.0, sd=0.06)), then, expected=256)) == []


@pytest.mark.parametrize(("before", "found"), [(60.0, [3]), (80.0, []), (100.0, [3])])
def test_of_few_ranks_one_that_was_long_before_must_be_longer_by_more(before: float, found: list[int]) -> None:
    """88 ms beside 60 are 1.47 times as long. Of one that took 80 before, 10 of these 28 ms are expected; one that
    took 100 was far above its peers then too, which is a finding that lasts.
    """
    then, now = (
        [rank(base=(device(ms, noise_ms=5.0), *ordinary()[1:])) for ms in (60.0, 60.0, 60.0, last)]
        for last in (before, 88.0)
    )
    report = judge(window_of(now), window_of(then, window_id=1, reason="reference"), expected=4)
    assert named(report) == found
