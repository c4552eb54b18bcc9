"""Noise of seconds per iteration over sub-windows."""

from __future__ import annotations

import numpy as np
import pytest

from eroica_otel.summarize.intervals import Intervals
from eroica_otel.summarize.noise import noise_seconds

SECOND = 1_000_000_000


def _pieces(seconds: list[float], function: int = 0) -> Intervals:
    """Return one piece in each iteration of one second, as long as told, beginning with the iteration."""
    start = np.arange(len(seconds), dtype=np.int64) * SECOND
    return Intervals(start, start + np.array([int(s * SECOND) for s in seconds]), np.full(len(seconds), function))


def test_the_deviation_is_that_of_the_means_of_eight_parts() -> None:
    # two iterations a part: the parts' means are 0.1 and 0.3 in turn
    seconds = [0.1, 0.1, 0.2, 0.4] * 4
    borders = np.arange(17, dtype=np.int64) * SECOND
    assert noise_seconds([_pieces(seconds)], [0], borders) == {0: pytest.approx(float(np.std([0.1, 0.3] * 4, ddof=1)))}


def test_parts_of_unequal_length_are_judged_per_iteration() -> None:
    borders = np.arange(22, dtype=np.int64) * SECOND
    assert noise_seconds([_pieces([0.25] * 21)], [0], borders) == {0: pytest.approx(0.0, abs=1e-12)}


def test_a_piece_across_a_border_counts_on_both_sides() -> None:
    # the whole window as one piece, with iterations of unequal length
    borders = np.cumsum([0, *range(1, 17)], dtype=np.int64) * SECOND
    whole = Intervals(np.array([0]), borders[-1:], np.array([0]))
    means = [(2 * place + 1 + 2 * place + 2) / 2 for place in range(8)]
    assert noise_seconds([whole], [0], borders) == {0: pytest.approx(float(np.std(means, ddof=1)))}


def test_functions_are_judged_apart_and_below_sixteen_iterations_not_at_all() -> None:
    steady, jumpy = _pieces([0.5] * 16, 3), _pieces([0.0, 0.0, 0.8, 0.8] * 4, 5)
    both = Intervals(*(np.concatenate(pair) for pair in zip(steady, jumpy, strict=True)))
    borders = np.arange(17, dtype=np.int64) * SECOND
    found = noise_seconds([both], [3, 5], borders)
    assert found[3] == pytest.approx(0.0)
    assert found[5] == pytest.approx(float(np.std([0.0, 0.8] * 4, ddof=1)))
    assert noise_seconds([both], [3, 5], borders[:16]) == {}
    assert noise_seconds([both], [3], np.zeros(0, np.int64)) == {}
