"""Cases of one fault -> one case: takes the cases of a stage, gives those that are to be told.

A fault of the worker shows in whatever runs on it, so its cause can turn out to be that of two cases: one finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from eroica_otel.localize.causes import BY_NAME, Cause
from eroica_otel.localize.evidence import with_signs
from eroica_otel.localize.findings import function_of
from eroica_otel.localize.impact import loss
from eroica_otel.localize.pipeline import CAUSE, is_stage
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.stages import Case


def one_each(scene: Scene, cases: Sequence[Case]) -> list[Case]:
    """Return one case for each fault, with all that its workers lose by it where it is the only one of theirs."""
    counts = Counter(worker for case in cases for worker in case.workers)
    found: list[Case] = []
    for case in cases:
        alone = case.workers and max(counts[worker] for worker in case.workers) == 1
        same = None if alone else next((at for at, other in enumerate(found) if _one_fault(scene, other, case)), None)
        if same is None:
            found.append(case)
        else:
            found[same] = _joined(found[same], case, _shown(scene, case))
    counts = Counter(worker for case in found for worker in case.workers)
    return [_as_stage(scene, _whole(scene, case, counts)) for case in found]


def _one_fault(scene: Scene, one: Case, other: Case) -> bool:
    """Whether both turn out to have one cause of the same workers."""
    shared = set(one.workers) & set(other.workers) or not (one.workers or other.workers)
    if not shared:
        return False
    cause = _shown(scene, one)
    return cause.worker_wide and cause == _shown(scene, other)


def _shown(scene: Scene, case: Case) -> Cause:
    return with_signs(scene, case, function_of(scene, case.judgement, case.workers))[0].cause


def _joined(one: Case, other: Case, cause: Cause) -> Case:
    """The larger stands for both: of one moment a function or another is charged, so what they lose adds up."""
    larger, smaller = (one, other) if one.excess >= other.excess else (other, one)
    return replace(
        larger,
        cause=cause,
        workers=tuple(sorted({*one.workers, *other.workers})),
        excess=one.excess + other.excess,
        beside=(*larger.beside, smaller.judgement, *smaller.beside),
    )


def _whole(scene: Scene, case: Case, counts: Counter[int]) -> Case:
    """The only case of its workers stands for all that they do more than their peers."""
    if case.changed or max(counts[worker] for worker in case.workers) > 1:
        return case
    return replace(case, excess=loss(scene, case.workers, case.excess, case.cause.name))


def _as_stage(scene: Scene, case: Case) -> Case:
    """A case of all workers of one pipeline stage is about the stage."""
    stage = not case.changed and is_stage(scene, case.judgement, case.workers)
    return replace(case, cause=BY_NAME[CAUSE]) if stage else case
