"""Which process groups of a worker are shown where there are more than its series may hold. Pure."""

from __future__ import annotations

from collections.abc import Mapping

OF_A_HANG = 64
"""Groups in the window of a hang, as many as a reader takes; two series each."""
STANDING = 8
"""Groups shown outside windows."""


def foremost(
    progress: Mapping[str, tuple[int, int | None]], most: int = OF_A_HANG
) -> dict[str, tuple[int, int | None]]:
    """Return ``most`` groups of (enqueued, completed), in their order: those in which something has not completed
    first, then those in which most was enqueued.

    A rank cannot know in which group the others miss it, and a group that is used much is more likely that one.
    """
    if len(progress) <= most:
        return dict(progress)
    kept = set(sorted(progress, key=lambda group: _weight(*progress[group]), reverse=True)[:most])
    return {group: counts for group, counts in progress.items() if group in kept}


def left_out(groups: int) -> int:
    """Return how many of a worker's groups the window of a hang does not hold."""
    return max(0, groups - OF_A_HANG)


def _weight(enqueued: int, completed: int | None) -> tuple[bool, int]:
    return completed is not None and completed < enqueued, enqueued
