"""What a change of the job brought: takes a scene with a reference, gives sentences. Nothing is decided here.

What one function takes less is not what an iteration gets shorter by: part of it had overlapped, part of it moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from eroica_otel.localize.compare import median
from eroica_otel.localize.scene import Scene, to_workers
from eroica_otel.localize.seconds import Key, totals
from eroica_otel.localize.wording import duration, percent

_NAMED = 3
_SAME = 0.005
"""Share of an iteration below which two runs took equally long."""


class _Change(NamedTuple):
    """One family on the median rank, seconds per iteration."""

    name: str
    before: float
    now: float

    @property
    def more(self) -> float:
        return self.now - self.before


def gains(scene: Scene) -> tuple[str, ...]:
    """Return what an iteration takes now and took before, and which families take much less; () without a reference."""
    if scene.reference is None:
        return ()
    return tuple(_sentences(scene))


def _sentences(scene: Scene) -> Iterator[str]:
    before, now = scene.reference_iteration, scene.iteration
    won = before - now
    if abs(won) < _SAME * before:
        yield f"an iteration takes {duration(now)}, as before"
        return
    word = "less" if won > 0 else "more"
    yield (
        f"an iteration takes {duration(now)}, {duration(before)} before: {duration(abs(won))} "
        f"({percent(abs(won) / before)}) {word}"
    )
    changes = sorted(_changes(scene), key=lambda change: change.more)
    least = scene.policy.material_ratio * before
    for change in changes[:_NAMED] if won > 0 else []:
        if -change.more >= least:
            yield _less(change, won, changes)


def _less(change: _Change, won: float, changes: Sequence[_Change]) -> str:
    text = f"{change.name} takes {duration(change.now)} an iteration, {duration(change.before)} before"
    lost = -change.more - won
    if lost <= 0.1 * -change.more:
        return text
    longer = [one for one in reversed(changes) if one.more >= 0.05 * -change.more][:_NAMED]
    where = ", ".join(f"{one.name} {duration(one.more)} more" for one in longer)
    elsewhere = f"; longer now: {where}" if where else ""
    return f"{text}; of these {duration(-change.more)} an iteration keeps {duration(won)}{elsewhere}"


def _changes(scene: Scene) -> Iterator[_Change]:
    """Yield each family of now and of before, and the time in which nothing ran."""
    reference = scene.reference
    assert reference is not None
    keys: dict[Key, None] = {}
    for columns in (scene.columns, reference):
        keys |= dict.fromkeys(key for key in columns.groups if key[0] == "family")
    for key in keys:
        now = totals(scene.columns, key)
        before = to_workers(totals(reference, key), scene.position, scene.groups)
        yield _Change(_name(key), median(before), median(now))
    idle = [columns.workers.kinds.get("idle") for columns in (reference, scene.columns)]
    lengths = (scene.reference_iteration, scene.iteration)
    known = [each for each in idle if each is not None and not np.isnan(each).any()]
    if len(known) == len(idle):
        shares = [float(np.sort(each)[each.size // 2]) for each in known]
        yield _Change("idle time", *(share * length for share, length in zip(shares, lengths, strict=True)))


def _name(key: Key) -> str:
    """Return a family as people call it: "input", "launch (host)"."""
    kind, family = key[1:3]
    return family if kind in ("python", "communication") and family != "other" else f"{family} ({kind})"
