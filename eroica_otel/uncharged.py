"""What a reader should know of trace events of a category that nobody knows: takes windows, gives a sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eroica_otel.model import WorkerWindow

OTHERS = "others"
"""Stands for all categories that a worker does not name."""
_NAMED = 6


def uncharged(windows: Iterable[WorkerWindow]) -> tuple[str, ...]:
    """Return the sentence on the time of all workers in such events; () where there are none.

    How many they are is told where every window knows it: series carry the time alone.
    """
    counts: dict[str, int | None] = {}
    seconds: dict[str, float] = {}
    for window in windows:
        for category, (count, time) in window.unknown.items():
            before = counts.get(category, 0)
            counts[category] = None if count is None or before is None else before + count
            seconds[category] = seconds.get(category, 0.0) + time
    return told(counts, seconds)


def told(counts: Mapping[str, int | None], seconds: Mapping[str, float]) -> tuple[str, ...]:
    """Return the sentence on these sums over workers, by category; () without any."""
    if not seconds:
        return ()
    longest = sorted(seconds, key=lambda category: (-seconds[category], category))[:_NAMED]
    listed = ", ".join(_one(category, counts[category], seconds[category]) for category in longest)
    known = [count for count in counts.values() if count is not None]
    who = (
        "events are" if len(known) < len(counts) else "1 event is" if sum(known) == 1 else f"{sum(known):,} events are"
    )
    return (f"{who} of a category that is not known here and charged to nothing: {listed}",)


def _one(category: str, count: int | None, seconds: float) -> str:
    number = "" if count is None else f" {count:,}"
    return f"{category}{number} ({1e3 * seconds:,.1f} ms)"
