"""Text of microseconds to nanoseconds: exact at every size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eroica_otel.summarize.readers.decimals import from_numbers, held_exactly, nanoseconds, numbers
from factories_summarize import microseconds


@given(st.lists(st.integers(0, 2**62), max_size=20))
def test_every_nanosecond_survives(values: list[int]) -> None:
    assert nanoseconds([microseconds(value).encode() for value in values]).tolist() == values


def test_forms_that_json_allows() -> None:
    texts = [
        b"7",
        b"7.5",
        b"7.50",
        b"0.001",
        b"1e3",
        b"1.5E+2",
        b"-2.5",
        b"1790857026000000.123",
        b"3.9994",
        b"3.9995",
        b"3.99949",
    ]
    expected = [7000, 7500, 7500, 1, 1_000_000, 150_000, -2500, 1_790_857_026_000_000_123]
    expected += [3999, 4000, 3999]
    assert nanoseconds(texts).tolist() == expected


def test_no_text_gives_no_number() -> None:
    empty = nanoseconds([])
    assert empty.dtype == np.int64
    assert empty.size == 0


@pytest.mark.parametrize("text", [b"null", b'"12"', b"1.2.3", b"x"])
def test_what_is_no_number_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="microseconds"):
        nanoseconds([b"1.5", text])


def test_whole_numbers_are_exact_at_every_size() -> None:
    column = numbers([1_790_857_026_000_001, 0, -3])
    assert held_exactly(column)
    assert from_numbers(column).tolist() == [1_790_857_026_000_001_000, 0, -3000]


@pytest.mark.parametrize(
    ("values", "exact"),
    [([2.5, 7], True), ([2**42, 0.001], True), ([1_790_857_026_000_000.25, 1], False), ([2**43, 0.5], False)],
)
def test_doubles_are_exact_up_to_a_limit(values: list[int | float], exact: bool) -> None:
    assert held_exactly(numbers(values)) is exact


def test_what_is_missing_or_beyond_64_bits_makes_doubles() -> None:
    column = numbers([None, 2**70, 3])
    assert np.isnan(column[0])
    assert column[1:].tolist() == [2.0**70, 3.0]
    assert numbers([]).size == 0
    with pytest.raises(OverflowError):
        numbers([10**400, None])
