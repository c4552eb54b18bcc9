"""Calls of collectives, and the rate of the link while they run."""

from __future__ import annotations

import numpy as np
import pytest

from eroica_otel.summarize.blocks import Moves
from eroica_otel.summarize.intervals import Intervals
from eroica_otel.summarize.transfers import collective_calls, link_peaks
from factories_summarize import capture

MS = 1_000_000


def _time(*spans: tuple[int, int]) -> Intervals:
    table = np.array(spans, np.int64).reshape(-1, 2)
    return Intervals(table[:, 0], table[:, 1], np.zeros(len(table), np.int64))


def test_calls_and_bytes_per_group_of_those_that_begin_in_the_window() -> None:
    spans = np.array([(10, 20), (30, 60), (50, 55), (90, 130), (100, 101), (40, 41)], np.int64)
    told = [("dp", 100), ("dp", 200), ("tp", None), ("tp", 7), ("dp", 1), None]
    found = collective_calls(Moves(spans[:, 0], spans[:, 1], np.full(6, 4), told), 10, 100)
    dp, tp = found[4]
    assert (dp.group, dp.calls, dp.bytes) == ("dp", 2, 300)
    assert (tp.group, tp.calls, tp.bytes) == ("tp", 2, None)
    # of two durations, 10 and 30 ns, the 5th percentile lies a twentieth of the way; the same of 5 and 40
    assert (dp.fastest_seconds, tp.fastest_seconds) == pytest.approx((11e-9, 6.75e-9))
    assert list(found) == [4]


def _nic(rates: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return samples every 5 ms with (sent, received) bytes in between."""
    sums = np.cumsum([(0, 0), *rates], axis=0)
    return [(place * 5 * MS, int(sent), int(received)) for place, (sent, received) in enumerate(sums)]


def test_the_peak_is_the_rate_that_nine_tenths_of_the_collective_s_time_do_not_exceed() -> None:
    # Twenty bins of 5 ms at 1 MB/s (5,000 bytes a bin): sent 2,000 in 17 of them and 5,000 in 3, received 500 in all.
    bins = [(2000, 500)] * 17 + [(5000, 500)] * 3
    window = capture(end=100 * MS, nic=_nic(bins), nic_peak_bytes=1e6)
    assert link_peaks(window, _time((0, 100 * MS))) == pytest.approx({"nic_tx": 1.0, "nic_rx": 0.1})
    # over the first 85 ms none of the fast bins is inside
    assert link_peaks(window, _time((0, 85 * MS))) == pytest.approx({"nic_tx": 0.4, "nic_rx": 0.1})


def test_a_bin_counts_by_its_overlap_with_the_union_of_calls() -> None:
    window = capture(end=20 * MS, nic=_nic([(1000, 0), (5000, 0), (0, 0), (0, 0)]), nic_peak_bytes=1e6)
    # 4.6 ms in the slow bin and 0.4 ms in the fast one: 8 % do not reach the 90th percentile
    assert link_peaks(window, _time((0, 3 * MS), (2 * MS, 4_600_000), (5 * MS, 5_400_000)))["nic_tx"] == pytest.approx(
        0.2
    )
    assert link_peaks(window, _time((0, 4 * MS), (5 * MS, 6 * MS)))["nic_tx"] == pytest.approx(1.0)


def test_without_speed_samples_or_overlap_there_is_no_peak() -> None:
    samples = _nic([(1, 1)] * 4)
    assert link_peaks(capture(nic=samples), _time((0, 10 * MS))) == {}
    assert link_peaks(capture(nic_peak_bytes=1e6), _time((0, 10 * MS))) == {}
    assert link_peaks(capture(nic=samples, nic_peak_bytes=1e6), _time((50 * MS, 60 * MS))) == {}
    assert link_peaks(capture(nic=samples, nic_peak_bytes=1e6), _time()) == {}


def test_a_counter_that_goes_back_tells_no_rate_below_nothing() -> None:
    samples = [(0, 0, 0), (5 * MS, 1000, 500), (10 * MS, 0, 1000), (15 * MS, 500, 1500)]
    window = capture(end=15 * MS, nic=samples, nic_peak_bytes=1e6)
    assert link_peaks(window, _time((5 * MS, 10 * MS))) == pytest.approx({"nic_tx": 0.0, "nic_rx": 0.1})
    assert link_peaks(window, _time((10 * MS, 15 * MS))) == pytest.approx({"nic_tx": 0.1, "nic_rx": 0.1})


def test_a_sample_with_a_wrong_time_asks_for_no_bins_until_then() -> None:
    samples = [(0, 0, 0), (5 * MS, 1000, 500), (10 * MS, 1500, 1000), (1 << 62, 1500, 1000)]
    window = capture(end=15 * MS, nic=samples, nic_peak_bytes=1e6)
    assert link_peaks(window, _time((0, 5 * MS))) == pytest.approx({"nic_tx": 0.2, "nic_rx": 0.1})
    assert link_peaks(window, _time((5 * MS, 10 * MS))) == pytest.approx({"nic_tx": 0.1, "nic_rx": 0.1})
