"""What each worker shows -> one case for each fault: takes the cases of a stage, gives those that are to be told.

What takes longer beside a fault is another fault, a symptom of the first, or the first once more: it shows in whatever
runs on the worker. Two faults each have time of their own; symptoms are parts of one whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from eroica_otel.localize.causes import BY_NAME, REFINABLE, Cause
from eroica_otel.localize.columns import Floats
from eroica_otel.localize.compare import by_group, median
from eroica_otel.localize.evidence import with_signs
from eroica_otel.localize.excess import Judgement
from eroica_otel.localize.findings import function_of
from eroica_otel.localize.impact import LACKS_CORE, loss
from eroica_otel.localize.pipeline import CAUSE, is_stage
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.seconds import OWN, Key, totals
from eroica_otel.localize.stages import Case

_NEVER_SECOND = ("unknown", "cpu_contention")

_Shown = Mapping[tuple[str, Key], Cause]
"""By first cause and unit what the signs of it show; not of causes that stay what they are."""


def of_workers(scene: Scene, found: Sequence[Sequence[Case]]) -> list[Case]:
    """Return one case for each fault, of what each worker shows that exceeds its peers."""
    shown = _shown(scene, [cases for cases in found if len(cases) > 1])
    kept = [_without_symptoms(cases, shown, scene.policy) for cases in found]
    if any(len(cases) > 1 for cases in kept):
        own = _own_work(scene, [case.workers[0] for cases in found for case in cases])
        kept = [_within_own_work(scene, own, cases, shown) for cases in kept]
    return _one_each(scene, _merged(case for cases in kept for case in cases))


def of_change(scene: Scene, cases: Sequence[Case]) -> list[Case]:
    """Return one case for each fault, of what changed on some workers, or on all."""
    shown = _shown(scene, [cases] if len(cases) > 1 else [])
    return _one_each(scene, _without_symptoms(cases, shown, scene.policy))


def _shown(scene: Scene, found: Iterable[Sequence[Case]]) -> _Shown:
    """Look up what the causes of cases turn out to be: once for all workers with the same, as it costs a look at all
    workers.
    """
    groups: dict[tuple[str, Key], list[Case]] = {}
    for cases in found:
        for case in cases:
            if case.cause.name in REFINABLE:
                groups.setdefault((case.cause.name, case.judgement.key), []).append(case)
    return {key: _with_signs(scene, _largest(group)).cause for key, group in groups.items()}


def _with_signs(scene: Scene, case: Case) -> Case:
    return with_signs(scene, case, function_of(scene, case.judgement, case.workers))[0]


def _largest(group: Sequence[Case]) -> Case:
    largest = max(group, key=lambda case: case.excess)
    return replace(largest, workers=tuple(sorted(worker for case in group for worker in case.workers)))


def _cause(case: Case, shown: _Shown) -> str:
    return shown.get((case.cause.name, case.judgement.key), case.cause).name


def _without_symptoms(cases: Sequence[Case], shown: _Shown, policy: Policy) -> list[Case]:
    ordered = sorted(cases, key=lambda case: (_cause(case, shown) in _NEVER_SECOND, -case.excess))
    return [case for at, case in enumerate(ordered) if at == 0 or _second(case, ordered[:at], shown, policy)]


def _second(case: Case, before: Sequence[Case], shown: _Shown, policy: Policy) -> bool:
    """Whether a further case of the same workers can be a fault of its own and need not be a symptom of the first."""
    cause = _cause(case, shown)
    # Of kernels it is known that nothing of a CPU makes them longer, though not what does.
    alone = cause == "unknown" and _by_device(case) and not any(map(_by_device, before))
    other = cause not in {_cause(earlier, shown) for earlier in before}
    again = case.cause.name in {earlier.cause.name for earlier in before}
    return (
        (alone or cause not in _NEVER_SECOND)
        and (other or not again)
        and case.judgement.key[0] in ("function", "name")
        and case.excess >= policy.second_ratio * before[0].excess
    )


def _by_device(case: Case) -> bool:
    """Whether these are kernels that take longer than those of the peers."""
    unit = case.judgement
    return unit.kind == "compute" and not case.changed and not np.isfinite(unit.now.on).any()


def _own_work(scene: Scene, culprits: Sequence[int]) -> Floats:
    """Return by how much all own work of each worker exceeds its peers', of whom those without a fault count where that
    is more: another rank's fault must not hide this one's; seconds per iteration, [W].
    """
    own = totals(scene.columns, OWN)
    healthy = np.where(scene.mask(culprits), np.nan, own).astype(np.float32)
    usual = by_group(healthy, scene.groups, lambda group: np.full(group.shape, median(group), np.float32))
    return np.asarray(np.fmax(scene.own_excess, own - usual), np.float32)


def _within_own_work(scene: Scene, own: Floats, cases: Sequence[Case], shown: _Shown) -> list[Case]:
    """Return the cases of a worker whose excess is in what it works more than its peers; the others are of the first.

    What it does longer in two kinds and shorter in a third, or for want of a core that is taken off only once, is less
    than its parts: a further case counts where the whole holds those before and half of it.
    """
    kept: list[Case] = []
    for case in cases:
        need = sum(earlier.excess for earlier in kept) + scene.policy.second_ratio * case.excess
        if kept and _beyond_want_of_core(scene, own, (*kept, case), shown) < need:
            kept[0] = replace(kept[0], beside=(*kept[0].beside, case.judgement))
        else:
            kept.append(case)
    return kept


def _beyond_want_of_core(scene: Scene, own: Floats, cases: Sequence[Case], shown: _Shown) -> float:
    """Return the own work of the cases' worker above its peers', NaN unknown, without the time for which it had no
    core: as far as these cases may hold it, and where it is the cause of none.
    """
    (worker,) = cases[0].workers
    if any(_cause(case, shown) in LACKS_CORE for case in cases):
        return float(own[worker])
    idle = sum(_off_cpu(case.judgement, worker) for case in cases)
    return float(own[worker]) - min(float(scene.lost_excess[worker]), idle)


def _off_cpu(unit: Judgement, worker: int) -> float:
    """Return for how long above its peers a worker may have had no core in a unit; what a device times goes on."""
    on = float(unit.on_excess[worker])
    if math.isnan(on) and unit.kind != "python":
        return 0.0
    raw = float(unit.now.total[worker] - unit.peers[worker])
    return max(raw - max(float(np.nan_to_num(on)), 0.0), 0.0)


def _merged(cases: Iterable[Case]) -> list[Case]:
    """One fault, one case: the same function at several workers, or one cause of the worker whatever functions show
    it.
    """
    groups: dict[tuple[str, ...], list[Case]] = {}
    cases = list(cases)
    spread = {(case.cause.name, case.judgement.kind) for case in cases if case.judgement.key[0] == "kind"}
    for case in cases:
        key = case.judgement.key
        what = key[1:3] if key[0] in ("family", "kind") else (*key[1:3], case.judgement.name)
        if (case.cause.name, case.judgement.kind) in spread:  # on some ranks all functions of the kind show it
            what = key[1:2]
        groups.setdefault((case.cause.name, *(() if case.cause.worker_wide else what)), []).append(case)
    return [_beside(_largest(group), group) for group in groups.values()]


def _beside(case: Case, group: Sequence[Case]) -> Case:
    units = {unit.key: unit for each in group for unit in each.beside}
    return replace(case, beside=tuple(units.values()))


def _one_each(scene: Scene, cases: Sequence[Case]) -> list[Case]:
    """Return one case for each fault, with all that its workers lose by it where it is the only one of theirs."""
    counts = Counter(worker for case in cases for worker in case.workers)
    found: list[Case] = []
    for case in cases:
        alone = case.workers and max(counts[worker] for worker in case.workers) == 1
        known = case if alone else _with_signs(scene, case)
        same = next((at for at, other in enumerate(found) if _one_fault(other, known)), None)
        if same is None:
            found.append(known)
        else:
            found[same] = _joined(found[same], known)
    counts = Counter(worker for case in found for worker in case.workers)
    return [_as_stage(scene, _whole(scene, case, counts)) for case in found]


def _one_fault(one: Case, other: Case) -> bool:
    """Whether both turn out to have one cause of the same workers."""
    if not one.cause.worker_wide or one.cause != other.cause:
        return False
    return not set(one.workers).isdisjoint(other.workers) or not (one.workers or other.workers)


def _joined(one: Case, other: Case) -> Case:
    """The larger stands for both: of one moment a function or another is charged, so what they lose adds up."""
    larger, smaller = (one, other) if one.lost >= other.lost else (other, one)
    return replace(
        larger,
        workers=tuple(sorted({*one.workers, *other.workers})),
        whole=one.lost + other.lost,
        beside=(*larger.beside, smaller.judgement, *smaller.beside),
    )


def _whole(scene: Scene, case: Case, counts: Counter[int]) -> Case:
    """The only case of its workers stands for all that they do more than their peers."""
    if case.changed or max(counts[worker] for worker in case.workers) > 1:
        return case
    return replace(case, whole=loss(scene, case.workers, case.lost, case.cause.name))


def _as_stage(scene: Scene, case: Case) -> Case:
    """A case of all workers of one pipeline stage is about the stage."""
    stage = not case.changed and is_stage(scene, case.judgement, case.workers)
    return replace(case, cause=BY_NAME[CAUSE]) if stage else case
