"""Rules of agreement: who wants what, and which iterations are proposed."""

from __future__ import annotations

import pytest

from eroica_otel.agree.window import (
    Cooldown,
    Standing,
    nearer_stop,
    propose,
    wanted,
    window_from_bytes,
    window_to_bytes,
)
from eroica_otel.model import Window
from factories_worker import standing


def standings(*wants: str, since: float = 0.0) -> list[Standing]:
    return [standing(rank, wants=reason, wants_since_seconds=since) for rank, reason in enumerate(wants)]


@pytest.mark.parametrize(
    ("wants", "since", "reason"),
    [
        (("", "", "", ""), 0.0, ""),
        (("manual", "", "", ""), 0.0, "manual"),
        (("degraded", "degraded", "degraded", "manual"), 0.0, "manual"),
        (("degraded", "", "", ""), 0.0, ""),
        (("degraded", "degraded", "", ""), 0.0, "degraded"),
        (("degraded", "degraded", "", "", ""), 0.0, ""),
        (("degraded", "degraded", "degraded", "", ""), 0.0, "degraded"),
        (("reference", "reference", "reference", ""), 0.0, ""),
        (("reference", "reference", "reference", "reference"), 0.0, "reference"),
        (("reference", "reference", "", ""), 59.0, ""),
        (("reference", "reference", "", ""), 60.0, "reference"),
        (("reference", "", "", ""), 3600.0, ""),
        (("degraded", "degraded", "reference", "reference"), 0.0, "degraded"),
        (("periodic", "", "", ""), 0.0, "periodic"),
        (("periodic", "periodic", "periodic", "manual"), 0.0, "manual"),
        (("periodic", "periodic", "degraded", "degraded"), 0.0, "degraded"),
        (("periodic", "reference", "reference", "reference"), 60.0, "reference"),
    ],
)
def test_what_four_or_five_ranks_stand_for(wants: tuple[str, ...], since: float, reason: str) -> None:
    assert wanted(standings(*wants, since=since), world_size=len(wants)) == reason


def test_ranks_that_do_not_report_do_not_count_for_degraded_but_hold_up_the_reference() -> None:
    assert wanted(standings("degraded", ""), world_size=8) == "degraded"
    assert wanted(standings("reference", "reference"), world_size=8) == ""
    assert wanted(standings("reference", "reference", since=61), world_size=8) == "reference"
    assert wanted([], world_size=8) == ""


@pytest.mark.parametrize("reason", ["manual", "periodic"])
def test_a_window_that_one_rank_may_have_waits_a_while_for_ranks_that_do_not_report_yet(reason: str) -> None:
    assert wanted(standings(reason), world_size=2) == ""
    assert wanted(standings(reason, since=9.9), world_size=2) == ""
    assert wanted(standings(reason, since=10.0), world_size=2) == reason
    assert wanted(standings(reason, ""), world_size=2) == reason


def test_a_periodic_window_waits_until_all_are_steady_and_a_manual_one_does_not() -> None:
    for reason, opened in (("periodic", ""), ("manual", "manual")):
        seen = [standing(0, wants=reason, wants_since_seconds=3600.0), standing(1, steady=False)]
        assert wanted(seen, world_size=2) == opened


def test_one_rank_that_was_late_for_the_reference_is_enough_for_another() -> None:
    assert wanted([standing(0), standing(1, wants="reference", late=1)], world_size=2) == "reference"
    assert wanted([standing(0, late=1), standing(1, wants="reference")], world_size=2) == ""


@pytest.mark.parametrize(("late", "seconds"), [((0, 0), 3), ((0, 1), 6), ((2, 1), 12), ((3, 0), 24), ((9, 0), 24)])
def test_the_lead_doubles_with_each_window_that_a_rank_was_late_for(late: tuple[int, ...], seconds: int) -> None:
    seen = [standing(rank, late=times, iteration=100, period_seconds=0.5) for rank, times in enumerate(late)]
    assert propose(seen, "manual", 20.0, 1.0).start == 100 + 2 * seconds + 1


