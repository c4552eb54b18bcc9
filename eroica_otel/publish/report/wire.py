"""Shape of report.json: one struct per object, its keys in the order of the contract (docs/report.md)."""

from __future__ import annotations

import msgspec


class FindingWire(msgspec.Struct, frozen=True):
    """One item of ``findings``."""

    verdict: str
    cause: str
    domain: str
    severity: str
    confidence: str
    scope: str
    link: tuple[str, str] | None
    kind: str
    function: str
    function_id: str
    stack: tuple[str, ...]
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    roles: tuple[str, ...]
    impact_ratio: float | None
    impact_seconds: float | None
    expectation_distance: float | None
    differential_distance: float | None
    drift_distance: float | None
    persistence: str
    evidence: tuple[str, ...]
    advice: str


class VictimsWire(msgspec.Struct, frozen=True):
    """One item of ``victims``."""

    ranks: tuple[int, ...]
    function: str
    waits_for: tuple[int, ...]


class FunctionWire(msgspec.Struct, frozen=True):
    """One item of ``detail.functions``."""

    function_id: str
    function: str
    kind: str
    seconds: tuple[float | None, ...]
    cpu_seconds: tuple[float | None, ...]
    median: float | None
    tolerance: float | None
    reference: float | None
    mu: tuple[float | None, ...] = ()
    sigma: tuple[float | None, ...] = ()


class TimelineWire(msgspec.Struct, frozen=True):
    """One item of ``detail.timelines``."""

    rank: int
    seconds: float
    shares: dict[str, tuple[float, ...]]


class DetailWire(msgspec.Struct, frozen=True):
    """The object ``detail``."""

    iteration_seconds: float | None
    reference_iteration_seconds: float | None
    window_seconds: float | None
    iterations: int
    verdict_seconds: float | None
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    kinds: dict[str, tuple[float | None, ...]]
    functions: tuple[FunctionWire, ...]
    functions_seen: int
    largest_difference: tuple[str, int, float | None]
    ruled_out: tuple[str, ...]
    timelines: tuple[TimelineWire, ...] = ()


class ReportWire(msgspec.Struct, frozen=True):
    """The whole file."""

    schema: int
    training_job: str
    window_id: int
    reason: str
    workers_seen: int
    workers_expected: int
    missing_ranks: tuple[int, ...]
    findings: tuple[FindingWire, ...]
    victims: tuple[VictimsWire, ...]
    no_consensus: tuple[str, ...]
    notes: tuple[str, ...]
    detail: DetailWire | None = None


class SchemaWire(msgspec.Struct, frozen=True):
    """The one key that must be understood before the others."""

    schema: int
