from __future__ import annotations

from typing import Any

from eroica_otel.query.gathered import Earlier, window_id_of
from eroica_otel.query.store import Store
from factories_central import WINDOW, collect, delivery, identity, window

KEY = ("vision", "llm-7b")


def blocked(rank: int = 0, **changes: Any) -> Any:
    given: dict[str, Any] = {"reason": "blocked", "iterations": 0, "silent_seconds": 30.0}
    return window(rank, **given | changes)


def earlier(first: float = 10.0, ranks: tuple[int, ...] = (0, 1), **who: Any) -> dict[int, Earlier]:
    return {WINDOW - 5: Earlier(first, frozenset(ranks), identity(0, **who))}


def test_what_comes_within_a_minute_belongs_together_whatever_the_ids() -> None:
    assert window_id_of(blocked(2, window_id=WINDOW + 3600), earlier(), 70.0) == WINDOW - 5
    assert window_id_of(blocked(2), earlier(), 70.1) == WINDOW


def test_a_rank_that_is_in_it_already_reports_another_hang() -> None:
    assert window_id_of(blocked(1), earlier(), 20.0) == WINDOW


def test_another_reason_or_run_is_never_gathered() -> None:
    assert window_id_of(window(2, reason="manual"), earlier(), 20.0) == WINDOW
    assert window_id_of(blocked(2), earlier(run_id="run-2"), 20.0) == WINDOW
    assert window_id_of(blocked(2), earlier(restart=1), 20.0) == WINDOW
    assert window_id_of(blocked(2), earlier(run_id=""), 20.0) == WINDOW - 5


def test_the_latest_hang_wins_and_an_id_that_is_known_stays() -> None:
    both = {WINDOW - 9: Earlier(5.0, frozenset({0}), identity(0)), **earlier()}
    assert window_id_of(blocked(2), both, 20.0) == WINDOW - 5
    assert window_id_of(blocked(2, window_id=WINDOW - 9), both, 20.0) == WINDOW - 9


def test_the_store_keeps_both_under_one_id_and_takes_neither_twice() -> None:
    store, late = Store(), blocked(1, window_id=WINDOW + 40)
    assert store.add(delivery(collect(blocked(0))), 1.0) == blocked(0)
    assert store.add(delivery(collect(late)), 30.0) == late
    assert store.add(delivery(collect(late)), 40.0) is None
    (kept,) = store.jobs()[0].windows.values()
    assert sorted(kept.windows) == [0, 1]
    assert {one.window_id for one in kept.windows.values()} == {WINDOW}


def test_who_comes_after_the_hang_was_judged_and_let_go_is_known() -> None:
    store = Store()
    store.add(delivery(collect(blocked(0))), 1.0)
    store.release(KEY, WINDOW)
    store.add(delivery(collect(blocked(1, window_id=WINDOW + 40))), 30.0)
    assert store.jobs()[0].windows == {}


def test_windows_stand_in_the_order_in_which_they_came() -> None:
    store = Store()
    for at, skew in enumerate((3600, 0, 60)):
        store.add(delivery(collect(window(window_id=WINDOW + skew))), float(at))
    assert list(store.jobs()[0].windows) == [WINDOW + 3600, WINDOW, WINDOW + 60]


def test_a_blocked_window_that_holds_nothing_but_its_silence_is_one() -> None:
    bare = blocked(patterns=(), kinds={})
    assert Store().add(delivery(collect(bare)), 1.0) == bare
