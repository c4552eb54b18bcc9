"""The maths of the comparison against loops, and what must not change it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from eroica_otel.localize.columns import Floats
from eroica_otel.localize.compare import differing_share, outliers, outside, peers_median, shared_peers, tolerance

NAN = float("nan")
FLOORS = np.array([0.02, 0.05, 0.05], np.float32)


def floats(*values: float) -> Floats:
    return np.array(values, np.float32)


def patterns(count: int, seed: int = 3) -> Floats:
    random = np.random.default_rng(seed)
    values = random.uniform(0, 1, (count, 3)).astype(np.float32)
    values[random.uniform(size=count) < 0.2, 1] = NAN
    return values


def delta_of(pattern: Floats, tolerances: Floats, exact: int = 4096, sample: int = 1000, seed: int = 1) -> Floats:
    count = len(pattern)
    return differing_share(pattern, tolerances, shared_peers(count, exact, sample, seed), np.arange(count))


def strange(delta: Floats) -> list[int]:
    return [int(at) for at in np.flatnonzero(outliers(delta, delta, 5, 0.1, 0.5))]


def delta_loop(pattern: Floats, tolerances: Floats) -> list[float]:
    """Oracle: for each worker count, one after the other, the peers that differ in any component."""
    result = []
    for w in range(len(pattern)):
        differing = 0
        for p in range(len(pattern)):
            far = [abs(pattern[w][c] - pattern[p][c]) > tolerances[c] for c in range(3)]
            differing += p != w and any(far)
        result.append(differing / (len(pattern) - 1))
    return result


@pytest.mark.parametrize("count", [2, 3, 4, 8, 65])
def test_delta_equals_the_loop(count: int) -> None:
    pattern = patterns(count)
    assert delta_of(pattern, FLOORS * 5) == pytest.approx(delta_loop(pattern, FLOORS * 5))


def test_delta_of_one_bad_among_n_is_one_and_of_the_others_one_nth() -> None:
    pattern = np.full((9, 3), 0.3, np.float32)
    pattern[4, 0] = 0.4
    delta = delta_of(pattern, FLOORS)
    assert delta[4] == 1
    assert np.delete(delta, 4) == pytest.approx(1 / 8)
    assert strange(delta) == [4]


def test_a_missing_component_takes_no_part() -> None:
    pattern = np.array([[0.3, NAN, NAN], [0.3, 0.9, 0.2], [0.3, 0.1, 0.2]], np.float32)
    assert delta_of(pattern, FLOORS) == pytest.approx([0, 0.5, 0.5])


def test_one_worker_has_no_delta() -> None:
    assert np.isnan(delta_of(patterns(1), FLOORS)).all()


def test_the_shared_sample_finds_the_same_outlier_and_is_repeatable() -> None:
    pattern = np.full((3000, 3), 0.3, np.float32)
    pattern[17, 0] = 0.6
    delta = delta_of(pattern, FLOORS, 2000, 100, 5)
    assert strange(delta) == [17]
    assert np.array_equal(delta, delta_of(pattern, FLOORS, 2000, 100, 5))


def test_who_is_asked_for_alone_has_the_delta_that_it_has_among_all() -> None:
    pattern, peers = patterns(65), shared_peers(65, 40, 20, 3)
    whole = differing_share(pattern, FLOORS * 5, peers, np.arange(65))
    asked = np.array([64, 3, int(peers[0])])
    assert np.array_equal(differing_share(pattern, FLOORS * 5, peers, asked), whole[asked])


def test_half_and_half_has_no_outlier() -> None:
    pattern = np.full((64, 3), 0.3, np.float32)
    pattern[:32, 0] = 0.6
    assert strange(delta_of(pattern, FLOORS)) == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (floats(1, 2), [2, 1]),
        (floats(1, 2, 9), [5.5, 5, 1.5]),
        (floats(1, 1, 9, 9), [9, 9, 1, 1]),
        (floats(4, 1, 3, 2, 5), [2.5, 3.5, 3, 3.5, 2.5]),
        (floats(1, NAN, 3), [3, NAN, 1]),
        (floats(7), [NAN]),
        (floats(), []),
    ],
)
def test_peers_median_leaves_oneself_out(values: Floats, expected: list[float]) -> None:
    assert peers_median(values) == pytest.approx(expected, nan_ok=True)


@settings(deadline=None)
@given(arrays(np.float32, st.integers(2, 30), elements=st.floats(0, 10, width=32)), st.integers(0, 2**32 - 1))
def test_peers_median_is_the_median_without_oneself_in_any_order(values: Floats, seed: int) -> None:
    loop = [float(np.median(np.delete(values, at))) for at in range(values.size)]
    assert peers_median(values) == pytest.approx(loop, abs=1e-5)
    order = np.random.default_rng(seed).permutation(values.size)
    assert np.array_equal(peers_median(values[order]), peers_median(values)[order])


def test_tolerance_is_the_floor_until_six_spreads_pass_it() -> None:
    # MAD of the first component is 0.01: 6 x 1.4826 x 0.01 = 0.089 > 0.02; the others do not move.
    pattern = np.array([[0.30, 0.5, 0.1], [0.31, 0.5, 0.1], [0.32, 0.5, 0.1]], np.float32)
    assert tolerance(pattern, (0.02, 0.05, 0.05), 6) == pytest.approx([0.088956, 0.05, 0.05], rel=1e-3)
    assert tolerance(np.full((3, 3), NAN, np.float32), (0.02, 0.05, 0.05), 6) == pytest.approx(FLOORS)


def test_outside_is_what_lies_above_the_range() -> None:
    assert outside(floats(0.005, 0.01, 0.21), 0.01) == pytest.approx([0, 0, 0.2])
