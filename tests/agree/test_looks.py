"""Blocked windows and pauses in the job's store: no iteration, no decider, first come, first agreed."""

from __future__ import annotations

from functools import partial

import pytest

from eroica_otel.agree.pauses import FRESH_SECONDS
from eroica_otel.agree.poller import LATE_SECONDS, Poller
from eroica_otel.agree.store import LocalStore
from eroica_otel.model import Window
from factories_worker import FakeClock, standing

LOOK = Window(1_764_430_000, "blocked", 0, 0)
HOUR = 3600.0


class Job:
    """Pollers of four ranks on one store and one clock."""

    def __init__(self) -> None:
        self.clock, store = FakeClock(), LocalStore()
        self.ranks = [Poller(lambda: store, 4, 20.0, self.clock, lambda: 1_764_430_000.9) for _ in range(4)]
        for number, poller in enumerate(self.ranks):
            poller.standing = standing(number)
        self.rounds(1)

    def rounds(self, times: int, *left_out: int) -> None:
        for _ in range(times):
            self.clock.now += 1
            for number, poller in enumerate(self.ranks):
                if number not in left_out:
                    poller.poll()


def test_one_rank_that_is_blocked_opens_one_look_for_all() -> None:
    job = Job()
    job.ranks[2].blocked = job.ranks[3].blocked = True
    job.rounds(2)
    assert [list(poller.looks) for poller in job.ranks] == [[LOOK]] * 4
    assert not any(poller.agreed for poller in job.ranks)
    assert not any(poller.blocked for poller in job.ranks), "both have their look"


def test_the_next_look_is_another_one() -> None:
    job = Job()
    for _ in range(2):
        job.ranks[0].blocked = True
        job.rounds(2)
    assert [len(poller.looks) for poller in job.ranks] == [2] * 4


def test_a_look_takes_its_number_among_the_windows() -> None:
    job = Job()
    job.ranks[0].blocked = True
    job.rounds(2)
    for number, poller in enumerate(job.ranks):
        poller.standing = standing(number, wants="manual" if number == 1 else "", windows=1)
    job.rounds(3)
    assert [window.reason for poller in job.ranks for window in poller.agreed] == ["manual"] * 4


def test_who_was_stopped_meanwhile_does_not_take_part_in_a_look_that_is_over() -> None:
    job = Job()
    job.ranks[0].blocked = True
    job.rounds(int(LATE_SECONDS) + 1, 3)
    job.ranks[3].poll()
    assert (list(job.ranks[3].looks), job.ranks[3].offset) == ([], 1)


def test_who_comes_later_does_not_take_part_in_earlier_looks() -> None:
    job = Job()
    job.ranks[0].blocked = True
    job.rounds(2)
    store = job.ranks[0]._store
    assert store is not None
    late = Poller(lambda: store, 4, 20.0, job.clock)
    late.poll()
    assert (list(late.looks), late.offset) == ([], 1)


def test_while_a_rank_pauses_on_purpose_no_look_is_opened() -> None:
    job = Job()
    for poller in job.ranks[1:]:
        poller.listening = True
    job.ranks[0].pausing = True
    job.rounds(3)
    assert [poller.peers_pause for poller in job.ranks] == [False, True, True, True]
    job.ranks[1].blocked = True
    job.rounds(3)
    assert not any(poller.looks for poller in job.ranks)


def test_a_pause_of_a_rank_that_does_not_say_so_any_more_counts_for_some_seconds() -> None:
    job = Job()
    job.ranks[0].pausing = job.ranks[1].listening = True
    job.rounds(3)
    job.ranks[1].blocked = True
    job.rounds(int(FRESH_SECONDS), 0)  # rank 0 is stopped in the middle
    assert not job.ranks[1].looks
    job.rounds(1, 0)
    assert list(job.ranks[1].looks) == [LOOK]


def test_where_nobody_says_so_nobody_pauses() -> None:
    job = Job()
    job.ranks[1].listening = True
    job.rounds(3)
    assert not job.ranks[1].peers_pause


def test_an_earlier_pause_is_not_this_one() -> None:
    job = Job()
    job.ranks[0].pausing = True
    job.rounds(3)
    job.ranks[0].pausing = False
    job.ranks[1].listening = True
    job.rounds(3)
    assert not job.ranks[1].peers_pause


def apart(*ahead: float) -> Job:
    """Return ranks on nodes whose wall clocks are that far from the true one."""
    job = Job()
    for poller, seconds in zip(job.ranks, ahead, strict=True):
        poller._wall = partial(float, 1_764_430_000.9 + seconds)
    return job


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_nodes_whose_clocks_are_an_hour_apart_share_one_look(ahead: float) -> None:
    """Ranks 2 and 3 are on the other node; both nodes want it, and whoever is first gives it its number."""
    for first, of in ((0, 0.0), (2, ahead)):
        job = apart(0, 0, ahead, ahead)
        job.ranks[first].blocked = True
        job.ranks[first].poll()
        for number, poller in enumerate(job.ranks):
            poller.blocked = number != first  # who was first has its look
        job.rounds(2)
        (look,) = {look for poller in job.ranks for look in poller.looks}
        assert [len(poller.looks) for poller in job.ranks] == [1] * 4
        assert look == Window(1_764_430_000 + int(of), "blocked", 0, 0)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_windows_of_nodes_whose_clocks_are_an_hour_apart_follow_one_another(ahead: float) -> None:
    """What counts is the order in which they were agreed on, not what the clocks of those who did so say."""
    job = apart(0, 0, ahead, ahead)
    expected = []
    for number, rank in enumerate((2, 0, 1, 3)):
        job.ranks[rank].blocked = number % 2 == 1
        for each, poller in enumerate(job.ranks):
            wants = "manual" if each == rank and number % 2 == 0 else ""
            poller.standing = standing(each, wants=wants, windows=number)
        job.rounds(3)
        expected.append((1_764_430_000 + (ahead if rank >= 2 else 0), "blocked" if number % 2 else "manual"))
    for poller in job.ranks:
        assert [(one.id, one.reason) for one in poller.agreed] == expected[0::2]
        assert [(one.id, one.reason) for one in poller.looks] == expected[1::2]
        assert poller.offset == 0, "nobody has taken one for a window of the past"
