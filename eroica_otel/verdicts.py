"""Frozen types of a verdict: findings, victims, what pictures are drawn from, the report. No I/O.

``model.py`` passes them on, so that whoever needs types of both sides imports one module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One judged fault; the fields of the report contract (docs/report.md)."""

    verdict: str
    cause: str
    domain: str
    severity: str
    confidence: str
    scope: str
    kind: str
    function: str
    function_id: str
    stack: tuple[str, ...]
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    roles: tuple[str, ...]
    impact_ratio: float
    impact_seconds: float
    expectation_distance: float | None
    differential_distance: float | None
    drift_distance: float | None
    persistence: str
    evidence: tuple[str, ...]
    advice: str
    link: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Victims:
    """Workers that wait in one function for others."""

    ranks: tuple[int, ...]
    function: str
    waits_for: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FunctionDetail:
    """One function over all ranks, for pictures: seconds per iteration, by ``Detail.ranks``; NaN = not reported.

    ``mu`` and ``sigma`` are the same of the share of its resource in use, NaN where it was not measured; () where an
    older report has none.
    """

    function_id: str
    function: str
    kind: str
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    median: float
    tolerance: float
    reference: float
    peers: tuple[tuple[str, str, float, float, float], ...] = ()  # series: role, component, median, MAD, reference
    mu: tuple[float, ...] = ()
    sigma: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """What one worker's critical path was over its window.

    Attributes:
        rank: The worker.
        seconds: Length of its window.
        shares: By kind (and "idle") the share of each of equal parts of the window, in [0, 1]; they sum to 1.
    """

    rank: int
    seconds: float
    shares: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Detail:
    """Facts beside the report contract that serve people; nothing is decided on them.

    Attributes:
        iteration_seconds: Median length of an iteration in the window.
        reference_iteration_seconds: The same in the reference window, NaN without one.
        window_seconds: Median length of the window.
        iterations: Iterations in the window.
        verdict_seconds: From the first pattern that arrived to the verdict.
        ranks: Order of the columns below.
        hosts: Host of each rank.
        kinds: Seconds per iteration by kind (and "idle") of each rank.
        functions: Those of the findings first, then the largest.
        functions_seen: Distinct functions compared.
        largest_difference: (function, rank, share of the iteration) furthest above its peers.
        ruled_out: What was looked at and is not the cause, with its number.
        timelines: Of the workers that the report draws, where traces were analysed.
    """

    iteration_seconds: float
    reference_iteration_seconds: float
    window_seconds: float
    iterations: int
    verdict_seconds: float
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    kinds: Mapping[str, tuple[float, ...]]
    functions: tuple[FunctionDetail, ...]
    functions_seen: int
    largest_difference: tuple[str, int, float]
    ruled_out: tuple[str, ...]
    timelines: tuple[Timeline, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one window (docs/report.md); ``detail`` goes beside the contract under a key of its own."""

    training_job: str
    window_id: int
    reason: str
    workers_seen: int
    workers_expected: int
    missing_ranks: tuple[int, ...] = ()
    findings: tuple[Finding, ...] = ()
    victims: tuple[Victims, ...] = ()
    no_consensus: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    detail: Detail | None = None
