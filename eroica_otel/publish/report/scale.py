"""Axes of pictures: takes ranges, gives units and round ticks. Pure."""

from __future__ import annotations

import math


def unit_of(seconds: float) -> tuple[str, float]:
    """Return the unit that shows a time well and its number per second: ("ms", 1000.0)."""
    if seconds >= 2:
        return "s", 1.0
    return ("ms", 1e3) if seconds >= 0.0005 or seconds <= 0 else ("µs", 1e6)


def nice_ticks(top: float, most: int) -> list[float]:
    """Return at most ``most`` + 1 round numbers from 0 to ``top`` or above (steps of 1, 2 or 5 times a power of 10)."""
    if not math.isfinite(top) or top <= 0:
        return [0.0, 1.0]
    raw = top / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    return [float(f"{i * step:.6g}") for i in range(math.ceil(top / step * (1 - 1e-9)) + 1)]


def rank_ticks(count: int, most: int, room: int) -> list[int]:
    """Return the columns that get a number: every one, or every 2nd, 4th, 8th ... (workers come in powers of two)."""
    step = 1
    while count / step > max(min(most, room), 1):
        step *= 2
    return list(range(0, count, step))
