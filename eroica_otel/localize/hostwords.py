"""What the culprits' processes did on their hosts and their peers' did not: takes a scene, gives sentences of evidence.

It decides nothing: it says what somebody who looks at the node would see first, where it is out of the ordinary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from eroica_otel.localize.columns import Bools, Columns, Floats
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


LINK_FALLS = 0.01
"""Falls of a link a second: one in a window of 100 s is out of the ordinary."""


def _count(value: float) -> str:
    return f"{value:.0f}"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.0f} MB/s"


def _a_minute(value: float) -> str:
    return f"{60 * value:.1f}"


WORDS = (
    _Word("major_faults", 10.0, "waits for memory from disk: {} major page faults a second", _count),
    _Word("cgroup_memory", 0.95, "uses {} of its memory limit", percent, twice=False),
    _Word("cgroup_cpu", 0.9, "uses {} of its CPU quota", percent, twice=False),
    _Word("numa_away", 0.1, "runs on another NUMA node than usual for {} of the time", percent),
    _Word("process_disk_read", 50e6, "reads {} from disks", _megabytes),
    _Word("process_disk_write", 50e6, "writes {} to disks", _megabytes),
    _Word("link_down", LINK_FALLS, "its network link went down: {} times a minute", _a_minute),
    _Word("process_cpu", 0.9, "", percent),
    _Word("gpu_slowdown", 0.1, "its GPU slows down by heat or its power supply for {} of the time", percent),
    _Word("gpu_power_cap", 0.1, "its GPU is held by its power limit for {} of the time", percent),
)
"""Thresholds are chosen: a training that has its memory and its core is far below them. What nears a limit is out of
the ordinary at any level of the peers below the threshold. What is no news by itself has no text."""


def host_evidence(scene: Scene, workers: Sequence[int]) -> tuple[str, ...]:
    """Say what is out of the ordinary on the culprits and not on their peers; nothing where it is unknown."""
    texts = []
    for word, value, theirs in _out_of_the_ordinary(scene, workers):
        if word.text:
            peers = f", its peers {word.shown(theirs)}" if math.isfinite(theirs) else ""
            texts.append(f"{word.text.format(word.shown(value))}{peers}")
    return tuple(texts)


def unusual(scene: Scene, workers: Sequence[int]) -> dict[str, float]:
    """Return the same as readings by resource, where those of the others are known; without workers, those of all
    beside the reference.
    """
    found = _out_of_the_ordinary(scene, workers)
    return {word.resource: value for word, value, theirs in found if math.isfinite(theirs)}


def reading(scene: Scene, workers: Sequence[int], resource: str) -> float:
    """Return the median of one reading of these workers, of all without any; NaN unknown."""
    return median(_of(scene.columns, list(workers) or slice(None), resource))


def _out_of_the_ordinary(scene: Scene, workers: Sequence[int]) -> Iterator[tuple[_Word, float, float]]:
    beside = scene.columns if workers else scene.reference
    others = others_of(scene, workers) if workers else slice(None)
    for word in WORDS:
        value = reading(scene, workers, word.resource)
        theirs = math.nan if beside is None else median(_of(beside, others, word.resource))
        most = value / 2 if word.twice else word.least
        if math.isfinite(value) and value >= word.least and not theirs >= most:
            yield word, value, theirs


def _of(columns: Columns, workers: Sequence[int] | Bools | slice, resource: str) -> Floats:
    seen = columns.workers.host_use.get(resource)
    return np.zeros(0, np.float32) if seen is None else seen[workers].astype(np.float32)
