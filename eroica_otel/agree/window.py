"""Which iterations do all workers profile? Pure rules over what each rank says of itself; first come, first agreed.

Each rank writes its Standing once a second. A rank that wants a window reads all standings and, when enough want the
same, proposes one; the store keeps the first proposal. No clock is compared: a window is a range of iterations.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from eroica_otel.model import REASONS, Window

LEAD_SECONDS = 3.0
"""Between proposal and start: a standing is up to 1 s old, and every rank must have polled once more."""
LATE_MOST = 3
"""Windows heard of too late that double the lead, and that bring another reference."""
FEWEST_ITERATIONS = 2
LONGER = 1.25
"""Times the wanted length that a window may last before it is ended earlier."""
ENOUGH_ITERATIONS = 16
"""Fewer say little about a change (docs/method.md), so that no window is ended before these."""
REFERENCE_PATIENCE_SECONDS = 60.0
MANUAL_PATIENCE_SECONDS = 10.0
"""A rank that begins reports some seconds after the first one; one that never learns its loop never does."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What one rank says of itself.

    Attributes:
        rank: Its rank.
        iteration: Updates so far.
        period_seconds: Its recent iteration time.
        most_iterations: Longest window that its event budget and memory allow, in iterations.
        wants: Reason of the window it wants, "" for none.
        wants_since_seconds: How long it has wanted it.
        windows: Windows it had taken when it said so; a wish from before a window is no wish for the next.
        late: Windows it heard of when they were over: the next one shall leave more time.
        steady: Whether its training goes on at its usual pace, so that a periodic window shows what is usual.
    """

    rank: int
    iteration: int
    period_seconds: float
    most_iterations: int
    wants: str = ""
    wants_since_seconds: float = 0.0
    windows: int = 0
    late: int = 0
    steady: bool = True

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Standing:
        return cls(**json.loads(data))


def window_to_bytes(window: Window) -> bytes:
    return json.dumps(asdict(window)).encode()


def window_from_bytes(data: bytes) -> Window:
    return Window(**json.loads(data))


def wanted(standings: Iterable[Standing], world_size: int) -> str:
    """Return the reason that enough ranks stand for now, "" for none.

    manual: one is enough; ranks that do not report yet are waited for, but not for long.
    degraded: half of the ranks that report, because a slow rank slows all of a synchronous job.
    reference: all ranks, or half of those that report when one has waited for a minute, or one that was late for it.
    periodic: as manual, while all that report are steady and there is no other reason.
    """
    seen = list(standings)
    by_reason = {reason: [s for s in seen if s.wants == reason] for reason in REASONS}
    half = math.ceil(len(seen) / 2)
    if _one_is_enough(by_reason["manual"], len(seen), world_size):
        return "manual"
    if by_reason["degraded"] and len(by_reason["degraded"]) >= half:
        return "degraded"
    reference = by_reason["reference"]
    patient = any(s.wants_since_seconds >= REFERENCE_PATIENCE_SECONDS for s in reference)
    enough = len(reference) >= world_size or (patient and len(reference) >= half)
    if reference and (enough or any(s.late for s in reference)):
        return "reference"
    if _one_is_enough(by_reason["periodic"], len(seen), world_size) and all(s.steady for s in seen):
        return "periodic"
    return ""


def _one_is_enough(wishes: list[Standing], reporting: int, world_size: int) -> bool:
    if not wishes:
        return False
    return reporting >= world_size or max(s.wants_since_seconds for s in wishes) >= MANUAL_PATIENCE_SECONDS


def propose(standings: Iterable[Standing], reason: str, window_seconds: float, now_seconds: float) -> Window:
    """Return the window to propose: it starts after every rank has heard of it and fits every rank's budget.

    A rank that has no room for FEWEST_ITERATIONS does not shorten it for the others: it skips the window.

    Args:
        standings: Of the ranks that report; at least one.
        reason: One of model.REASONS.
        window_seconds: Wanted length.
        now_seconds: Unix time; becomes the window's id.
    """
    seen = list(standings)
    period = max(max(s.period_seconds for s in seen), 1e-6)
    lead = LEAD_SECONDS * 2 ** min(max(s.late for s in seen), LATE_MOST)
    start = max(s.iteration for s in seen) + math.ceil(lead / period) + 1
    fitting = [s.most_iterations for s in seen if s.most_iterations >= FEWEST_ITERATIONS]
    length = min([math.ceil(window_seconds / period), *fitting]) if fitting else FEWEST_ITERATIONS
    return Window(int(now_seconds), reason, start, start + max(FEWEST_ITERATIONS, length))


def nearer_stop(window: Window, steps: int, age_seconds: float, window_seconds: float) -> int:
    """Return the update at which a window that lasts longer than planned shall end, 0 where it may go on as it is.

    A profiler slows a worker with few cores down by more than half, and of the pace at which a window was planned some
    may be from before the job became slower. The answer comes once all ranks can just hear of it in time, not in the
    first half, since the first iterations under a profiler are the slowest.

    Args:
        window: The window that is being taken.
        steps: Updates so far.
        age_seconds: How long it has been taken.
        window_seconds: Wanted length.
    """
    done, left = steps - window.start, window_seconds - age_seconds
    if done < FEWEST_ITERATIONS or left > min(LEAD_SECONDS + 1, window_seconds / 2):
        return 0
    period = age_seconds / done
    if age_seconds + (window.stop - steps) * period <= LONGER * window_seconds:
        return 0
    stop = steps + math.ceil(max(LEAD_SECONDS, left) / period) + 1
    stop = max(stop, window.start + ENOUGH_ITERATIONS)
    return stop if stop < window.stop else 0


class Cooldown:
    """Rest between degraded windows; doubles while the next one finds the job just as slow as the last did."""

    def __init__(self, seconds: float) -> None:
        self.base_seconds = seconds
        self._seconds = seconds
        self._until = 0.0
        self._level: float | None = None

    def over(self, now_seconds: float) -> bool:
        return now_seconds >= self._until

    def begin(self, now_seconds: float, recent_seconds: float) -> None:
        """Start the rest after a degraded window taken at the iteration time ``recent_seconds``."""
        same = self._level is not None and abs(recent_seconds / self._level - 1) < 0.05
        self._seconds = min(self._seconds * 2, 24 * 3600.0) if same else self.base_seconds
        self._level = recent_seconds
        self._until = now_seconds + self._seconds

    def reset(self) -> None:
        """Forget the level, because the job has been healthy in between."""
        self._level = None
