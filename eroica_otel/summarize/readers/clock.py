"""Times of a trace -> the clock of the worker's samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eroica_otel.summarize.intervals import Times


class Clock(NamedTuple):
    """What is added to every time, and how much less with each nanosecond after ``first`` (a slewed clock)."""

    shift: int
    first: int = 0
    slope: float = 0.0

    def of(self, times: Times) -> Times:
        """Return times of the trace on the clock of the samples."""
        if not self.slope:
            return times + self.shift
        return times + self.shift - self._slewed(times)

    def _slewed(self, times: Times) -> Times:
        slewed: Times = np.rint((times - self.first) * self.slope).astype(np.int64)
        return slewed

    @property
    def steady(self) -> bool:
        """Whether what is later in the trace is never earlier on the clock: not where it stepped by hours."""
        return self.slope < 1.0


def clock_of(offset: tuple[int, int], base_ns: int, first: int, last: int) -> Clock:
    """Return the clock of a trace.

    Args:
        offset: realtime minus the clock of the samples, at the start and at the end of the trace; it grows evenly.
        base_ns: Realtime from which the trace counts.
        first: Earliest start in the trace.
        last: Latest end.
    """
    slope = (offset[1] - offset[0]) / max(last - first, 1)
    return Clock(base_ns - offset[0], first, slope)
