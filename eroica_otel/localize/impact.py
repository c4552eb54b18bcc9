"""What an iteration would gain if the culprits were as their peers are: takes a scene and who it is about, gives
seconds. Checked against simulated trainings (bench/counterfactual.py).

A culprit's own work above its peers' is all that can be gained. Less is, where it had waited before: in a bubble of the
pipeline, for whoever comes last by chance, for a root that sends. What its peers now wait longer is what it really
holds them up by.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from eroica_otel.localize.compare import median
from eroica_otel.localize.scene import Scene

LACKS_CORE = ("cpu_starved", "cpu_contention")
"""Causes of which time without a core is a part, and no other fault."""


def loss(scene: Scene, workers: Sequence[int], excess: float, cause: str) -> float:
    """Return the own work, in all functions, of the worst of these workers above its peers; at least ``excess``.

    A finding names one function, but a slow GPU or a lack of cores makes others longer too, each by less than would be
    material. Time without a core counts where that is the cause.
    """
    above = scene.own_excess if cause in LACKS_CORE else scene.own_excess - scene.lost_excess
    most = float(above[list(workers)].max())
    return max(most, excess) if math.isfinite(most) else excess


def held_up(scene: Scene, workers: Sequence[int], seconds: float, culprits: Collection[int]) -> float:
    """Return what of ``seconds`` of own work above the peers' held them up: what is new since the reference by no more
    than they wait longer now, the rest whole.

    It is all of it without a reference, with another culprit (the peers may have waited for that one before), and
    where they wait less than before, so that the reference was not as calm.
    """
    if scene.reference is None or set(culprits) != set(workers):
        return seconds
    others = ~scene.mask(workers)
    peers = scene.of_roles(workers) & others
    growth = median(scene.waiting_growth[peers if peers.any() else others])
    new = float(scene.own_growth[list(workers)].max())
    calm = growth >= -scene.policy.drift_small_ratio * scene.policy.material_ratio * scene.iteration
    if not (calm and math.isfinite(new)):
        return seconds
    return min(seconds, seconds - min(max(new, 0.0), seconds) + max(growth, 0.0))
