"""Categories of trace events that nobody knows -> what a worker reports of them: few names, of plain characters."""

from __future__ import annotations

import re
from collections.abc import Mapping

from eroica_otel.uncharged import OTHERS

MOST_NAMED = 4
"""Categories that are named, those that take longest."""
_NAME_LENGTH = 40
_ODD = re.compile(r"[^\w.:-]+", re.ASCII)


def reported(unknown: Mapping[str, tuple[int, float]]) -> dict[str, tuple[int, float]]:
    """Return (events, seconds) by category, the longest first, as a window carries them."""
    found: dict[str, tuple[int, float]] = {}
    for category, row in unknown.items():
        _add(found, _ODD.sub("_", category)[:_NAME_LENGTH], row)
    ordered = sorted(found.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    kept = dict(ordered[:MOST_NAMED])
    for _, row in ordered[MOST_NAMED:]:
        _add(kept, OTHERS, row)
    return kept


def _add(found: dict[str, tuple[int, float]], category: str, row: tuple[int, float]) -> None:
    count, seconds = found.get(category, (0, 0.0))
    found[category] = (count + row[0], seconds + row[1])
