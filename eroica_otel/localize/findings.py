"""Cases -> findings: takes what the stages found, gives findings with impact, severity, confidence, evidence and
advice.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from eroica_otel.localize.blame import Blame, blame
from eroica_otel.localize.columns import Ints
from eroica_otel.localize.compare import median
from eroica_otel.localize.distances import distances
from eroica_otel.localize.evidence import with_signs
from eroica_otel.localize.excess import Judgement
from eroica_otel.localize.hostwords import host_evidence
from eroica_otel.localize.pipeline import CAUSE, stage_blame, stage_evidence
from eroica_otel.localize.remedy import advice_on
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.seconds import members, totals
from eroica_otel.localize.stages import Case
from eroica_otel.localize.wording import (
    beside_evidence,
    core_evidence,
    everyone_evidence,
    waiting_evidence,
    work_evidence,
)
from eroica_otel.model import Finding, Report
from eroica_otel.table import Words, Workers


def culprit_finding(
    scene: Scene, case: Case, culprits: Collection[int], history: Sequence[Report]
) -> tuple[Finding, Blame]:
    """Return the finding about workers that are unlike their peers, and what the waiting says about it."""
    if case.cause.name == CAUSE:
        return _stage_finding(scene, case, history)
    case, shown = with_signs(scene, case, function_of(scene, case.judgement, case.workers))
    blamed = blame(scene, case.workers, case.lost, culprits)
    beside = beside_evidence(scene, case.beside, case.workers)
    evidence = [*work_evidence(scene, case.judgement, case.workers), *beside, *shown]
    if case.cause.name in ("cpu_starved", "cpu_contention", "load_imbalance"):
        evidence += core_evidence(scene, case.workers)
    evidence += host_evidence(scene, case.workers)
    evidence += waiting_evidence(scene, case.workers, blamed, culprits)
    if case.changed and len(case.workers) * 2 >= len(scene.roles):
        evidence.append(f"{len(scene.roles) - len(case.workers)} ranks did not change: they are the healthy minority")
    high = blamed.confirms and not (case.changed and not long_enough(scene))
    ratio = blamed.impact / scene.iteration
    finding = _finding(
        scene, case, "culprit", ratio, blamed.impact, tuple(evidence),
        severity=_severity(scene, case, blamed, ratio),
        confidence="high" if high else "low",
        scope=scope_of(scene.columns.workers, scene.roles, np.array(case.workers)),
        persistence=persistence(case.cause.name, scene.columns.named(case.workers), _chronic(case), history),
    )  # fmt: skip
    return finding, blamed


def _stage_finding(scene: Scene, case: Case, history: Sequence[Report]) -> tuple[Finding, Blame]:
    """A stage of a pipeline that has more to do: a role, wherever its ranks run."""
    blamed = stage_blame(scene, case.workers, case.lost)
    ratio = blamed.impact / scene.iteration
    beside = beside_evidence(scene, case.beside, case.workers)
    evidence = (*work_evidence(scene, case.judgement, case.workers), *beside, *stage_evidence(scene, case.workers))
    ranks = scene.columns.named(case.workers)
    finding = _finding(
        scene, case, "culprit", ratio, blamed.impact, evidence,
        severity="info" if ratio < scene.policy.impact_least_ratio else _grade(scene, ratio),
        confidence="high" if blamed.confirms else "low",
        scope="role",
        persistence=persistence(case.cause.name, ranks, _chronic(case), history),
    )  # fmt: skip
    return replace(finding, hosts=()), blamed


def job_finding(scene: Scene, case: Case, history: Sequence[Report]) -> Finding:
    """Return the finding about a change of all workers; its impact is what the iteration grew by, at most
    the change.
    """
    policy = scene.policy
    case, shown = with_signs(scene, case, function_of(scene, case.judgement, case.workers))
    impact = max(min(case.lost, scene.growth), 0.0)
    ratio = impact / scene.iteration
    vague = case.cause.name == "unknown" and (ratio < policy.drift_unknown_ratio or not scene.degraded)
    small = ratio < policy.impact_least_ratio or vague or case.cause.name == "cpu_contention"
    beside = beside_evidence(scene, case.beside, ())
    return _finding(
        scene, case, "job", ratio, impact, (*everyone_evidence(scene, case.judgement), *beside, *shown),
        severity="info" if small else _grade(scene, ratio),
        confidence="high" if long_enough(scene) and case.cause.name != "unknown" else "low",
        scope="job",
        persistence=persistence(case.cause.name, (), False, history),
    )  # fmt: skip


def _finding(
    scene: Scene, case: Case, verdict: str, ratio: float, seconds: float, evidence: tuple[str, ...],
    *, severity: str, confidence: str, scope: str, persistence: str,
) -> Finding:  # fmt: skip
    at = function_of(scene, case.judgement, case.workers)
    function = scene.columns.functions[at]
    apart = distances(scene, at, case.judgement, case.workers)
    workers = scene.columns.workers
    return Finding(
        verdict=verdict, cause=case.cause.name, domain=case.cause.domain, severity=severity, confidence=confidence,
        scope=scope, kind=function.kind, function=function.name, function_id=function.id, stack=function.stack,
        ranks=scene.columns.named(case.workers),
        hosts=workers.host.distinct(case.workers),
        roles=workers.role.distinct(case.workers),
        impact_ratio=ratio, impact_seconds=seconds,
        expectation_distance=apart.expectation, differential_distance=apart.differential, drift_distance=apart.drift,
        persistence=persistence, evidence=evidence,
        advice=advice_on(case.cause, function, _on_cpu(case), scene.policy.on_cpu_ratio),
    )  # fmt: skip


def _on_cpu(case: Case) -> float:
    """Return which share of its time the unit is on the CPU, on the culprits or on all; NaN unknown."""
    now, at = case.judgement.now, list(case.workers) or slice(None)
    total = median(now.total[at])
    return median(now.on[at]) / total if total > 0 else math.nan


def function_of(scene: Scene, judgement: Judgement, workers: Sequence[int]) -> int:
    """Return the function that stands for a unit: the one whose time on the culprits exceeds that on the
    others most.
    """
    functions = members(scene.columns, judgement.key)
    if len(functions) == 1:
        return functions[0]
    mine = scene.mask(workers) if len(workers) else np.ones(scene.size, bool)

    def excess(function: int) -> float:
        this = scene.columns.functions[function]
        total = totals(scene.columns, ("function", this.kind, this.family, this.id))
        return median(total[mine]) - (0.0 if mine.all() else median(total[~mine]))

    return max(functions, key=excess)


def _severity(scene: Scene, case: Case, blamed: Blame, ratio: float) -> str:
    policy = scene.policy
    # Where the trigger fired, the job is slower for certain, and what had hidden behind waiting before was too little.
    waited = blamed.behind if scene.degraded else blamed.impact
    nobody_waits = math.isfinite(blamed.gap) and waited / scene.iteration < policy.impact_least_ratio
    at = list(case.workers)
    throttled = float(scene.throttle_excess[at].max()) >= policy.throttle_ratio
    # Where all wait for cores, one that waits somewhat longer is chance.
    grave_delay = max(policy.run_delay_grave_ratio, median(scene.columns.delay)) * scene.iteration
    delayed = float(scene.delay_excess[at].max()) >= grave_delay
    if case.cause.name == "cpu_starved" and not (throttled or delayed):
        return "info"
    needs_proof = case.cause.name == "unknown" or (case.cause.name == "cpu_starved" and not throttled)
    if nobody_waits or case.cause.name == "cpu_contention" or (needs_proof and not _proved(scene, case, blamed)):
        return "info"
    return _grade(scene, ratio)


def _proved(scene: Scene, case: Case, blamed: Blame) -> bool:
    """Whether the waiting confirms it; or, where the trigger fired, the others wait for as much as is material for
    workers that all take longer than they did.
    """
    changed = scene.degraded and bool(case.judgement.drifted[list(case.workers)].all())
    waits = blamed.gap >= scene.policy.material_ratio * scene.iteration
    return blamed.confirms or (changed and waits and case.cause.name == "unknown")


def _grade(scene: Scene, ratio: float) -> str:
    return "critical" if ratio >= scene.policy.critical_ratio else "warning"


def long_enough(scene: Scene) -> bool:
    """Whether both windows hold enough iterations for a change to be told from noise."""
    every = [columns.workers.iterations for columns in (scene.columns, scene.reference) if columns is not None]
    return float(np.median(np.concatenate(every))) >= scene.policy.drift_iterations


def _chronic(case: Case) -> bool:
    """Whether the culprits were as they are in the reference already."""
    at = list(case.workers)
    return bool(np.isfinite(case.judgement.drift[at]).all() and case.judgement.steady[at].all())


def scope_of(workers: Workers, roles: Words, culprits: Ints) -> str:
    """Return worker, node (all workers of hosts that have several) or role (all workers of roles beside others)."""
    count, everyone = culprits.size, len(workers)
    hosts = workers.host.distinct(culprits)
    on_hosts = int(workers.host.among(hosts).sum())
    if on_hosts == count and count > len(hosts) and count < everyone:
        return "node"
    in_roles = int(roles.among(roles.distinct(culprits)).sum())
    return "role" if count > 1 and in_roles == count and count < everyone else "worker"


def persistence(cause: str, ranks: tuple[int, ...], chronic: bool, history: Sequence[Report]) -> str:
    """Return once, rotating (the same cause at other ranks before) or since_start (in the reference, or in every
    window).
    """
    earlier = [finding.ranks for report in history for finding in report.findings if finding.cause == cause]
    if any(not set(ranks) & set(before) for before in earlier if before and ranks):
        return "rotating"
    everywhere = history and all(any(f.cause == cause and f.ranks == ranks for f in r.findings) for r in history)
    return "since_start" if chronic or everywhere else "once"
