"""How many series a worker may show, and which patterns go when there are too many. Pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from eroica_otel.export.points import window_points, with_stack
from eroica_otel.model import Pattern, WorkerWindow

MOST_SERIES = 320
"""Per worker, everything included."""
STANDING_SERIES = 117
"""What a worker shows outside windows at most: histograms, states, totals, outcomes, groups; counted in a test."""


def fit(window: WorkerWindow, most: int = MOST_SERIES - STANDING_SERIES) -> WorkerWindow:
    """Return ``window`` with its smallest patterns cut until it shows at most ``most`` series.

    ``dropped`` grows by what was cut and ``floor`` becomes the smallest beta that is left. Stacks that are not exported
    go too: they are most of the bytes of a window.
    """

    def series(kept: int) -> int:
        return len(window_points(replace(window, patterns=window.patterns[:kept])))

    patterns = _without_stacks(window.patterns)
    if patterns != window.patterns:
        window = replace(window, patterns=patterns)
    kept = max(0, bisect_right(range(len(patterns) + 1), most, key=series) - 1)
    if kept == len(patterns):
        return window
    return replace(
        window,
        patterns=patterns[:kept],
        dropped=window.dropped + len(patterns) - kept,
        floor=patterns[kept - 1].beta if kept else window.floor,
    )


def _without_stacks(patterns: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
    shown = {id(pattern) for pattern in with_stack(patterns)}
    return tuple(one if not one.stack or id(one) in shown else replace(one, stack=()) for one in patterns)
