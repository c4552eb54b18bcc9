"""Stages of a pipeline where nobody named roles: takes a scene, gives which workers are one stage and what it costs.

A stage sends to and receives from others than the next one does, so its point-to-point functions are a set of its own.
Where all of one stage, and nobody else, compute for longer, the model is cut unevenly and no worker is bad.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from eroica_otel.localize.blame import Blame
from eroica_otel.localize.columns import Bools, Columns, Floats, ranks_text
from eroica_otel.localize.compare import median
from eroica_otel.localize.excess import Judgement
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.wording import between

CAUSE = "pipeline_imbalance"


def is_stage(scene: Scene, judgement: Judgement, workers: Sequence[int]) -> bool:
    """Return whether these workers, all alike, are one stage of a pipeline and compute for longer than the others."""
    if judgement.kind != "compute" or len(workers) < 2 or len(scene.roles.distinct(workers)) > 1:
        return False
    sets = _exchanges(scene.columns)
    mine = sets[workers[0]]
    whole = sets == mine
    if not mine or whole.all() or not np.array_equal(whole, scene.mask(workers)):
        return False
    excess = judgement.excess[list(workers)]
    return float(excess.min()) >= scene.policy.explains_ratio * float(excess.max())


def stage_blame(scene: Scene, workers: Sequence[int], excess: float) -> Blame:
    """Return what the other stages' lack of work says about this one; in a pipeline who waits is idle or receives."""
    idle = _slack(scene)
    others = _others(scene, workers)
    gap = median(idle[others]) - float(idle[list(workers)].min())
    confirms = gap >= scene.policy.gap_ratio * scene.iteration
    impact = max(min(gap, excess), 0.0)
    return Blame(gap, confirms, impact, impact)


def stage_evidence(scene: Scene, workers: Sequence[int]) -> tuple[str, ...]:
    """Say that they are one stage, and how long the others have nothing to do."""
    ranks = scene.columns.named(workers)
    idle, others = _slack(scene), _others(scene, workers)
    return (
        f"{ranks_text(ranks)} send and receive as no other rank does, so they are one stage of a pipeline, and all of "
        "them take that long: it is how the model is cut, no bad worker",
        f"the other stages wait or have no work for {between(idle[others])} of an iteration, "
        f"this one for {between(idle[list(workers)])}",
    )


def _exchanges(columns: Columns) -> NDArray[np.uint64]:
    """Return a number for the set of names of each worker's point-to-point functions, equal for equal sets, 0 for none;
    [W]. It is the sum of the names' hashes.
    """
    result = np.zeros(len(columns.workers), np.uint64)
    for key, functions in columns.groups.items():
        if key[0] == "name" and key[1:3] == ("communication", "point_to_point"):
            number = int.from_bytes(hashlib.blake2b(key[3].encode(errors="replace"), digest_size=8).digest(), "little")
            result[columns.have(functions)] += np.uint64(number)
    return result


def _others(scene: Scene, workers: Collection[int]) -> Bools:
    return ~scene.mask(workers)


def _slack(scene: Scene) -> Floats:
    """Seconds per iteration in which a worker waits or does nothing, [W]."""
    idle = scene.columns.workers.kinds.get("idle", np.zeros(scene.size)).astype(np.float32)
    return np.asarray(scene.waiting + np.nan_to_num(idle) * scene.columns.iteration, np.float32)
