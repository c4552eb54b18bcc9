"""Which window a blocked window belongs to: takes a window and those of its job that came lately, gives an id.

A blocked window has no decider: ranks that cannot talk (frozen, stopped, the store silent) open their own, and their
clocks may be an hour apart. What belongs together came together, so the time of arrival decides, never an id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eroica_otel.model import Identity, WorkerWindow

TOGETHER_SECONDS = 60.0
"""A blocked window that comes within this time of the first one of a hang is of the same hang."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A blocked window of the job: when its first part came, who has reported it, and one of those."""

    first: float
    ranks: frozenset[int]
    one: Identity


def window_id_of(window: WorkerWindow, earlier: Mapping[int, Earlier], now: float) -> int:
    """Return the id under which a window is kept: that of the latest hang that it is part of, else its own.

    A rank that reports a hang twice reports two. Where runs differ, so do hangs.
    """
    if window.reason != "blocked" or window.window_id in earlier:
        return window.window_id
    joined = [window_id for window_id, each in earlier.items() if _fits(window.identity, each, now)]
    return joined[-1] if joined else window.window_id


def _fits(who: Identity, each: Earlier, now: float) -> bool:
    recent = now - each.first <= TOGETHER_SECONDS
    same_run = not (who.run_id and each.one.run_id) or (who.run_id, who.restart) == (each.one.run_id, each.one.restart)
    return recent and same_run and who.rank not in each.ranks
