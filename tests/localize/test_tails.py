"""The tail of noise against laws whose quantiles are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest

from eroica_otel.localize.columns import Doubles, Floats
from eroica_otel.localize.tails import chance_of, known, tail_of, tail_of_one

MILLIONTH = 1e-6
EVEN = (np.arange(50_000) + 0.5) / 50_000


def normal(share: Doubles) -> Floats:
    return np.array([NormalDist().inv_cdf(each) for each in share.tolist()], np.float32)


def double_exponential(share: Doubles) -> Floats:
    return np.asarray(-np.sign(share - 0.5) * np.log1p(-2 * np.abs(share - 0.5)), np.float32)


@pytest.mark.parametrize(
    ("law", "expected"),
    # one in a million: 4.753 of the normal law, log(500,000) of the double exponential one
    [(normal, 4.753), (double_exponential, math.log(500_000))],
)
def test_the_bound_of_one_in_a_million_is_that_of_the_law(law: Callable[[Doubles], Floats], expected: float) -> None:
    tail = tail_of(law(EVEN))
    assert tail is not None
    assert tail.share == 0.02
    assert tail.bound(MILLIONTH) == pytest.approx(expected, rel=0.05)


def test_a_bound_within_the_numbers_is_their_quantile() -> None:
    tail = tail_of(normal(EVEN))
    assert tail is not None
    assert tail.bound(0.01) == pytest.approx(NormalDist().inv_cdf(0.99), rel=0.001)


def test_the_sign_is_left_out_and_so_is_what_is_unknown() -> None:
    values = normal(EVEN)
    assert tail_of(np.append(-values, np.float32(np.nan))) == tail_of(values)


@pytest.mark.parametrize("values", [np.arange(499), np.zeros(5000), np.full(900, np.nan)], ids=["few", "zero", "NaN"])
def test_too_few_numbers_or_none_but_zero_have_no_tail(values: Doubles) -> None:
    assert tail_of(values.astype(np.float32)) is None


def test_five_hundred_numbers_have_one() -> None:
    assert tail_of(np.arange(500, dtype=np.float32)) is not None


def test_few_workers_have_the_tail_of_all_functions_and_many_their_own() -> None:
    usual = tail_of(normal(EVEN))
    assert usual is not None
    few, many = (tail_of_one(double_exponential(EVEN[at::step]), usual) for at, step in ((2500, 5000), (0, 1)))
    assert few.bound(MILLIONTH) == pytest.approx(usual.bound(MILLIONTH), rel=0.05)
    assert many.bound(MILLIONTH) == pytest.approx(math.log(500_000), rel=0.1)


def test_the_spread_of_few_workers_is_uncertain() -> None:
    assert known(4.75, 10**9) == pytest.approx(4.75)
    assert known(4.75, 256) == pytest.approx(4.75 / math.sqrt(1 - 1.36 * 4.75**2 / 256))
    assert known(4.75, 30) == math.inf  # 1.36 x 22.6 is more than 30


def test_one_of_a_million_normal_numbers_is_beyond() -> None:
    assert chance_of(4.753) == pytest.approx(MILLIONTH, rel=0.01)
