"""The sentence on events that nobody knows, from windows of files and of series, and in a live verdict."""

from __future__ import annotations

from dataclasses import replace

from eroica_otel.localize.verdict import judge
from eroica_otel.uncharged import uncharged
from factories_localize import one_bad, window_of

KNOWN = window_of(one_bad(4, 9))


def test_without_any_nothing_is_said() -> None:
    assert uncharged(KNOWN) == ()


def test_time_and_number_add_up_over_the_workers() -> None:
    given = [replace(window, unknown={"warp": (1000, 0.002), "beam": (7, 0.5)}) for window in KNOWN]
    assert uncharged(given) == (
        "4,028 events are of a category that is not known here and charged to nothing: beam 28 (2,000.0 ms), "
        "warp 4,000 (8.0 ms)",
    )


def test_a_live_verdict_tells_the_time_which_is_what_series_carry() -> None:
    given = [replace(window, unknown={"warp": (None, 0.002)}) for window in KNOWN]
    assert judge(given, expected=4).notes[0] == (
        "events are of a category that is not known here and charged to nothing: warp (8.0 ms)"
    )
