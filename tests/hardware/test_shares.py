"""Shares of a peak: counters and held values, one by one and all at once, with everything that can be missing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eroica_otel.hardware.shares import share, shares
from eroica_otel.hardware.source import Resource

NAN = math.nan


def resource(peak: float = 100.0, counter: bool = True) -> Resource:
    return Resource("nic_tx", "eth0", "By", peak, counter)


def all_at_once(given: Resource, seconds: list[float], values: list[float]) -> list[float]:
    times = np.array([round(second * 1e9) for second in seconds], dtype=np.int64)
    return [float(value) for value in shares(given, times, np.array(values))]


def test_a_counter_is_its_rise_per_second() -> None:
    assert share(resource(), 60.0, 10.0, 2.0) == 0.25
    assert all_at_once(resource(), [0, 2, 3], [10, 60, 160]) == pytest.approx([NAN, 0.25, 1.0], nan_ok=True)


def test_what_holds_is_the_value() -> None:
    held = resource(counter=False)
    assert share(held, 30.0) == 0.3
    assert all_at_once(held, [0, 1], [30, 50]) == [0.3, 0.5]


def test_nothing_is_above_the_peak() -> None:
    assert share(resource(), 1000.0, 0.0, 1.0) == 1.0
    assert all_at_once(resource(), [0, 1], [0, 1000])[1] == 1.0
    assert all_at_once(resource(counter=False), [0], [1000]) == [1.0]


@pytest.mark.parametrize("peak", [NAN, 0.0, -1.0])
def test_without_a_peak_no_share(peak: float) -> None:
    assert math.isnan(share(resource(peak), 60.0, 10.0, 2.0))
    assert all(map(math.isnan, all_at_once(resource(peak), [0, 1], [10, 60])))


@pytest.mark.parametrize(
    ("value", "before", "seconds"),
    [(5.0, 10.0, 1.0), (10.0, 5.0, 0.0), (10.0, 5.0, -1.0), (NAN, 5.0, 1.0), (5.0, NAN, 1.0)],
    ids=["went back", "clock stood", "clock went back", "not read", "not read before"],
)
def test_what_cannot_be_told_is_nan_and_never_0(value: float, before: float, seconds: float) -> None:
    assert math.isnan(share(resource(), value, before, seconds))
    assert math.isnan(all_at_once(resource(), [10, 10 + seconds], [before, value])[1])


def test_a_held_value_below_0_is_nan() -> None:
    held = resource(counter=False)
    assert math.isnan(share(held, -3.0))
    assert math.isnan(all_at_once(held, [0], [-3])[0])


def test_samples_left_out_take_nothing_away() -> None:
    assert all_at_once(resource(), [0, 1, 2, 3], [0, NAN, NAN, 30]) == pytest.approx([NAN, NAN, NAN, 0.1], nan_ok=True)


def test_no_samples() -> None:
    assert all_at_once(resource(), [], []) == []
    assert all_at_once(resource(counter=False), [], []) == []
