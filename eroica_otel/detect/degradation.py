"""Iteration periods -> is this job slower than it was? Pure.

The published rule (mean of the recent N = 50 iterations more than 5 % above the recent shortest, EROICA, NSDI'26) is
on for ever on a noisy machine, because a single shortest iteration is an extreme value. Here the baseline is the
MEDIAN of the N-iteration means, the rise must also exceed 3 standard errors, and must hold for N/2 iterations
(docs/method.md). No iteration weighs more than twice the baseline: one checkpoint of 20 s would otherwise stand for a
slow job for N iterations, and hide a slow job for the 1,000 after it, because it makes the standard error large. Where
a usual N/5 holds longer ones, 1.5 times the longest of it: a loader with four processes hands over four batches at a
time, so that the fourth iteration waits for all of them, and cut it would pull the baseline down for ever.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HISTORY_ITERATIONS = 1000
HISTORY_SECONDS = 1800.0
MOST_MEANS = 50_000
STANDARD_ERRORS = 3.0
MOST_OF_BASELINE = 2.0
MOST_OF_LONGEST = 1.5
"""With less a loader that has become slower would be cut, too."""


@dataclass(frozen=True, slots=True)
class Level:
    """What the rule sees.

    Attributes:
        baseline_seconds: Median of the N-iteration means before the recent N; NaN until there are 2 N iterations.
        recent_seconds: Mean of the recent N, pauses cut to twice what is usual unless ``standing``; NaN before.
        ratio: Rise of recent over baseline, 0.28 = 28 % slower; NaN before.
        standing: The rise passed both tests for N/2 iterations and still does.
    """

    baseline_seconds: float
    recent_seconds: float
    ratio: float
    standing: bool


class Detector:
    """Takes one period after the other and says whether the iteration time has degraded."""

    def __init__(self, recent: int = 50, ratio: float = 0.05) -> None:
        self._n = recent
        self.ratio = ratio
        self._block = max(1, recent // 5)
        self._sums: deque[float] = deque([0.0], maxlen=recent + 1)
        self._whole: deque[float] = deque(maxlen=recent)
        self._blocks: deque[tuple[float, float, float]] = deque()
        self._block_sum = self._block_longest = 0.0
        self._means: deque[tuple[float, float]] = deque()
        self._elapsed = 0.0
        self._held = 0
        self._blocks_to_wait = 0
        self._baseline = self._usual_longest = float("nan")
        self._error = float("inf")
        self.count = 0
        self.level = Level(float("nan"), float("nan"), float("nan"), False)

    def add(self, period_seconds: float) -> Level:
        """Take the next timed iteration; return the level after it."""
        self.count += 1
        self._elapsed += period_seconds
        self._whole.append(period_seconds)
        known = self._baseline == self._baseline
        most = MOST_OF_BASELINE * self._baseline
        if self._usual_longest > most:
            most = MOST_OF_LONGEST * self._usual_longest
        weight = min(period_seconds, most) if known else period_seconds
        self._sums.append(self._sums[-1] + weight)
        self._block_sum += weight
        self._block_longest = max(self._block_longest, period_seconds)
        if self.count >= self._n and self.count % self._block == 0:
            self._means.append((self._elapsed, self._recent()))
        if self.count % self._block == 0:
            self._blocks.append((self._elapsed, self._block_sum / self._block, self._block_longest))
            self._block_sum = self._block_longest = 0.0
            self._forget()
            self._remember()
        if self.count >= 2 * self._n:
            self.level = self._judge()
        return self.level

    @property
    def mean_seconds(self) -> float:
        """Mean of the latest N periods, or of those that there are; NaN without one."""
        return sum(self._whole) / len(self._whole) if self._whole else float("nan")

    @property
    def recent_seconds(self) -> float:
        """The recent iteration time; never one iteration's alone: many are short and few are long. NaN without any."""
        recent = self.level.recent_seconds
        return recent if recent == recent else self.mean_seconds

    @property
    def pace_seconds(self) -> float:
        """What the next iterations will take: of the recent N half may be from before the job became slower."""
        half = self._n // 2
        if len(self._sums) <= half:
            return self.recent_seconds
        return max(self.recent_seconds, (self._sums[-1] - self._sums[-1 - half]) / half)

    def _recent(self) -> float:
        return (self._sums[-1] - self._sums[0]) / self._n

    def _forget(self) -> None:
        keep = HISTORY_ITERATIONS // self._block
        for history in (self._means, self._blocks):
            while len(history) > keep and (
                self._elapsed - history[0][0] > HISTORY_SECONDS or len(history) > MOST_MEANS
            ):
                history.popleft()

    def _remember(self) -> None:
        """Work baseline and error out anew; once a block, and once in 100 where there are many: they hardly move.

        0.2 ms for 1,000 iterations, 5 ms for the 360,000 of 5 ms that make 30 minutes.
        """
        self._blocks_to_wait -= 1
        if self._blocks_to_wait > 0:
            return
        self._blocks_to_wait = len(self._means) // 100
        delay = self._n // self._block
        older = np.array([mean for _, mean in self._means])[: max(1, len(self._means) - delay)]
        if older.size:
            self._baseline = float(np.median(older))
            longest = np.array([longest for _, _, longest in self._blocks])[: max(1, len(self._blocks) - delay)]
            self._usual_longest = float(np.median(longest))
            self._error = self._standard_error(delay)

    def _judge(self) -> Level:
        recent = self._recent()
        rise = recent - self._baseline
        significant = rise > max(self.ratio * self._baseline, STANDARD_ERRORS * self._error)
        self._held = self._held + 1 if significant else 0
        standing = self._held >= self._n // 2
        shown = self.mean_seconds if standing else recent
        return Level(self._baseline, shown, shown / self._baseline - 1, standing)

    def _standard_error(self, delay: int) -> float:
        """Return the standard error of an N-mean, from means of blocks before the recent N.

        Iterations are autocorrelated, so that independent errors are too small (stretches that are slow) or too large
        (every fourth waits for the loader): N/5 is taken alone until there are 5 N, and N alone from 10 N on. Spread is
        taken from differences of neighbours (von Neumann 1941), which one past change of level moves little; those of N
        begin at each N/5, since few of them say little (overlapping Allan variance, Howe et al. 1981).
        """
        blocks = np.array([mean for _, mean, _ in self._blocks])[: len(self._blocks) - delay]
        errors = []
        if len(blocks) < 10 * delay:
            errors.append(_deviation_of_neighbours(blocks) / delay**0.5)
        if len(blocks) >= 5 * delay:
            errors.append(_deviation_of_neighbours(np.convolve(blocks, np.full(delay, 1 / delay), "valid"), delay))
        return float(max(errors))


def _deviation_of_neighbours(values: NDArray[np.float64], apart: int = 1) -> float:
    """Return the standard deviation of ``values`` [n] from differences of those ``apart``; infinite for under 3."""
    if len(values) < 3 * apart:
        return float("inf")
    return float(np.sqrt(np.mean((values[apart:] - values[:-apart]) ** 2) / 2))
