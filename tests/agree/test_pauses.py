from __future__ import annotations

from eroica_otel.agree.pauses import Pauses
from eroica_otel.agree.store import LocalStore


def test_where_nobody_ever_pauses_nobody_hears_of_a_pause() -> None:
    store, ears = LocalStore(), Pauses()
    assert [ears.heard(store, float(at)) for at in range(5)] == [False] * 5


def test_a_pause_is_heard_once_it_moves_and_until_it_has_been_still_for_five_seconds() -> None:
    store, mouth, ears = LocalStore(), Pauses(), Pauses()
    mouth.say(store, 0)
    assert not ears.heard(store, 0.0)
    mouth.say(store, 0)
    assert ears.heard(store, 1.0)
    assert ears.heard(store, 6.0)
    assert not ears.heard(store, 6.1)


def test_what_was_heard_of_an_earlier_pause_is_forgotten() -> None:
    store, mouth, ears = LocalStore(), Pauses(), Pauses()
    for at in range(2):
        mouth.say(store, 0)
        ears.heard(store, float(at))
    ears.forget()
    assert not ears.heard(store, 2.0)
