"""Findings that no worker's own work shows: takes a scene, gives findings about stopped processes, links, shared
cores and D alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eroica_otel.localize.bare import COMMUNICATION, finding_of, largest_in, named
from eroica_otel.localize.causes import Facts, cause_of, refined
from eroica_otel.localize.chance import Chance
from eroica_otel.localize.columns import Floats, ranks_text
from eroica_otel.localize.compare import median
from eroica_otel.localize.distances import distances
from eroica_otel.localize.evidence import function_signs
from eroica_otel.localize.excess import Judgement, judge_unit
from eroica_otel.localize.findings import persistence, scope_of
from eroica_otel.localize.network import Edge, Network
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.remedy import advice_on
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.seconds import Key, totals
from eroica_otel.localize.wording import duration, percent
from eroica_otel.model import Finding, Report
from eroica_otel.table import Workers

_WHOLE = ("input", "loader")
"""Families whose functions are parts of one thing."""


def stopped_finding(workers: Workers, lost: Floats, policy: Policy, history: Sequence[Report]) -> Finding | None:
    """Return the finding about processes that did not run (``lost`` seconds > 0), None where all ran."""
    at = np.flatnonzero(lost > 0)
    if not at.size:
        return None
    cause = cause_of(Facts(stopped=True), policy)
    worst = int(at[np.argmax(lost[at].astype(np.float64) / workers.seconds[at])])
    everyone = at.size * 2 > len(workers) > 1
    proven = bool((workers.stopped_seconds[at] > 0).any())
    share = min(float(lost[worst]) / float(workers.seconds[worst]), 1.0)
    ranks = tuple(workers.rank[at].tolist())
    evidence = _stopped_evidence(workers, worst, float(lost[worst]))
    if everyone:
        evidence.append(f"{ranks_text(ranks)} stopped: the whole job or machine was suspended")
    return finding_of(
        cause,
        verdict="job" if everyone else "culprit",
        severity=_stopped_severity(share, policy, proven=proven),
        confidence="high" if proven else "low",
        scope="job" if everyone else scope_of(workers, workers.role, at),
        ranks=() if everyone else ranks,
        hosts=() if everyone else workers.host.distinct(at),
        roles=() if everyone else workers.role.distinct(at),
        impact_ratio=share,
        impact_seconds=float(lost[worst]) / max(int(workers.iterations[worst]), 1),
        persistence=persistence(cause.name, ranks, False, history), evidence=tuple(evidence),
    )  # fmt: skip


def _stopped_severity(share: float, policy: Policy, *, proven: bool) -> str:
    if share < policy.impact_least_ratio:
        return "info"
    return "critical" if proven or share >= policy.critical_ratio else "warning"


def _stopped_evidence(workers: Workers, worst: int, lost: float) -> list[str]:
    length, stopped, cpu = (
        float(column[worst]) for column in (workers.seconds, workers.stopped_seconds, workers.cpu_seconds)
    )
    evidence = [f"rank {workers.rank[worst]} did not run for {duration(lost)} of {duration(length)}"]
    if stopped > 0:
        evidence.append(f"its process was in state T (stopped) for {duration(stopped)}")
    if math.isfinite(cpu):
        evidence.append(f"its training thread used {duration(cpu)} of CPU time in the window")
    return evidence


def link_findings(scene: Scene, network: Network) -> list[Finding]:
    """Return one finding per slow node and per slow link that no slow node explains; only where communication
    matters.
    """
    waiting = median(scene.waiting)
    if waiting < scene.policy.material_ratio * scene.iteration:
        return []
    found = [_node(scene, network, node, waiting) for node in network.nodes]
    return found + [_link(scene, network, edge, waiting) for edge in network.links]


def _node(scene: Scene, network: Network, node: str, waiting: float) -> Finding:
    edges = [edge for edge in network.edges if node in (edge.sender, edge.receiver)]
    workers = scene.columns.workers
    culprits = np.flatnonzero(workers.host.among((node,)))
    lowest = min(edge.score for edge in edges)
    evidence = (
        f"both links of {node} are slow: " + ", ".join(_edge_text(edge) for edge in edges),
        *_communication_evidence(scene, network, edges),
    )
    return _nic(
        scene, waiting, lowest, evidence, verdict="culprit", scope="node" if len(culprits) > 1 else "worker",
        ranks=scene.columns.named(culprits), hosts=(node,), roles=workers.role.distinct(culprits),
    )  # fmt: skip


def _link(scene: Scene, network: Network, edge: Edge, waiting: float) -> Finding:
    evidence = (
        f"the link {_edge_text(edge)}; its two ends cannot be told apart",
        *_communication_evidence(scene, network, [edge]),
    )
    link = (edge.sender, edge.receiver)
    return _nic(scene, waiting, edge.score, evidence, verdict="culprit", scope="link", link=link)


def _edge_text(edge: Edge) -> str:
    return f"{edge.sender} to {edge.receiver} reaches {percent(edge.score)} of the best"


def _communication_evidence(scene: Scene, network: Network, slow: Sequence[Edge]) -> list[str]:
    others = [edge.score for edge in network.edges if edge not in slow]
    texts = [f"the other links reach {percent(min(others))} or more"] if others else []
    texts.append("no rank has more work of its own than its peers")
    growth = median(scene.waiting_growth)
    if math.isfinite(growth):
        now = duration(median(scene.waiting))
        texts.append(f"communication takes {now} an iteration, {duration(growth)} more than in the reference window")
    return texts


def _nic(scene: Scene, waiting: float, score: float, evidence: tuple[str, ...], **values: object) -> Finding:
    """The loss is what communication grew by, else what the links' score says of it; a small one is only info."""
    growth = median(scene.waiting_growth)
    estimate = (1 - score) * waiting
    grown = math.isfinite(growth) and growth >= scene.policy.material_ratio * scene.iteration
    impact = growth if grown else estimate
    ratio = impact / scene.iteration
    severity = "critical" if ratio >= scene.policy.critical_ratio else "warning"
    return finding_of(
        cause_of(Facts(link=True), scene.policy),
        **{"kind": "communication", **named(scene, largest_in(scene, COMMUNICATION)), **values}, evidence=evidence,
        severity=severity if ratio >= scene.policy.material_ratio else "info",
        confidence="high" if grown else "low",
        impact_ratio=ratio, impact_seconds=impact,
    )  # fmt: skip


