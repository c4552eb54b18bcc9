"""Culprit or victim: takes a scene and its culprits, gives the gap in waiting, the impact and who waits for whom.

In a symmetric collective the worker that waits least is the one the others wait for. That confirms a finding and
never makes one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from eroica_otel.localize.columns import Bools
from eroica_otel.localize.compare import median
from eroica_otel.localize.impact import held_up
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.seconds import totals
from eroica_otel.model import Victims


@dataclass(frozen=True, slots=True)
class Blame:
    """What the waiting says about one group of culprits.

    Attributes:
        gap: Median waiting of the peers that are no culprits minus the culprits' own, seconds per iteration; NaN where
            nothing waits or no peer is left.
        confirms: Whether the gap is beyond noise.
        impact: What the job would gain: the smaller of gap and excess, less what hid behind waiting before, never below
            0; the excess where no gap can be known.
        behind: The same with what hid.
    """

    gap: float
    confirms: bool
    impact: float
    behind: float


def blame(scene: Scene, workers: Sequence[int], excess: float, culprits: Collection[int]) -> Blame:
    """Return the blame of ``workers`` for ``excess`` seconds; ``culprits`` are those of all findings of the window."""
    gap, noise = _gap(scene, workers, culprits)
    if not math.isfinite(gap):
        return Blame(math.nan, False, max(excess, 0.0), max(excess, 0.0))
    policy = scene.policy
    share = gap / scene.iteration
    steady = share >= policy.gap_least_ratio and gap >= policy.gap_errors * noise
    behind = min(gap, excess)
    impact = max(held_up(scene, workers, behind, culprits), 0.0)
    return Blame(gap, share >= policy.gap_ratio or steady, impact, max(behind, 0.0))


def _gap(scene: Scene, workers: Sequence[int], culprits: Collection[int]) -> tuple[float, float]:
    """Gap of the culprit that waits least for its own role's sake, and the noise of the waiting (NaN unknown)."""
    healthy = scene.of_roles(workers) & ~scene.mask(culprits)
    peers = median(scene.waiting[healthy])
    if (
        not healthy.any()
        or peers + float(scene.waiting[list(workers)].max()) < scene.policy.gap_least_ratio * scene.iteration
    ):
        return math.nan, math.nan
    return peers - float(scene.waiting[list(workers)].min()), median(scene.waiting_noise[healthy])


def victims_of(scene: Scene, workers: Sequence[int], gap: float, culprits: Collection[int]) -> Victims | None:
    """Return the workers that wait longer than the culprits by more than half of the gap, of their process groups where
    these are known; None without any.
    """
    if not gap > 0:
        return None
    bound = float(scene.waiting[list(workers)].min()) + scene.policy.victim_ratio * gap
    waiting = (scene.waiting > bound) & ~scene.mask(culprits) & together(scene, workers)
    if not waiting.any():
        return None
    named = scene.columns.named
    return Victims(named(waiting), waits_in(scene, waiting), tuple(sorted(named(workers))))


def together(scene: Scene, workers: Collection[int]) -> Bools:
    """Return who is in a process group with one of these workers, all where the groups of these are not known, [W]."""
    calls = scene.columns.calls
    named = np.asarray(~calls.group.among(("",)), bool)
    mine = named & np.isin(calls.worker, list(workers))
    if not mine.any():
        return np.ones(scene.size, bool)
    members = named & np.isin(calls.group.codes, calls.group.codes[mine])
    return scene.mask(np.unique(calls.worker[members]).tolist())


def waits_in(scene: Scene, workers: Bools) -> str:
    """Return the name of the communication function in which these workers spend most time, else of the wait frame,
    "" without.
    """
    found: list[tuple[bool, float, str]] = []
    for key, functions in scene.columns.groups.items():
        first = scene.columns.functions[functions[0]]
        if key[0] == "function" and (first.kind == "communication" or first.family == "wait"):
            seconds = float(np.median(totals(scene.columns, key)[workers]))
            found.append((first.kind == "communication" and seconds > 0, seconds, first.name))
    return max(found, default=(False, 0.0, ""))[2]
