"""Do all ranks mean the same iteration by one number? Pure; clocks of other machines play no part.

Ranks of a synchronous job are at most one update apart, but what is compared are standings, written and read once a
second each: one that is 3 s old is 600 updates of 5 ms behind. So a difference counts when it is larger than what a
rank does in STALE_SECONDS, and stays so over polls in which the other rank's number moves. Two ranks that count
differently stay apart for ever, a late standing does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from eroica_otel.agree.window import Standing

STALE_SECONDS = 10.0
"""Three seconds are usual (written, published and read once a second each); a busy machine takes longer, and an
iteration time is not known better than to a factor of two at first."""
POLLS = 3
SILENT_SECONDS = 10.0
MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Meant:
    """What a poll makes of the other ranks' numbers.

    Attributes:
        heard: Ranks whose standings count; one whose number stands still while the others go on does not report.
        undecided: A difference is there, and the next polls will tell which kind it is.
        apart: Who is where, in words, when ranks mean different iterations by one number; "" else.
    """

    heard: tuple[Standing, ...]
    undecided: bool
    apart: str


@dataclass(slots=True)
class _Far:
    first: int
    since: float
    polls: int = 0


class Apart:
    """Remembers from poll to poll which ranks were far from this one."""

    def __init__(self) -> None:
        self._far: dict[int, _Far] = {}

    def judge(self, own: Standing, others: Iterable[Standing], now_seconds: float) -> Meant:
        """Compare the others' numbers with this rank's own; ``now_seconds`` is this process' monotonic clock."""
        heard, apart, undecided = [], [], False
        for other in others:
            verdict = self._one(own, other, now_seconds)
            if verdict != "silent":
                heard.append(other)
            if verdict == "apart":
                apart.append(other)
            undecided |= verdict == "undecided"
        return Meant(tuple(heard), undecided, _words(own, apart) if apart else "")

    def _one(self, own: Standing, other: Standing, now: float) -> str:
        if abs(own.iteration - other.iteration) <= allowance(own, other):
            self._far.pop(other.rank, None)
            return "together"
        far = self._far.setdefault(other.rank, _Far(other.iteration, now))
        far.polls += 1
        if other.iteration == far.first:
            patience = max(SILENT_SECONDS, POLLS * other.period_seconds)
            return "silent" if now - far.since > patience else "undecided"
        return "apart" if far.polls >= POLLS else "undecided"


def allowance(own: Standing, other: Standing) -> int:
    """Return how far two standings of ranks that are at one iteration may be apart, in updates.

    The slower rank's time counts: updates that only one rank makes are fast, and would hide themselves.
    """
    period = max(own.period_seconds, other.period_seconds, 1e-6)
    return 1 + math.ceil(STALE_SECONDS / period)


def _words(own: Standing, apart: list[Standing]) -> str:
    named = ", ".join(f"rank {one.rank} is at {one.iteration}" for one in [own, *apart[:MOST_NAMED]])
    more = f" and {len(apart) - MOST_NAMED} more" if len(apart) > MOST_NAMED else ""
    return (
        f"ranks count iterations differently ({named}{more}), so they would profile different ones: some ranks make "
        "updates that others do not, or call instrument() at another point of the training"
    )
