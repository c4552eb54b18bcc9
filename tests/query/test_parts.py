"""Questions about all workers: at once where that is not too much, else in parts that share out all of them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from eroica_otel.query.client import QueryFailed
from eroica_otel.query.parts import MOST_DIGITS, Parts, endings
from eroica_otel.query.promql import Series

RANKS = [*map(str, range(1234)), "", "first", "node7", "node47", "a 0", "00", "007", "-1", "x\ny"]
"""Ranks, and what other programs may have there."""


def held(ranks: list[str], matcher: str) -> list[Series]:
    """Return the series of these ranks that a matcher fits, as Prometheus anchors it."""
    text = re.fullmatch(r'(?:rank=~"(.*)")?', matcher)
    assert text is not None
    fits = re.compile(text[1] or ".*", re.DOTALL)
    return [Series({"rank": rank}, ((1.0, 1.0),)) for rank in ranks if fits.fullmatch(rank)]


def limited(most: int, asked: list[str], outcome: str = "too_large") -> Callable[[str], list[Series]]:
    """Return a backend that refuses answers of more than ``most`` series."""

    def ask(matcher: str) -> list[Series]:
        asked.append(matcher)
        found = held(RANKS, matcher)
        if len(found) > most:
            raise QueryFailed(outcome, "too many samples")
        return found

    return ask


@pytest.mark.parametrize("digits", range(MOST_DIGITS + 1))
def test_each_text_is_of_one_part(digits: int) -> None:
    parts = [re.compile(one or ".*", re.DOTALL) for one in endings(digits)]
    assert len(parts) == 10**digits
    assert [sum(one.fullmatch(rank) is not None for one in parts) for rank in RANKS] == [1] * len(RANKS)


@pytest.mark.parametrize(("most", "refused", "parts"), [(2000, 0, 1), (150, 1, 10), (30, 2, 100), (11, 3, 1000)])
def test_what_is_refused_is_asked_for_in_ten_times_as_many_parts(most: int, refused: int, parts: int) -> None:
    asked: list[str] = []
    found = Parts(5000).all(limited(most, asked))
    assert sorted(series.labels["rank"] for series in found) == sorted(RANKS)
    assert len(asked) == refused + parts


def test_a_backend_is_not_asked_again_for_what_it_refused() -> None:
    asked: list[str] = []
    parts, ask = Parts(5000), limited(150, asked)
    parts.all(ask)
    asked.clear()
    parts.all(ask)
    assert len(asked) == 10


def test_what_is_too_much_in_the_smallest_parts_is_refused() -> None:
    with pytest.raises(QueryFailed, match="too many samples"):
        Parts(5000).all(limited(1, []))


@pytest.mark.parametrize("outcome", ["refused", "timeout", "unreachable"])
def test_another_failure_is_not_asked_around(outcome: str) -> None:
    asked: list[str] = []
    with pytest.raises(QueryFailed):
        Parts(5000).all(limited(150, asked, outcome))
    assert len(asked) == 1


def test_more_series_than_there_may_be_are_not_held() -> None:
    asked: list[str] = []
    with pytest.raises(QueryFailed, match=r"more than 400 series of one name; .*--workers, or restrict it by --match"):
        Parts(400).all(limited(150, asked))
    assert len(asked) == 1 + 4  # a tenth each
