"""Charged pieces and borders of iterations -> how much a function's seconds per iteration vary inside a window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from eroica_otel.summarize.intervals import Intervals, Times, inside, merge

PARTS = 8
"""Sub-windows: a noise level from fewer cries wolf."""
LEAST_ITERATIONS = 2 * PARTS
LEAST_BETA = 0.01
MOST_FUNCTIONS = 30


def noise_seconds(parts: Iterable[Intervals], functions: Sequence[int], iteration_ns: Times) -> dict[int, float]:
    """Return the standard deviation (n - 1) of seconds per iteration over PARTS sub-windows, by function.

    Sub-windows are cut at borders of iterations and are as even as whole iterations allow. Below LEAST_ITERATIONS
    iterations there is no noise level at all (empty): one from single iterations measures something else.
    """
    iterations = iteration_ns.size - 1
    if iterations < LEAST_ITERATIONS:
        return {}
    cuts = np.rint(np.linspace(0, iterations, PARTS + 1)).astype(np.int64)
    borders = iteration_ns[cuts]
    time = {function: np.zeros(PARTS, np.int64) for function in functions}
    for pieces in parts:
        for function in functions:
            time[function] += inside(merge(pieces.take(pieces.function == function)), borders)
    per_part = np.diff(cuts)
    return {function: float(np.std(time[function] / per_part, ddof=1) / 1e9) for function in functions}
