"""A thread that makes rounds: when the next one comes, and that it ends when it is asked to."""

from __future__ import annotations

import threading

from eroica_otel.rounds import Rounds


def test_a_thread_that_is_woken_has_a_round_at_once() -> None:
    went = threading.Event()

    def once() -> float:
        went.set()
        return 3600.0

    rounds = Rounds("rounds", once, first=3600.0)
    rounds.start()
    rounds.wake()
    assert went.wait(20)
    assert rounds.stop()


def test_the_first_round_comes_when_it_is_due_and_each_says_when_the_next_is() -> None:
    waited: list[float | None] = []
    rests = iter([5.0, 2.0, 7.0])

    def wait(timeout: float | None = None) -> bool:
        waited.append(timeout)
        return False

    def once() -> float:
        rest = next(rests)
        if rest == 7.0:
            assert rounds.stop()  # by the thread itself, which cannot wait for its own end
        return rest

    rounds = Rounds("rounds", once, first=1.0)
    rounds._wake.wait = wait  # type: ignore[method-assign]
    rounds.start()
    rounds._runner.join(20)
    assert waited == [1.0, 5.0, 2.0, 7.0]
    assert rounds.stopping


def test_a_round_that_hangs_does_not_hold_up_the_end() -> None:
    inside, release = threading.Event(), threading.Event()

    def hang() -> float:
        inside.set()
        release.wait(60)
        return 0.0

    rounds = Rounds("rounds", hang)
    rounds.start()
    assert inside.wait(20)
    assert not rounds.stop(0.1)
    release.set()
    assert rounds.stop(20)


def test_who_never_started_has_nothing_to_wait_for() -> None:
    assert Rounds("rounds", lambda: 0.0).stop()
