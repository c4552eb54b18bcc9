"""Charged pieces of one window -> the share of each kind in each of equal parts of it, for a picture. Pure."""

from __future__ import annotations

import numpy as np

from eroica_otel.model import KINDS
from eroica_otel.summarize.critical import Charged
from eroica_otel.summarize.intervals import Times, inside, union

PARTS = 60
"""Bars: each is wide enough to be seen on a phone."""


def timeline(charged: Charged, start: int, end: int, parts: int = PARTS) -> dict[str, tuple[float, ...]]:
    """Return for each kind that was charged, and for "idle", its share of each part of [start, end), in [0, 1].

    The shares of one part sum to 1. A window that is shorter than ``parts`` nanoseconds has none (empty).
    """
    if end - start < parts:
        return {}
    borders = start + np.rint(np.linspace(0, end - start, parts + 1)).astype(np.int64)
    length = np.diff(borders)
    kinds = np.array([KINDS.index(function.kind) for function in charged.functions], np.int64)
    pieces = charged.pieces
    kind = kinds[pieces.function] if kinds.size else pieces.function
    found: dict[str, tuple[float, ...]] = {}
    rest = length.copy()
    for number, name in enumerate(KINDS):
        time = inside(union(pieces.take(kind == number)), borders)
        rest -= time
        if time.any():
            found[name] = _shares(time, length)
    return found | {"idle": _shares(rest, length)}


def _shares(time: Times, length: Times) -> tuple[float, ...]:
    return tuple((time / length).round(4).tolist())
