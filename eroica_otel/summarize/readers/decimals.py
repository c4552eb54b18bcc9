"""Text of microseconds -> integer nanoseconds, exactly: a double holds epoch microseconds only to 0.25 us."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

_POINT = ord(".")
_ZERO = ord("0")
_DECIMALS = 3


def nanoseconds(texts: Sequence[bytes]) -> NDArray[np.int64]:
    """Return JSON numbers in microseconds as int64 nanoseconds, shape [len(texts)]; digits below 1 ns are cut.

    Raises:
        ValueError: a text is no number (decimal.InvalidOperation is turned into it).
    """
    if not texts:
        return np.zeros(0, np.int64)
    table = np.array(texts, dtype=np.bytes_)
    characters = table.view(np.uint8).reshape(len(texts), -1)
    value = np.zeros(len(texts), np.int64)
    decimals = np.zeros(len(texts), np.int64)
    fraction = np.zeros(len(texts), bool)
    odd = np.zeros(len(texts), bool)
    for column in characters.T:
        digit = (column >= _ZERO) & (column <= _ZERO + 9)
        taken = digit & (decimals < _DECIMALS)
        value = np.where(taken, value * 10 + column - _ZERO, value)
        decimals += taken & fraction
        point = column == _POINT
        odd |= ~(digit | (point & ~fraction) | (column == 0))
        fraction |= point
    value *= 10 ** (_DECIMALS - decimals)
    for place in np.flatnonzero(odd).tolist():
        value[place] = _exact(texts[place])
    return value


def _exact(text: bytes) -> int:
    try:
        return int(Decimal(text.decode("ascii", "replace")) * 1000)
    except ArithmeticError:
        raise ValueError(f"{text[:40]!r} is not a number of microseconds") from None
