"""Rings as a node agent leaves them in a shared folder: resources, rows of values and a heartbeat, with defaults."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from eroica_hardware.rings import KeptRing
from eroica_otel.hardware.shared import open_folder
from eroica_otel.hardware.source import Resource

GPU = "GPU-11111111-2222-3333-4444-555555555555"
MS = 1_000_000


def resource(name: str, device: str = GPU, unit: str = "%", peak: float = 100.0, counter: bool = False) -> Resource:
    return Resource(name, device, unit, peak, counter)


def leave(
    folder: Path,
    family: str,
    resources: Sequence[Resource],
    rows: Sequence[tuple[int, Sequence[float]]],
    now: int | None = None,
    ended: bool = False,
) -> KeptRing:
    """Write rows (monotonic ns, values) as the agent would, alive at ``now`` (this moment by default), or ``ended``."""
    ring = KeptRing(open_folder(folder), family, slots=1 << 13)
    beat = time.monotonic_ns() if now is None else now
    ring.prepare(tuple(resources), rows[0][0] if rows else beat)
    for when, values in rows:
        ring.append(when, values)
    ring.alive(beat)
    if ended:
        ring.close()
    return ring


def every(step_ms: float, start: int, end: int, *values: float, rise: bool = False) -> list[tuple[int, list[float]]]:
    """Return rows from start to end; of counters (``rise``) the values are what they rise by a second."""
    step = round(step_ms * MS)
    times = range(start, end + 1, step)
    return [(t, [v * (t - start) / 1e9 if rise else v for v in values]) for t in times]
