"""How much fast sampling is granted to whom."""

from __future__ import annotations

from eroica_hardware.windows import BUDGET_SECONDS, MOST_SENDERS, MOST_UNSEEN, SECOND, Windows
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
    fast = [windows.grant((n % 3, n), said(seconds=60), n * 60 * SECOND) == "" for n in range(60)]
    # 300 at the start and 12 earned a minute, 60 taken by each window: six in a row, then one in five.
    assert fast[:6] == [True] * 6
    assert sum(fast[6:]) == (60 - 6) * 12 // 60
    assert BUDGET_SECONDS == 300


def test_one_user_has_half_of_it_and_another_his_own() -> None:
    """150 at the start and 12 earned a minute: at the 60th try 150 + 59 x 12 seconds have been there."""
    windows = Windows(0)
    fast = [windows.grant((1000, n), said(seconds=60), n * 60 * SECOND) for n in range(60)]
    assert [not refusal for refusal in fast[:4]] == [True, True, False, True]
    assert "of this user" in fast[2]
    assert fast.count("") == (150 + 59 * 12) // 60
    assert windows.grant((1001, 1), said(seconds=60), 60 * 60 * SECOND) == ""
    assert windows.grant((1001, 2), said(seconds=60), 61 * 60 * SECOND) == ""


def test_a_window_within_one_of_another_user_costs_nothing() -> None:
    windows = Windows(0)
    for turn in range(3):
        now = turn * 300 * SECOND
        assert windows.grant((1000, 1), said(seconds=60), now) == ""
        assert all(windows.grant((1001, n), said(seconds=60), now) == "" for n in range(10))


def test_senders_are_forgotten_and_never_without_bound() -> None:
    windows = Windows(0)
    most = MOST_SENDERS // 2
    for number in range(most):
        assert windows.grant((1000, number + 1), said(), 0) == ""
    assert "too many" in windows.grant((1000, most + 1), said(), SECOND)
    for number in range(most):
        assert windows.grant((1001, number + 1), said(), 0) == ""
    assert "too many" in windows.grant((1002, 1), said(), SECOND)
    assert windows.grant((1000, most + 1), said(), 6 * SECOND) == ""


def test_numbers_that_nobody_can_check_are_no_way_round_the_rest() -> None:
    """A process in a container of its own may say any pid: its user is heard 64 times in 5 s, another one still."""
    windows = Windows(0)
    heard = [windows.grant((1000, -number - 1), said(), 0) == "" for number in range(1000)]
    assert heard == [True] * MOST_UNSEEN + [False] * (1000 - MOST_UNSEEN)
    assert windows.grant((1001, -1), said(), SECOND) == ""
    assert windows.grant((1000, 77), said(), SECOND) == ""
    assert windows.grant((1000, -1), said(), 6 * SECOND) == ""


def test_users_come_and_go_without_bound() -> None:
    windows = Windows(0)
    for number in range(3 * MOST_SENDERS):
        windows.grant((number, 1), said(seconds=1), number * 6 * SECOND)
    assert len(windows._of_user) <= MOST_SENDERS
