"""How much fast sampling is granted to whom."""

from __future__ import annotations

from eroica_hardware.windows import BUDGET_SECONDS, MOST_SENDERS, SECOND, Windows
from eroica_otel.hardware.announce import Announcement


def said(rank: int = 0, seconds: float = 20.0) -> Announcement:
    return Announcement(rank=rank, pid=rank + 100, window=1_700_000_000, seconds=seconds)


def test_a_window_runs_for_its_seconds() -> None:
    windows = Windows(0)
    assert not windows.running(0)
    assert windows.grant((0, 1), said(), 0) == ""
    assert windows.running(20 * SECOND - 1)
    assert not windows.running(20 * SECOND)


def test_workers_of_one_window_count_once() -> None:
    windows = Windows(0)
    for rank in range(100):
        assert windows.grant((0, rank), said(rank), 0) == ""
    assert windows.until == 20 * SECOND


def test_a_shorter_window_does_not_end_a_longer_one() -> None:
    windows = Windows(0)
    windows.grant((0, 1), said(seconds=60), 0)
    assert windows.grant((0, 2), said(seconds=5), SECOND) == ""
    assert windows.until == 60 * SECOND


def test_one_process_cannot_announce_all_the_time() -> None:
    windows = Windows(0)
    assert windows.grant((0, 1), said(), 0) == ""
    assert "a moment ago" in windows.grant((0, 1), said(), 4 * SECOND)
    assert windows.grant((0, 1), said(), 5 * SECOND) == ""


def test_all_together_have_a_budget_that_comes_back() -> None:
    windows = Windows(0)
    fast = [windows.grant((0, n), said(seconds=60), n * 60 * SECOND) == "" for n in range(60)]
    # 300 at the start and 12 earned a minute, 60 taken by each window: six in a row, then one in five.
    assert fast[:6] == [True] * 6
    assert sum(fast[6:]) == (60 - 6) * 12 // 60
    assert BUDGET_SECONDS == 300


def test_senders_are_forgotten_and_never_without_bound() -> None:
    windows = Windows(0)
    for number in range(MOST_SENDERS):
        assert windows.grant((0, number), said(), 0) == ""
    assert "too many" in windows.grant((0, MOST_SENDERS), said(), SECOND)
    assert windows.grant((0, MOST_SENDERS), said(), 6 * SECOND) == ""
