"""What the culprits' processes did on their hosts and their peers' did not: takes a scene, gives sentences of evidence.

It decides nothing: it says what somebody who looks at the node would see first, where it is out of the ordinary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from eroica_otel.localize.columns import Bools, Floats
from eroica_otel.localize.compare import median
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.wording import others_of, percent


class _Word(NamedTuple):
    """One reading: what is ordinary lies below ``least``, or is less than twice what peers have."""

    resource: str
    least: float
    text: str
    shown: Callable[[float], str]
    twice: bool = True


def _count(value: float) -> str:
    return f"{value:.0f}"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.0f} MB/s"


WORDS = (
    _Word("major_faults", 10.0, "waits for memory from disk: {} major page faults a second", _count),
    _Word("cgroup_memory", 0.95, "uses {} of its memory limit", percent, twice=False),
    _Word("cgroup_cpu", 0.9, "uses {} of its CPU quota", percent, twice=False),
    _Word("numa_away", 0.1, "runs on another NUMA node than usual for {} of the time", percent),
    _Word("process_disk_read", 50e6, "reads {} from disks", _megabytes),
    _Word("process_disk_write", 50e6, "writes {} to disks", _megabytes),
)
"""Thresholds are chosen: a training that has its memory and its core is far below them. What nears a limit is out of
the ordinary at any level of the peers below the threshold."""


def host_evidence(scene: Scene, workers: Sequence[int]) -> tuple[str, ...]:
    """Say what is out of the ordinary on the culprits and not on their peers; nothing where it is unknown."""
    mine, others = list(workers), others_of(scene, workers)
    texts = []
    for word in WORDS:
        value, theirs = median(_of(scene, mine, word.resource)), median(_of(scene, others, word.resource))
        most = value / 2 if word.twice else word.least
        if math.isfinite(value) and value >= word.least and not theirs >= most:
            peers = f", its peers {word.shown(theirs)}" if math.isfinite(theirs) else ""
            texts.append(f"{word.text.format(word.shown(value))}{peers}")
    return tuple(texts)


def _of(scene: Scene, workers: Sequence[int] | Bools, resource: str) -> Floats:
    seen = scene.columns.workers.host_use.get(resource)
    return np.zeros(0, np.float32) if seen is None else seen[workers].astype(np.float32)
