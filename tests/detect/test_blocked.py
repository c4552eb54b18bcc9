"""No event: a pause, a hang, or the end? Rounds of one second, no training."""

from __future__ import annotations

import pytest

from eroica_otel.detect.blocked import PAUSE_SECONDS, Seen, Silence, blocked_limit_seconds

NOTHING, SAVE, PEERS = Seen(), Seen(pause="save"), Seen(peers_pause=True)


def running(period_seconds: float = 0.1, iterations: int = 50) -> Silence:
    """Return the silence of a training whose latest event has just been."""
    silence = Silence()
    for _ in range(iterations):
        silence.is_pause(period_seconds)
    silence.see(0.0, event=True, update=True)
    return silence


def wait(silence: Silence, seconds: int, seen: Seen = NOTHING, event: bool = False, update: bool = False) -> str:
    """Let ``seconds`` rounds pass; return the state after the last one."""
    start = silence._latest or 0.0
    for second in range(1, seconds + 1):
        silence.see(start + second, event, update)
        silence.judge(seen)
    return silence.state


@pytest.mark.parametrize(("recent", "limit"), [(0.1, 10.0), (2.0, 10.0), (4.0, 20.0), (None, float("inf"))])
def test_the_limit_is_five_iterations_and_at_least_ten_seconds(recent: float | None, limit: float) -> None:
    assert blocked_limit_seconds(recent) == limit


def test_it_is_blocked_once_the_limit_is_over_and_not_before() -> None:
    silence = running()
    assert wait(silence, 10) == ""
    assert wait(silence, 1) == "blocked"
    assert silence.seconds == 11
    silence.see(12.0, event=True, update=False)
    assert silence.judge(NOTHING) == ""
    assert silence.longest_blocked_seconds == 11


def test_before_an_iteration_was_timed_nothing_is_blocked() -> None:
    assert wait(Silence(), 1000) == ""
    silence = running()
    silence.forget()
    assert wait(silence, 1000) == ""


def test_a_process_that_was_stopped_itself_has_not_waited_meanwhile() -> None:
    silence = running()
    silence.see(100.0, event=False, update=False)
    assert silence.judge(NOTHING) == ""
    assert silence.seconds == 3


def test_saving_is_a_pause_until_it_is_not_believed_any_more() -> None:
    silence = running()
    assert wait(silence, 11, SAVE) == "paused"
    assert wait(silence, int(PAUSE_SECONDS) - 11, SAVE) == "paused"
    assert wait(silence, 1, SAVE) == "blocked"


def test_after_a_long_pause_three_times_as_much_is_believed() -> None:
    silence = running()
    wait(silence, 500, SAVE)
    wait(silence, 1, event=True, update=True)
    assert wait(silence, 1500, SAVE) == "paused"
    assert wait(silence, 1, SAVE) == "blocked"


def test_a_hang_that_ended_does_not_prolong_pauses() -> None:
    silence = running()
    wait(silence, 500)
    wait(silence, 1, event=True, update=True)
    assert wait(silence, 601, SAVE) == "blocked"


def test_ranks_that_wait_for_one_that_pauses_pause_too_as_long_as_it_is_believed() -> None:
    silence = running()
    assert wait(silence, 600, PEERS) == "paused"
    assert wait(silence, 1, PEERS) == "blocked"


def test_a_debugger_may_stop_a_training_for_hours() -> None:
    assert wait(running(), 10_000, Seen(pause="debugger")) == "paused"


def test_a_training_that_has_left_its_loops_is_over_however_long_its_export_takes() -> None:
    assert wait(running(), 10_000, Seen(place="outside")) == "paused"


def test_between_two_epochs_it_pauses_for_a_while() -> None:
    silence = running()
    assert wait(silence, 600, Seen(place="between")) == "paused"
    assert wait(silence, 1, Seen(place="between")) == "blocked"


def test_inputs_without_updates_are_validation() -> None:
    silence = running()
    assert wait(silence, 10, event=True) == ""
    assert wait(silence, 1, event=True) == "paused"
    assert wait(silence, 1, event=True, update=True) == ""


def test_the_peers_are_told_of_a_pause_before_they_have_waited_for_the_limit() -> None:
    silence = running()
    wait(silence, 5, SAVE)
    assert not silence.pauses(SAVE)
    wait(silence, 1, SAVE)
    assert silence.pauses(SAVE)
    assert not silence.pauses(NOTHING)
    assert not silence.pauses(Seen(place="between")), "others may wait for it in vain"
    wait(silence, 595, SAVE)
    assert not silence.pauses(SAVE)


def test_the_peers_are_told_of_validation_on_one_rank() -> None:
    silence = running()
    wait(silence, 6, event=True)
    assert silence.pauses(NOTHING)


def test_an_iteration_with_a_pause_in_it_says_nothing_about_the_pace() -> None:
    silence = running(1.0)
    assert silence.is_pause(30.0)
    assert silence.limit_seconds == 10.0
    assert not silence.is_pause(1.0)


def test_the_third_long_iteration_in_a_row_is_the_pace() -> None:
    silence = running(1.0)
    assert [silence.is_pause(30.0) for _ in range(4)] == [True, True, False, False]
