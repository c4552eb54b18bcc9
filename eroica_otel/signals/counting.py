"""Which optimizer is counted next: the training replaces the counted one, or only interrupts it. Pure."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

LOST_AFTER = 32
"""Updates of one other optimizer, with none of the counted one between them, after which the other one is counted.

More than the updates of a critic between two of its generator, and of a probe that one rank trains on the side."""


class Successors:
    """Who else has updated since the counted optimizer's latest update, and how often.

    The rule depends on events alone, never on when an object dies or which address it has: all ranks change at the
    same update.
    """

    def __init__(self) -> None:
        self._at = 0
        self._runs: dict[int, tuple[Callable[[], Any], int]] = {}

    def succeeds(self, optimizer: Any, steps: int) -> bool:
        """Take one update of another optimizer at the count ``steps``; return whether it is to be counted from now."""
        if steps != self._at:
            self._runs.clear()
            self._at = steps
        key = id(optimizer)
        reference, count = self._runs.get(key, (None, 0))
        if reference is None or reference() is not optimizer:  # another one had this address before
            reference, count = _reference(optimizer), 0
        self._runs[key] = (reference, count + 1)
        return count + 1 >= LOST_AFTER


def _reference(optimizer: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(optimizer)
    except TypeError:  # a class with __slots__
        return lambda: optimizer
