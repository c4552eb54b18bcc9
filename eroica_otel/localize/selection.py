"""Which workers of a table can be judged: takes a table, gives rows, and notes on those that are left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eroica_otel.localize.columns import ranks_text
from eroica_otel.table import Ints, Workers


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Rows by rank: windows that can be compared (iterations > 0), all that are sound, one per rank whatever their
    length; ranks that were seen, and what is to be said about the others.
    """

    judged: Ints
    sound: Ints
    single: Ints
    seen: Ints
    notes: tuple[str, ...]


def select(workers: Workers) -> Selection:
    """Return the rows of one window id that can be judged; duplicates of a rank are named and left out."""
    notes: list[str] = []
    ids, sizes = np.unique(workers.window_id, return_counts=True)
    newest = int(max(zip(sizes, ids, strict=True))[1]) if ids.size else 0
    current = np.flatnonzero(workers.window_id == newest)
    if current.size < len(workers):
        notes.append(f"{len(workers) - current.size} reports belong to another window than {newest} and are not judged")
    seen, counts = np.unique(workers.rank[current], return_counts=True)
    if (counts > 1).any():
        twice = ranks_text(seen[counts > 1])
        notes.append(f"{twice} reported more than once under one identity and is not judged")
    ordered = current[np.argsort(workers.rank[current], kind="stable")]
    single = ordered[counts[np.searchsorted(seen, workers.rank[ordered])] == 1]
    length = workers.seconds[single]
    usable = np.isfinite(length) & (length > 0)
    if not usable.all():
        notes.append(
            f"{ranks_text(workers.rank[single[~usable]])} reported no usable length of the window and is not judged"
        )
    sound = single[usable]
    moved = workers.iterations[sound] > 0
    if moved.any() and not moved.all():
        notes.append(
            f"{ranks_text(workers.rank[sound[~moved]])} finished no iteration in the window, so times per iteration "
            "cannot be compared"
        )
    return Selection(sound[moved], sound, single, seen, tuple(notes))