def test_a_window_starts_after_the_highest_iteration_and_a_lead_and_lasts_as_long_as_asked_for() -> None:
    seen = [standing(0, iteration=100, period_seconds=0.1), standing(1, iteration=103, period_seconds=0.2)]
    # 3 s of lead are 15 iterations of 0.2 s; 20 s are 100 of them.
    assert propose(seen, "degraded", 20.0, 1_764_430_000.9) == Window(1_764_430_000, "degraded", 119, 219)


def test_the_smallest_budget_shortens_the_window_for_all() -> None:
    seen = [standing(0, most_iterations=500), standing(1, most_iterations=7)]
    window = propose(seen, "manual", 20.0, 1.0)
    assert window.stop - window.start == 7


def test_a_rank_without_room_does_not_shorten_it_and_without_any_room_it_is_two_iterations() -> None:
    some = propose([standing(0, most_iterations=50), standing(1, most_iterations=0)], "manual", 20.0, 1.0)
    none = propose([standing(0, most_iterations=0), standing(1, most_iterations=1)], "manual", 20.0, 1.0)
    assert some.stop - some.start == 50
    assert none.stop - none.start == 2


def test_iterations_longer_than_the_window_are_two() -> None:
    window = propose([standing(0, period_seconds=90.0)], "manual", 20.0, 1.0)
    assert window.stop - window.start == 2
    assert window.start == 100 + 1 + 1


@pytest.mark.parametrize(
    ("steps", "age", "wanted", "stop"),
    [
        # 100 updates were planned for 20 s. In 16 s there were 40: 0.4 s each, so that it would last 40 s.
        (140, 16.0, 20.0, 140 + 10 + 1),
        (140, 16.0, 35.0, 0),  # all of what is left can still be heard in time later
        (142, 16.8, 20.0, 142 + 8 + 1),
        (145, 18.0, 20.0, 145 + 8 + 1),  # not below the 3 s that every rank needs to hear of it
        (180, 16.0, 20.0, 0),  # as planned
        (166, 16.0, 20.0, 0),  # 24 s in all are not much longer
        (163, 16.0, 20.0, 163 + 16 + 1),  # 25.4 s
        (198, 39.0, 20.0, 0),  # it ends by itself before
        (102, 0.3, 4.0, 0),  # the first iterations under a profiler say nothing of the next
        (120, 2.0, 4.0, 120 + 30 + 1),
        (101, 9.0, 5.0, 0),  # one iteration says nothing of the next
        (102, 9.0, 5.0, 116),  # 16 iterations in any case
    ],
)
def test_a_window_that_would_last_a_quarter_longer_than_wanted_ends_earlier(
    steps: int, age: float, wanted: float, stop: int
) -> None:
    assert nearer_stop(Window(1, "degraded", 100, 200), steps, age, wanted) == stop


def test_windows_and_standings_survive_the_store() -> None:
    window, own = Window(5, "manual", 1, 2), standing(3, wants="manual", windows=2)
    assert window_from_bytes(window_to_bytes(window)) == window
    assert Standing.from_bytes(own.to_bytes()) == own


def test_the_rest_after_a_window_doubles_while_nothing_changes() -> None:
    rest = Cooldown(600)
    assert rest.over(0)
    rest.begin(0, 0.13)
    assert not rest.over(599)
    assert rest.over(600)
    rest.begin(600, 0.131)
    assert not rest.over(600 + 1199)
    assert rest.over(600 + 1200)
    rest.begin(1800, 0.2)  # another slowdown
    assert rest.over(1800 + 600)


def test_a_healthy_stretch_makes_the_next_rest_short_again_and_a_rest_is_a_day_at_most() -> None:
    rest = Cooldown(600)
    for _ in range(20):
        rest.begin(0, 0.13)
    assert not rest.over(24 * 3600 - 1)
    assert rest.over(24 * 3600)
    rest.reset()
    rest.begin(0, 0.13)
    assert rest.over(600)
