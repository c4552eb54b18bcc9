"""Clocks of this machine and of a server that are apart: which one counts, and what is said."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from eroica_otel.export.servertime import APART_SECONDS, ServerTime
from factories_worker import FakeClock

NOW = 1_764_430_000.0
HOUR = 3600.0


class Both:
    """A machine whose clock is ``ahead`` of the server's, and what it said."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.wall, self.monotonic, self.server = FakeClock(NOW + ahead), FakeClock(77.0), NOW
        self.said: list[str] = []
        self.time = ServerTime(self.said.append, self.wall, self.monotonic)

    def wait(self, seconds: float) -> None:
        for clock in (self.wall, self.monotonic):
            clock.now += seconds
        self.server += seconds

    def answer(self) -> None:
        self.time.hear(formatdate(self.server, usegmt=True))


@pytest.mark.parametrize("ahead", [0.0, APART_SECONDS, -APART_SECONDS])
def test_of_two_clocks_that_are_close_the_machines_own_counts(ahead: float) -> None:
    both = Both(ahead)
    both.answer()
    both.wait(10)
    assert (both.time.now(), both.said) == (NOW + ahead + 10, [])


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (HOUR, "1.0 h ahead of"), (-HOUR, "1.0 h behind"), (-300, "5 min behind"), (31, "31 s ahead of"),
        (90 * 86400, "2160.0 h ahead of"),
    ],
)  # fmt: skip
def test_of_two_that_are_apart_the_servers_counts_and_it_is_said_once_with_the_remedy(ahead: float, words: str) -> None:
    both = Both(ahead)
    for _ in range(3):
        both.answer()
        both.wait(10)
        assert both.time.now() == both.server
    (said,) = both.said
    assert f"the clock of this machine is {words} that of the server" in said
    assert said.endswith("set the clock (NTP)")


def test_a_clock_that_is_set_counts_at_once_and_one_that_is_wrong_again_is_told_again() -> None:
    both = Both(HOUR)
    both.answer()
    both.wall.now = both.server
    assert both.time.now() == both.server  # before another answer: by the clock that nobody sets
    both.answer()
    both.wall.now += HOUR
    assert both.time.now() == both.server
    both.answer()
    assert len(both.said) == 2


def test_before_an_answer_with_a_date_the_machines_own_counts() -> None:
    both = Both(HOUR)
    for date in (None, "", "yesterday", "Mon, 99 Foo 2026 10:00:00 GMT", "Mon, 30 Nov 99999 10:00:00 GMT"):
        both.time.hear(date)
    assert (both.time.now(), both.time.known, both.said) == (NOW + HOUR, False, [])
