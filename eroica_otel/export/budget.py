"""How many series a worker may show, and which patterns go when there are too many. Pure."""

from __future__ import annotations

from dataclasses import replace

from eroica_otel.export.points import window_points
from eroica_otel.model import WorkerWindow

MOST_SERIES = 320
"""Per worker, everything included."""
STANDING_SERIES = 110
"""What a worker shows outside windows at most: histograms, states, totals, outcomes, groups; counted in a test."""


def fit(window: WorkerWindow, most: int = MOST_SERIES - STANDING_SERIES) -> WorkerWindow:
    """Return ``window`` with its smallest patterns cut until it shows at most ``most`` series.

    ``dropped`` grows by what was cut and ``floor`` becomes the smallest beta that is left.
    """
    patterns = list(window.patterns)
    fitted = window
    while len(window_points(fitted)) > most and patterns:
        excess = len(window_points(fitted)) - most
        del patterns[-max(1, excess // 8) :]
        fitted = replace(
            window,
            patterns=tuple(patterns),
            dropped=window.dropped + len(window.patterns) - len(patterns),
            floor=patterns[-1].beta if patterns else window.floor,
        )
    return fitted