def contention_finding(scene: Scene) -> Finding | None:
    """Return the info that all ranks wait for cores, more than in the reference or, without one, much."""
    share, growth = median(scene.columns.delay), median(scene.delay_growth)
    seconds = growth if scene.reference is not None else share * scene.iteration
    least = scene.policy.material_ratio if scene.reference is not None else scene.policy.contention_ratio
    if not seconds >= least * scene.iteration:
        return None
    before = "" if scene.reference is None else f", {percent(median(scene.reference.delay))} in the reference window"
    facts = Facts(iteration=scene.iteration, delay_excess=seconds, everyone=True)
    return finding_of(
        cause_of(facts, scene.policy), verdict="job", severity="info", confidence="low", scope="job",
        impact_ratio=seconds / scene.iteration, impact_seconds=seconds,
        evidence=(f"the median rank is without a core for {percent(share)} of the window{before}",),
    )  # fmt: skip


def _outside(scene: Scene) -> list[tuple[float, int]]:
    """Distance and index of the functions that are far outside their expected range, the furthest first."""
    found: list[tuple[float, int]] = []
    large = scene.columns.largest >= scene.policy.material_ratio
    for at in np.flatnonzero(large).tolist():
        function = scene.columns.functions[at]
        if function.family == "wait" or function.kind == "compute":
            continue
        apart = distances(scene, at, None, ()).expectation or 0.0
        if apart >= scene.policy.material_ratio:
            found.append((apart, at))
    return sorted(found, reverse=True)


