"""The table of the verdict: takes a scene, gives the report with its findings, victims and notes.

The stages of docs/method.md in their order; the first that finds something above info ends it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from eroica_otel.localize.blame import Blame, together, victims_of, waits_in
from eroica_otel.localize.detail import detail_of
from eroica_otel.localize.excess import Judgement, judge_units
from eroica_otel.localize.findings import culprit_finding, function_of, job_finding
from eroica_otel.localize.grown import communication_grown, synchronisation_grown
from eroica_otel.localize.jobwide import contention_finding, expectation_finding, link_findings
from eroica_otel.localize.late import late_arrivals
from eroica_otel.localize.merging import of_change, of_workers
from eroica_otel.localize.network import Network, network_of
from eroica_otel.localize.notes import alone, few, notes, one_iteration
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.slowgroups import group_findings
from eroica_otel.localize.stages import Case, all_changed, excess_cases, no_consensus, some_changed
from eroica_otel.model import Finding, Report, Victims


@dataclass(frozen=True, slots=True)
class _Found:
    findings: tuple[Finding, ...] = ()
    victims: tuple[Victims, ...] = ()

    @property
    def grave(self) -> bool:
        return any(finding.severity != "info" for finding in self.findings)


def ruled(
    base: Report, scene: Scene, stopped: Finding | None, out: frozenset[int], history: Sequence[Report]
) -> Report:
    """Return the verdict.

    Args:
        base: The report without one.
        stopped: The finding on processes that did not run, None without any.
        out: The workers that it is about.
        history: Earlier verdicts of the job, oldest first.
    """
    if stopped is not None and stopped.severity == "info":
        out = frozenset()  # a stop that costs next to nothing hides no other fault, of its rank neither
    if scene.columns.workers.iterations.max() == 1:
        return _inferred(base, scene, _Found((stopped,) if stopped else (), _stopped_victims(scene, out)))
    judgements = judge_units(scene)
    network = network_of(scene.columns.workers, scene.policy)
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
    return replace(
        base, findings=findings, victims=found.victims, no_consensus=ids,
        notes=(*base.notes, *notes(scene, base, found.grave, judgements, undecided)),
        detail=detail_of(scene, findings, network),
    )  # fmt: skip


def _without_the_missing(base: Report, finding: Finding) -> Finding:
    """What is said of the whole job while half of it or more is missing is nothing to be alarmed by, and that all wait
    is none while anybody is: that one may be who they wait for.
    """
    waits = finding.kind == "communication" and base.workers_seen < base.workers_expected
    if finding.verdict != "job" or not (few(base) or waits):
        return finding
    return replace(finding, severity="info", confidence="low")


def _inferred(base: Report, scene: Scene, found: _Found) -> Report:
    """One iteration shows who waited for whom and is no evidence of a culprit: the next may have another order."""
    late = () if found.findings else late_arrivals(scene)
    beside = (*(alone(scene) if scene.reference is None else ()), *(() if found.grave else one_iteration(scene)))
    return replace(
        base, findings=found.findings, victims=(*found.victims, *late), notes=(*base.notes, *beside),
        detail=detail_of(scene, found.findings, network_of(scene.columns.workers, scene.policy)),
    )  # fmt: skip


def _stopped_victims(scene: Scene, out: frozenset[int]) -> tuple[Victims, ...]:
    if not out or scene.size < 2 * len(out):
        return ()
    others, named = ~scene.mask(out) & together(scene, out), scene.columns.named
    if not others.any():
        return ()
    return (Victims(named(others), waits_in(scene, others), named(sorted(out))),)


def _stages(
    scene: Scene, judgements: Sequence[Judgement], network: Network, out: frozenset[int], history: Sequence[Report]
) -> Iterator[_Found]:
    """The table, one stage after the other; the caller stops at the first that finds something grave."""
    yield _culprits(scene, of_workers(scene, excess_cases(scene, judgements, out)), out, history)
    if out:
        return  # the times of everybody contain the stop
    yield _Found((*link_findings(scene, network), *group_findings(scene)))
    yield _culprits(scene, of_change(scene, some_changed(scene, judgements, out)), out, history)
    yield _Found(tuple(job_finding(scene, case, history) for case in of_change(scene, all_changed(scene, judgements))))
    yield _Found(_given(communication_grown(scene) or synchronisation_grown(scene)))
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


def _victims(scene: Scene, case: Case, blamed: Blame, culprits: frozenset[int]) -> Victims | None:
    return victims_of(scene, case.workers, blamed.gap, culprits) if math.isfinite(blamed.gap) else None
