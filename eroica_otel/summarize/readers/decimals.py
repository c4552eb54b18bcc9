"""Microseconds -> integer nanoseconds, exactly: a double holds epoch microseconds only to 0.25 us.

Both ways round what is below 1 ns to the nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal

import numpy as np
from numpy.typing import NDArray

Microseconds = NDArray[np.int64] | NDArray[np.float64]
_POINT = ord(".")
_ZERO = ord("0")
_DECIMALS = 3
LARGEST_NS = 2_600_000_000_000_000_000
"""Realtime beyond it is no time of a trace (May 2052): a base, a start, a length and a start before the base that are
all below it, the last one below an eighth of it, fit into 64 bits together.
"""
LARGEST = LARGEST_NS / 1000
_LONGEST = 40
"""Characters of a number that is read at once with the others, where all take the memory of the longest one."""
_HELD = 2.0**43
"""Below it two doubles lie less than 1 ns apart, so that three decimals come out of the nearest one."""


def numbers(values: Sequence[int | float | None]) -> Microseconds:
    """Return JSON numbers as int64 where all are written without a point, else as float64 (None: NaN).

    Raises:
        OverflowError: one is larger than a double can be.
    """
    found: Microseconds = np.array(values)
    return found if found.dtype == np.int64 else np.array(values, np.float64)


def held_exactly(microseconds: Microseconds) -> bool:
    """Return whether these hold numbers with three decimals to the nanosecond; large doubles only hold whole ones."""
    return microseconds.dtype == np.int64 or bool((np.abs(microseconds) < _HELD).all())


def from_numbers(microseconds: Microseconds) -> NDArray[np.int64]:
    """Return numbers that are held exactly as int64 nanoseconds, of the same shape."""
    if microseconds.dtype == np.int64:
        return microseconds.astype(np.int64) * 1000
    whole = np.floor(microseconds)
    return whole.astype(np.int64) * 1000 + np.floor((microseconds - whole) * 1000 + 0.5).astype(np.int64)


def nanoseconds(texts: Sequence[bytes]) -> NDArray[np.int64]:
    """Return JSON numbers in microseconds as int64 nanoseconds, shape [len(texts)]; what is below 1 ns is rounded.

    Raises:
        ValueError: a text is no number (decimal.InvalidOperation is turned into it).
    """
    if not texts:
        return np.zeros(0, np.int64)
    table = np.array([text[:_LONGEST] for text in texts], dtype=np.bytes_)
    characters = table.view(np.uint8).reshape(len(texts), -1)
    value = np.zeros(len(texts), np.int64)
    decimals = np.zeros(len(texts), np.int64)
    fraction = np.zeros(len(texts), bool)
    up = np.zeros(len(texts), np.int64)
    beyond = np.zeros(len(texts), np.int64)
    odd = np.array([len(text) > _LONGEST for text in texts])
    for column in characters.T:
        digit = (column >= _ZERO) & (column <= _ZERO + 9)
        taken = digit & (decimals < _DECIMALS)
        # The fourth decimal decides; those behind it must not be taken for it.
        up += digit & (decimals == _DECIMALS) & (beyond == 0) & (column >= _ZERO + 5)
        beyond += digit & (decimals == _DECIMALS)
        value = np.where(taken, value * 10 + column - _ZERO, value)
        decimals += taken & fraction
        point = column == _POINT
        odd |= ~(digit | (point & ~fraction) | (column == 0))
        fraction |= point
    value = value * 10 ** (_DECIMALS - decimals) + up
    for place in np.flatnonzero(odd).tolist():
        value[place] = _exact(texts[place])
    return value


def _exact(text: bytes) -> int:
    try:
        exact = Decimal(text.decode("ascii", "replace")) * 1000
        return int((exact + Decimal("0.5")).to_integral_value(ROUND_FLOOR))
    except (ArithmeticError, ValueError):
        raise ValueError(f"{text[:40]!r} is not a number of microseconds") from None