def outside_findings(scene: Scene, most: int = 3) -> list[Finding]:
    """Return the infos that functions are far outside their expected range (D alone), where nothing else is known; the
    functions of one input are one of them.
    """
    found: dict[Key, Finding] = {}
    for apart, at in _outside(scene):
        function = scene.columns.functions[at]
        whole = ("family", function.kind, function.family)
        key: Key = whole if function.family in _WHOLE else (function.id,)
        if key not in found and len(found) < most:
            finding = _outside_finding(scene, apart, at, "")
            found[key] = _of_family(scene, finding, whole) if key == whole else finding
    return list(found.values())


def _of_family(scene: Scene, finding: Finding, whole: Key) -> Finding:
    """An input that is spread over many functions costs what all of them take beyond what is expected of one."""
    total = totals(scene.columns, whole)
    seconds, costs = median(total), _beyond(scene, total, finding.kind)
    if not costs > finding.impact_seconds:
        return finding
    share = percent(seconds / scene.iteration)
    evidence = (*finding.evidence, f"all functions of the input together take {duration(seconds)}, {share} of it")
    return replace(finding, impact_ratio=costs / scene.iteration, impact_seconds=costs, evidence=evidence)


def _beyond(scene: Scene, total: Floats, kind: str) -> float:
    """Return the seconds of an iteration beyond what is expected, on the median rank; never more than the median of
    ``total``. A median share of a median iteration would be, where the ranks' iterations are not equally long.
    """
    return max(median(total - scene.policy.expected(kind) * scene.columns.iteration), 0.0)


def expectation_finding(scene: Scene) -> Finding | None:
    """Return the info that a function is far outside its expected range on all ranks and was so before (D alone:
    chronic).
    """
    outside = [] if scene.reference is None else _outside(scene)
    if not outside:
        return None
    apart, at = outside[0]
    if _judged(scene, at).drifted.any():
        return None
    return _outside_finding(scene, apart, at, ", and took as long in the reference window", "since_start")


def _judged(scene: Scene, at: int) -> Judgement:
    function = scene.columns.functions[at]
    return judge_unit(Chance(scene), ("function", function.kind, function.family, function.id))


def _outside_finding(scene: Scene, apart: float, at: int, before: str, persistence: str = "once") -> Finding:
    function, judgement = scene.columns.functions[at], _judged(scene, at)
    facts = Facts(
        function.kind,
        function.family,
        scene.iteration,
        median(judgement.now.total),
        median(judgement.now.on),
        everyone=True,
    )
    expected = scene.policy.expected(function.kind)
    costs = _beyond(scene, judgement.now.total, function.kind)
    cause = refined(cause_of(facts, scene.policy), function_signs(scene, at), scene.policy)
    on_cpu = facts.on_excess / facts.excess if facts.excess > 0 else math.nan
    return finding_of(
        cause, verdict="job", severity="info", confidence="low", scope="job",
        advice=advice_on(cause, function, on_cpu, scene.policy.on_cpu_ratio),
        kind=function.kind, function=function.name, function_id=function.id, stack=function.stack,
        impact_ratio=costs / scene.iteration, impact_seconds=costs,
        expectation_distance=apart, drift_distance=distances(scene, at, judgement, ()).drift, persistence=persistence,
        evidence=(_outside_evidence(judgement, expected, costs, before),),
    )  # fmt: skip


def _outside_evidence(judgement: Judgement, expected: float, costs: float, before: str) -> str:
    """Say that a function is outside its range, and where that costs nothing because the ranks that are above it have
    short iterations, that it is so.
    """
    takes = f"takes {duration(median(judgement.now.total))} an iteration on the median rank"
    usual = f"{percent(expected)} expected of one {judgement.kind} function{before}"
    if costs > 0:
        return f"{takes}, more than the {usual}"
    return f"{takes}; only on ranks of short iterations above the {usual}, so the median rank loses nothing by it"
