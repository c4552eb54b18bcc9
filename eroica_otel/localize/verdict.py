"""The verdict on one window: takes WorkerWindows (and those of the reference), gives a Report.

The table of docs/method.md in its order: stopped, excess of a function, of a family or kind, slow links, change of
some ranks, change of all, communication grown without reason, D alone. The first that finds something above info ends
it. A window in which nothing moved has a table of its own (hang.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType

import numpy as np

from eroica_otel.localize.blame import Blame, victims_of, waits_in
from eroica_otel.localize.columns import Columns, Selection, columns_of, ranks_text, select
from eroica_otel.localize.detail import detail_of
from eroica_otel.localize.distances import unlike
from eroica_otel.localize.excess import Judgement, judge_units
from eroica_otel.localize.findings import culprit_finding, function_of, job_finding
from eroica_otel.localize.hang import is_hang, judge_hang
from eroica_otel.localize.jobwide import (
    communication_grown,
    contention_finding,
    expectation_finding,
    link_findings,
    stopped_finding,
)
from eroica_otel.localize.late import late_arrivals
from eroica_otel.localize.network import Network, network_of
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.presence import Presence
from eroica_otel.localize.roles import peer_roles
from eroica_otel.localize.scene import Scene, scene_of
from eroica_otel.localize.stages import Case, all_changed, excess_cases, no_consensus, some_changed
from eroica_otel.localize.stopped import lost_seconds
from eroica_otel.localize.wording import duration, percent
from eroica_otel.model import Finding, Report, Victims, WorkerWindow
from eroica_otel.uncharged import uncharged

_NOTHING_KNOWN: Mapping[int, Presence] = MappingProxyType({})
MISSING_NAMED = 1000
"""Missing ranks that a report lists."""


@dataclass(frozen=True, slots=True)
class _Found:
    findings: tuple[Finding, ...] = ()
    victims: tuple[Victims, ...] = ()

    @property
    def grave(self) -> bool:
        return any(finding.severity != "info" for finding in self.findings)


def judge(
    windows: Sequence[WorkerWindow],
    reference: Sequence[WorkerWindow] = (),
    *,
    expected: int,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    history: Sequence[Report] = (),
    presence: Mapping[int, Presence] = _NOTHING_KNOWN,
) -> Report:
    """Return the verdict on one window; never raises on what workers report, but says in notes what was left out.

    Args:
        windows: What arrived of one window, in any order.
        reference: What arrived of the job's healthy window; () without one.
        expected: Workers the job should have.
        history: Earlier verdicts of the job, oldest first; they tell rotating and chronic faults from new ones.
        presence: By rank what is known of it beside its window; needed where nothing moves.
    """
    selection = select(windows)
    if is_hang(selection.single, policy):
        base = _base(selection.single, selection, expected, selection.notes)
        return judge_hang(base, selection.single, select(reference).judged, presence, policy)
    history = [report for report in history if report.reason != "blocked"]
    columns, notes = columns_of(selection.judged)
    before, reference_notes = _reference(reference, selection, columns)
    lost = lost_seconds(selection.sound, policy)
    stopped = stopped_finding(selection.sound, lost, policy, history)
    skip = frozenset(w.identity.rank for w, seconds in zip(selection.sound, lost, strict=True) if seconds > 0)
    base = _base(
        windows, selection, expected, (*selection.notes, *notes, *reference_notes, *uncharged(selection.sound))
    )
    if not selection.judged:
        return _without_iterations(base, stopped)
    return _judged(base, scene_of(columns, before, peer_roles(columns, policy), policy), stopped, skip, history)


def _base(windows: Sequence[WorkerWindow], selection: Selection, expected: int, notes: tuple[str, ...]) -> Report:
    absent = (rank for rank in range(expected) if rank not in selection.seen)
    missing = tuple(islice(absent, MISSING_NAMED + 1))
    if len(missing) > MISSING_NAMED:
        missing = missing[:MISSING_NAMED]
        notes = (*notes, f"more than {MISSING_NAMED:,} ranks are missing; missing_ranks holds the first of them")
    first = min(selection.sound or tuple(windows), key=lambda w: w.identity.rank, default=None)
    return Report(
        training_job=first.identity.training_job if first else "",
        window_id=first.window_id if first else 0,
        reason=first.reason if first else "manual",
        workers_seen=len(selection.seen),
        workers_expected=expected,
        missing_ranks=missing,
        notes=notes,
    )


def _with(report: Report, **changes: object) -> Report:
    values = {name: getattr(report, name) for name in report.__dataclass_fields__}
    return Report(**{**values, **changes})


def _without_iterations(base: Report, stopped: Finding | None) -> Report:
    reason = (
        "no worker reported a usable window"
        if base.workers_seen == 0
        else "no rank finished an iteration in the window"
    )
    note = () if stopped else (f"not enough evidence: {reason}",)
    return _with(base, findings=(stopped,) if stopped else (), notes=(*base.notes, *note))


def _reference(
    windows: Sequence[WorkerWindow], selection: Selection, columns: Columns
) -> tuple[Columns | None, tuple[str, ...]]:
    """Columns of the reference, None where there is none or it is of another loop; a window is never its own
    reference.
    """
    chosen = select(windows).judged
    if not chosen or not selection.judged or chosen[0].window_id == selection.judged[0].window_id:
        return None, ()
    now = {w.signature for w in columns.windows if w.signature}
    then = {w.signature for w in chosen if w.signature}
    if now and then and not now & then:
        return None, ("the reference belongs to another training loop and is not used",)
    if max(w.identity.world_size for w in chosen) != max(w.identity.world_size for w in columns.windows):
        return None, ("the reference belongs to another number of workers and is not used",)
    return columns_of(chosen)[0], ()


def scene_of_windows(
    windows: Sequence[WorkerWindow],
    reference: Sequence[WorkerWindow] = (),
    policy: Policy = Policy(),  # noqa: B008
) -> Scene | None:
    """Return the scene on which ``judge`` decides; None where no window holds an iteration."""
    selection = select(windows)
    if not selection.judged:
        return None
    columns = columns_of(selection.judged)[0]
    before = _reference(reference, selection, columns)[0]
    return scene_of(columns, before, peer_roles(columns, policy), policy)


def _judged(
    base: Report, scene: Scene, stopped: Finding | None, skip: frozenset[int], history: Sequence[Report]
) -> Report:
    out = frozenset(at for at, rank in enumerate(scene.columns.ranks) if rank in skip)
    if max(window.iterations for window in scene.columns.windows) == 1:
        return _inferred(base, scene, _Found((stopped,) if stopped else (), _stopped_victims(scene, out)))
    judgements = judge_units(scene)
    network = network_of(scene.columns.windows, scene.policy)
    found = _Found((stopped,) if stopped else (), _stopped_victims(scene, out))
    undecided = no_consensus(scene, judgements)
    for stage in _stages(scene, judgements, network, out, history):
        told = (_without_the_missing(base, finding) for finding in stage.findings)
        found = _Found((*found.findings, *told), (*found.victims, *stage.victims))
        if found.grave:
            break
    findings = tuple(
        sorted(found.findings, key=lambda f: (f.severity == "info", -f.impact_ratio, f.ranks, f.function_id))
    )
    ids = tuple(dict.fromkeys(scene.columns.functions[function_of(scene, unit, ())].id for unit in undecided))
    notes = (*base.notes, *_notes(scene, base, found.grave, judgements, undecided))
    return _with(
        base, findings=findings, victims=found.victims, no_consensus=ids, notes=notes,
        detail=detail_of(scene, findings, network),
    )  # fmt: skip


def _few(base: Report) -> bool:
    """Whether too few workers reported to say of all what holds of these."""
    return 2 * base.workers_seen <= base.workers_expected


def _without_the_missing(base: Report, finding: Finding) -> Finding:
    """What is said of the whole job while half of it or more is missing is nothing to be alarmed by, and that all wait
    is none while anybody is: that one may be who they wait for.
    """
    waits = finding.kind == "communication" and base.workers_seen < base.workers_expected
    if finding.verdict != "job" or not (_few(base) or waits):
        return finding
    return replace(finding, severity="info", confidence="low")


def _inferred(base: Report, scene: Scene, found: _Found) -> Report:
    """One iteration shows who waited for whom and is no evidence of a culprit: the next may have another order."""
    late = () if found.findings else late_arrivals(scene)
    notes = (*base.notes, *(_alone(scene) if scene.reference is None else ()), *(() if found.grave else _one(scene)))
    return _with(
        base, findings=found.findings, victims=(*found.victims, *late), notes=notes,
        detail=detail_of(scene, found.findings, network_of(scene.columns.windows, scene.policy)),
    )  # fmt: skip


def _one(scene: Scene) -> tuple[str, ...]:
    """Say why nobody is named; who has nobody to be compared with is told so already."""
    if len(scene.roles) > 1:
        what = "who waits for whom is inferred from one iteration, which is no evidence of a culprit"
    elif scene.reference is not None:
        what = "one iteration is no evidence of a change; profile more of them"
    else:
        return ()
    return (f"not enough evidence: {what}",)


def _stopped_victims(scene: Scene, out: frozenset[int]) -> tuple[Victims, ...]:
    others = [rank for at, rank in enumerate(scene.columns.ranks) if at not in out]
    if not out or len(others) < len(out):
        return ()
    where = waits_in(scene, [at for at in range(len(scene.roles)) if at not in out])
    return (Victims(tuple(others), where, tuple(scene.columns.ranks[at] for at in sorted(out))),)


def _stages(
    scene: Scene, judgements: Sequence[Judgement], network: Network, out: frozenset[int], history: Sequence[Report]
) -> Iterator[_Found]:
    """The table, one stage after the other; the caller stops at the first that finds something grave."""
    yield _culprits(scene, excess_cases(scene, judgements, out), out, history)
    if out:
        return  # the times of everybody contain the stop
    yield _Found(tuple(link_findings(scene, network)))
    yield _culprits(scene, some_changed(scene, judgements, out), out, history)
    yield _Found(tuple(job_finding(scene, case, history) for case in all_changed(scene, judgements)))
    yield _Found(_given(communication_grown(scene)))
    yield _Found(_given(contention_finding(scene)) or _given(expectation_finding(scene)))


def _given(finding: Finding | None) -> tuple[Finding, ...]:
    return () if finding is None else (finding,)


def _culprits(scene: Scene, cases: Sequence[Case], out: frozenset[int], history: Sequence[Report]) -> _Found:
    culprits = frozenset(out) | {worker for case in cases for worker in case.workers}
    judged = [(case, *culprit_finding(scene, case, culprits, history)) for case in cases]
    victims = [
        _victims(scene, case, blamed, culprits) for case, finding, blamed in judged if finding.severity != "info"
    ]
    return _Found(tuple(finding for _, finding, _ in judged), tuple(v for v in victims if v is not None))


def _victims(scene: Scene, case: Case, blamed: Blame, culprits: Iterable[int]) -> Victims | None:
    return victims_of(scene, case.workers, blamed.gap, frozenset(culprits)) if math.isfinite(blamed.gap) else None


def _notes(
    scene: Scene, base: Report, grave: bool, judgements: Sequence[Judgement], undecided: Sequence[Judgement]
) -> Iterator[str]:
    counts = [window.iterations for window in scene.columns.windows]
    if min(counts) < max(counts):
        few = [rank for rank, count in zip(scene.columns.ranks, counts, strict=True) if count < max(counts)]
        yield f"{ranks_text(few)} profiled fewer iterations than the others ({min(counts)} of {max(counts)} at least)"
    incomparable = scene.reference is None and all(group.size == 1 for group in scene.groups)
    if scene.reference is None:
        yield from _alone(scene)
    if undecided:
        unit = undecided[0]
        high = int((unit.material & unit.split).sum())
        differ, right = ("differs", "is right") if high == 1 else ("differ", "are right")
        yield (
            f"no consensus: {high} of {int(unit.split.sum())} ranks {differ} in {_unit_name(unit)} "
            f"and no reference says which {right}"
        )
    yield from _minority(scene, judgements, grave)
    if scene.reference is not None and not _enough(scene):
        least = f"{scene.policy.drift_iterations:.0f}"
        yield f"fewer than {least} iterations in a window: changes against the reference are of low confidence"
    if _few(base):
        seen = f"only {base.workers_seen} of {base.workers_expected} workers reported"
        yield f"not enough evidence: {seen}, so what changed on these may not have changed on all"
    elif base.reason in ("degraded", "blocked") and not (grave or undecided or incomparable):
        yield f"not enough evidence: {_degraded(scene)}{_absent(base)}"


def _alone(scene: Scene) -> Iterator[str]:
    """Say who has nobody to be compared with, neither peers nor an earlier self."""
    alone = [scene.columns.ranks[int(group[0])] for group in scene.groups if group.size == 1]
    workers = len(scene.roles)
    if len(alone) == workers:
        who = "1 worker" if workers == 1 else f"{workers} workers, each of a role of its own,"
        yield f"cannot be judged: {who} and no reference"
    elif alone:
        yield f"{ranks_text(sorted(alone))} has no peer of its role and no reference, so it is compared with nobody"


def _unit_name(unit: Judgement) -> str:
    return unit.name or unit.family or unit.kind or "their own work"


def _enough(scene: Scene) -> bool:
    every = (*scene.columns.windows, *(scene.reference.windows if scene.reference else ()))
    return float(np.median([window.iterations for window in every])) >= scene.policy.drift_iterations


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
        few = np.flatnonzero(unit.lacking & unlike(scene, function_of(scene, unit, ())))
        if few.size:
            ranks = [scene.columns.ranks[int(at)] for at in few]
            less = f"{ranks_text(ranks)} spend far less time in {unit.name} than their peers"
            yield f"{less}; without a reference either may be right"
