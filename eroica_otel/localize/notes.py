"""What is said beside the findings: takes a scene and what was found, gives sentences. Nothing is decided here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from eroica_otel.localize.columns import ranks_text
from eroica_otel.localize.distances import unlike
from eroica_otel.localize.excess import Judgement
from eroica_otel.localize.findings import function_of, long_enough
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.wording import duration, percent
from eroica_otel.model import Report


def few(base: Report) -> bool:
    """Return whether too few workers reported to say of all what holds of these."""
    return 2 * base.workers_seen <= base.workers_expected


def notes(
    scene: Scene, base: Report, grave: bool, judgements: Sequence[Judgement], undecided: Sequence[Judgement]
) -> Iterator[str]:
    """Say what limits the verdict, and why nothing was found where something should have been."""
    counts = scene.columns.workers.iterations
    least, most = int(counts.min()), int(counts.max())
    if least < most:
        who = ranks_text(scene.columns.ranks[counts < most])
        yield f"{who} profiled fewer iterations than the others ({least} of {most} at least)"
    incomparable = scene.reference is None and all(group.size == 1 for group in scene.groups)
    if scene.reference is None:
        yield from alone(scene)
    if undecided:
        unit = undecided[0]
        high = int((unit.material & unit.split).sum())
        differ, right = ("differs", "is right") if high == 1 else ("differ", "are right")
        yield (
            f"no consensus: {high} of {int(unit.split.sum())} ranks {differ} in {_unit_name(unit)} "
            f"and no reference says which {right}"
        )
    yield from _minority(scene, judgements, grave)
    if scene.reference is not None and not long_enough(scene):
        wanted = f"{scene.policy.drift_iterations:.0f}"
        yield f"fewer than {wanted} iterations in a window: changes against the reference are of low confidence"
    if few(base):
        seen = f"only {base.workers_seen} of {base.workers_expected} workers reported"
        yield f"not enough evidence: {seen}, so what changed on these may not have changed on all"
    elif base.reason in ("degraded", "blocked") and not (grave or undecided or incomparable):
        yield f"not enough evidence: {_degraded(scene)}{_absent(base)}"


def alone(scene: Scene) -> Iterator[str]:
    """Say who has nobody to be compared with, neither peers nor an earlier self."""
    single = sorted(int(group[0]) for group in scene.groups if group.size == 1)
    if len(single) == scene.size:
        who = "1 worker" if scene.size == 1 else f"{scene.size} workers, each of a role of its own,"
        yield f"cannot be judged: {who} and no reference"
    elif single:
        ranks = ranks_text(scene.columns.ranks[single])
        yield f"{ranks} has no peer of its role and no reference, so it is compared with nobody"


def _unit_name(unit: Judgement) -> str:
    return unit.name or unit.family or unit.kind or "their own work"


def _degraded(scene: Scene) -> str:
    if not math.isfinite(scene.growth):
        return "no rank differs from its peers and there is no reference window to compare with"
    change = percent(scene.growth / scene.reference_iteration)
    now = f"an iteration takes {duration(scene.iteration)} ({change} above the reference)"
    return f"{now} and no rank, link or function explains it"


def _absent(base: Report) -> str:
    if not base.missing_ranks:
        return ""
    return f"; who sent nothing ({ranks_text(base.missing_ranks)}) may be whom the others wait for"


def _minority(scene: Scene, judgements: Sequence[Judgement], grave: bool) -> Iterator[str]:
    """Fewer ranks do LESS than their peers: without a reference nobody can say that the many are wrong."""
    if grave or scene.reference is not None:
        return
    for unit in judgements:
        if unit.key[0] != "function" or unit.split.any() or not unit.lacking.any():
            continue
        fewer = unlike(scene, function_of(scene, unit, ()), unit.lacking)
        if fewer.any():
            less = f"{ranks_text(scene.columns.ranks[fewer])} spend far less time in {unit.name} than their peers"
            yield f"{less}; without a reference either may be right"


def one_iteration(scene: Scene) -> tuple[str, ...]:
    """Say why nobody is named; who has nobody to be compared with is told so already."""
    if scene.size > 1:
        what = "who waits for whom is inferred from one iteration, which is no evidence of a culprit"
    elif scene.reference is not None:
        what = "one iteration is no evidence of a change; profile more of them"
    else:
        return ()
    return (f"not enough evidence: {what}",)
