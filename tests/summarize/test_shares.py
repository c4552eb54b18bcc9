"""mu, sigma and the shortest part that holds most of the use."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import naive
from eroica_otel.summarize.intervals import Intervals
from eroica_otel.summarize.shares import WHOLE, Use, cumulative_use, mean_and_deviation, shortest_parts


def _use(times: list[int], counter: list[int], peak: float = 1e9) -> Use:
    use = cumulative_use(np.array(times, np.int64), np.array(counter, np.int64), peak)
    assert use is not None
    return use


def _pieces(*rows: tuple[int, int, int]) -> Intervals:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return Intervals(table[:, 0], table[:, 1], table[:, 2])


def test_the_shortest_part_is_no_longer_than_any_on_a_grid_and_holds_enough() -> None:
    rng = random.Random(21)
    for _ in range(400):
        times = sorted(rng.sample(range(40), rng.randrange(2, 8)))
        steps = [rng.choice((0, 0, 1, 3, 8)) for _ in times[1:]]
        use = _use(times, [0, *np.cumsum(steps).tolist()])
        start = rng.randrange(times[0], times[-1])
        end = rng.randrange(start + 1, times[-1] + 1)
        hold = rng.choice((0.5, 0.8, 0.95))
        (left,), (right,) = shortest_parts(use, _pieces((start, end, 0)), hold)
        total = use.used(np.array([end]))[0] - use.used(np.array([start]))[0]
        assert start <= left <= right <= end
        assert use.used(np.array([right]))[0] - use.used(np.array([left]))[0] >= hold * total - 1e-6
        if total == 0:
            assert (left, right) == (start, end)
            continue
        grid = 1 / 16

        def use_at(time: float, use: Use = use) -> float:
            return float(np.interp(time, use.time_ns, use.used_ns))

        best = naive.shortest_part(use_at, start, end, hold, grid)
        # the grid can miss the optimum by less than one step at each end
        assert best - 2 * grid <= right - left <= best + 1e-6


def test_a_burst_counts_by_its_own_rate_over_80_percent_and_by_the_average_over_the_whole() -> None:
    # 10 units of time at full use between two stretches of 45 at rest
    use = _use([0, 45, 55, 100], [0, 0, 10, 10])
    pieces = _pieces((0, 100, 0))
    assert mean_and_deviation(use, [pieces], 1, 0.8)[0].tolist() == pytest.approx([1.0])
    mu, sigma = mean_and_deviation(use, [pieces], 1, WHOLE)
    assert (mu[0], sigma[0]) == pytest.approx((0.1, math.sqrt(0.1 * 0.9)))


def test_pieces_are_pooled_by_time_and_functions_stay_apart() -> None:
    use = _use([0, 10, 20, 60], [0, 10, 10, 30])
    # function 0: 10 at 1 and 20 at 0.5, so 20 of 30; function 2: at rest; function 1: never
    mu, sigma = mean_and_deviation(use, [_pieces((0, 10, 0), (20, 40, 0), (10, 20, 2))], 3, WHOLE)
    assert mu[[0, 2]].tolist() == pytest.approx([2 / 3, 0.0])
    assert sigma[0] == pytest.approx(math.sqrt((10 * 1 + 20 * 0.25) / 30 - 4 / 9))
    assert np.isnan(mu[1])
    assert np.isnan(sigma[1])


def test_without_use_the_whole_piece_counts_and_mu_is_zero() -> None:
    use = _use([0, 50, 100], [7, 7, 7])
    start, end = shortest_parts(use, _pieces((10, 90, 0)), 0.8)
    assert (start.tolist(), end.tolist()) == ([10.0], [90.0])
    mu, sigma = mean_and_deviation(use, [_pieces((10, 90, 0))], 1, 0.8)
    assert (mu[0], sigma[0]) == (0.0, 0.0)


def test_a_piece_outside_the_sampled_time_has_no_mu_and_one_across_its_border_counts_inside() -> None:
    use = _use([20, 40], [0, 10])
    mu, _ = mean_and_deviation(use, [_pieces((0, 20, 0), (0, 40, 1), (40, 80, 2))], 3, WHOLE)
    assert np.isnan(mu[0])
    assert mu[1] == pytest.approx(0.5)
    assert np.isnan(mu[2])


def test_a_counter_that_steps_back_stands_still_and_mu_never_leaves_zero_to_one() -> None:
    use = _use([0, 10, 20, 30], [0, 8, 5, 9])
    assert use.used_ns.tolist() == [0, 8, 8, 9]
    # the CPU clock is read a moment after the time: a share of 1.2 in one sample is no more than a full core
    mu, _ = mean_and_deviation(_use([0, 10], [0, 12]), [_pieces((0, 10, 0))], 1, WHOLE)
    assert mu[0] == 1.0


def test_two_samples_at_different_times_are_the_least() -> None:
    empty = np.zeros(0, np.int64)
    assert cumulative_use(empty, empty, 1e9) is None
    assert cumulative_use(np.array([5, 5]), np.array([1, 2]), 1e9) is None
    both = cumulative_use(np.array([5, 5, 7]), np.array([1, 2, 3]), 1e9)
    assert both is not None
    assert both.used_ns.tolist() == [0, 1]


def test_a_link_is_a_share_of_its_speed() -> None:
    # 250 bytes in 1 us at 1 GB/s: a quarter
    mu, _ = mean_and_deviation(_use([0, 1000], [500, 750], peak=1e9), [_pieces((0, 1000, 0))], 1, WHOLE)
    assert mu[0] == pytest.approx(0.25)
