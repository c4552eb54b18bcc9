"""What the localizer knows -> its data points, under the names and labels of names.py. Pure.

A job's counts are always there, 0 when it is healthy; distances, impact and victims exist for open findings only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from eroica_otel import names
from eroica_otel.model import SCHEMA, Detail, Finding, FunctionDetail, Identity, Point, Report

MOST_FINDINGS = 20
MOST_FUNCTIONS = 20
"""Functions whose median over the peers is published."""
MOST_ROLES = 8
"""Peer roles for which it is."""
_MOST_RANKS = 64
"""Culprits of one finding that get series of their own; the report names all."""
_STACK_BYTES = 1024


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """A finding that has not ended, with what its series need beside it.

    Attributes:
        finding: As it was judged.
        window_id: Window in which it was last seen.
        reason: Reason of that window.
        workers: Identities of its culprits.
        victims: Workers that wait for it.
        family: Family of its function, "" when the function is not in the patterns.
    """

    finding: Finding
    window_id: int
    reason: str
    workers: tuple[Identity, ...] = ()
    victims: int = 0
    family: str = ""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Everything that is published about one job.

    Attributes:
        training_job: Its name.
        team: Its team.
        expected: Workers that it should have.
        open: Its open findings.
        report: Latest verdict; None before the first.
        duplicates: Workers that share an identity.
        success_timestamp_seconds: Unix time of the latest verdict; None before the first.
        duration_seconds: What the latest verdict took to compute; None before the first.
        thresholds: Those that are this job's own.
    """

    training_job: str
    team: str
    expected: int
    open: tuple[OpenFinding, ...] = ()
    report: Report | None = None
    duplicates: int = 0
    success_timestamp_seconds: float | None = None
    duration_seconds: float | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LocalizerStatus:
    """Everything that is published about the localizer itself."""

    version: str
    failures: Mapping[str, int] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    rejudged: int = 0
    queries: Mapping[str, int] = field(default_factory=dict)
    deliveries: Mapping[tuple[str, str], int] = field(default_factory=dict)
    round_timestamp_seconds: float = 0.0


def localizer_points(status: LocalizerStatus) -> list[Point]:
    """Return the points that are about no job."""
    build = {"version": status.version, "schema": str(SCHEMA)}
    rows: list[tuple[names.Metric, dict[str, str], float]] = [(names.LOCALIZER_BUILD, build, 1.0)]
    rows.append((names.LOCALIZER_ROUND, {}, status.round_timestamp_seconds))
    rows.append((names.LOCALIZER_REJUDGED, {}, status.rejudged))
    rows += [(names.LOCALIZER_FAILURES, {"stage": stage}, count) for stage, count in status.failures.items()]
    rows += [(names.LOCALIZER_REQUESTS, {"outcome": outcome}, count) for outcome, count in status.requests.items()]
    rows += [(names.LOCALIZER_QUERIES, {"outcome": outcome}, count) for outcome, count in status.queries.items()]
    for (delivery, outcome), count in status.deliveries.items():
        rows.append((names.LOCALIZER_DELIVERIES, {"delivery": delivery, "outcome": outcome}, count))
    rows += [(names.THRESHOLD, {"threshold": name}, value) for name, value in status.thresholds.items()]
    return [Point(metric.name, labels, float(value)) for metric, labels, value in rows]


def job_points(status: JobStatus) -> list[Point]:
    """Return the points of one job; each (name, labels) once."""
    job = {"training_job": status.training_job, "team": status.team}
    rows = (*_counts(status), *_functions(status.report), *_findings(status.open))
    points: dict[tuple[str, frozenset[tuple[str, str]]], Point] = {}
    for metric, labels, value in rows:
        if value is not None and math.isfinite(value):
            point = Point(metric.name, job | labels, float(value))
            points.setdefault((point.name, frozenset(point.labels.items())), point)
    return list(points.values())


def is_alarming(finding: Finding) -> bool:
    """Return whether the finding counts as one: severity above info."""
    return finding.severity != "info"


_Row = tuple[names.Metric, dict[str, str], "float | None"]


def _counts(status: JobStatus) -> Iterator[_Row]:
    report = status.report
    yield names.ANOMALIES, {}, sum(is_alarming(item.finding) for item in status.open)
    yield names.LOCALIZER_SEEN, {}, report.workers_seen if report else 0
    yield names.LOCALIZER_EXPECTED, {}, status.expected
    yield names.LOCALIZER_NO_CONSENSUS, {}, len(report.no_consensus) if report else 0
    yield names.DUPLICATES, {}, status.duplicates
    yield names.LOCALIZER_SUCCESS, {}, status.success_timestamp_seconds
    yield names.LOCALIZER_DURATION, {}, status.duration_seconds
    for threshold, value in status.thresholds.items():
        yield names.JOB_THRESHOLD, {"threshold": threshold}, value
    if report is not None:
        yield names.LOCALIZER_WINDOW, {"reason": report.reason}, report.window_id


def _functions(report: Report | None) -> Iterator[_Row]:
    """Yield median, MAD and reference of each function by peer role and component (beta, mu, sigma)."""
    if report is None or report.detail is None:
        return
    roles = _published_roles(report.detail)
    for function in report.detail.functions[:MOST_FUNCTIONS]:
        for role, component, median, mad, reference in function.peers:
            if role not in roles:
                continue
            labels = _function(function) | {"peer_role": role, "component": component}
            # The first reference window of a job is the reference that later windows are compared with.
            itself = report.reason == "reference" and math.isnan(reference)
            yield names.FUNCTION_MEDIAN, labels, median
            yield names.FUNCTION_MAD, labels, mad
            yield names.FUNCTION_REFERENCE, labels, median if itself else reference


def _published_roles(detail: Detail) -> set[str]:
    """Return the peer roles that are published: the first by name where there are more than the budget holds."""
    roles = {level[0] for function in detail.functions for level in function.peers}
    return set(sorted(roles)[:MOST_ROLES])


def _findings(open_: tuple[OpenFinding, ...]) -> Iterator[_Row]:
    ordered = sorted(open_, key=lambda item: (not is_alarming(item.finding), -item.finding.impact_ratio))
    for item in ordered[:MOST_FINDINGS]:
        finding = item.finding
        for who in _culprits(item):
            labels = who | _function(finding)
            verdict = {name: getattr(finding, name) for name in ("cause", "domain", "severity", "scope", "verdict")}
            link = {"link": "-".join(finding.link) if finding.link else ""}
            yield names.IMPACT, labels | verdict | link, finding.impact_ratio
            yield names.EXPECTATION, labels, finding.expectation_distance
            yield names.DIFFERENTIAL, labels, finding.differential_distance
            yield names.DRIFT, labels, finding.drift_distance
            if finding.stack:
                info = {"function_id": finding.function_id, "family": item.family, "stack": _stack(finding.stack)}
                yield names.FUNCTION_INFO, who | info, 1.0
        yield names.VICTIMS, {"function_id": finding.function_id, "cause": finding.cause}, item.victims


def _culprits(item: OpenFinding) -> list[dict[str, str]]:
    """Return rank, host and role of each culprit; one with empty values for a link and for the job."""
    if item.finding.verdict == "job" or not item.finding.ranks:
        return [{"rank": "", "host": "", "role": ""}]
    known = {who.rank: who for who in item.workers}
    # A role is what its workers are told to do, wherever they run.
    anywhere = item.finding.scope == "role" and not item.finding.hosts
    return [
        {
            "rank": str(rank),
            "host": known[rank].host if rank in known and not anywhere else _only(item.finding.hosts),
            "role": known[rank].role if rank in known else _only(item.finding.roles),
        }
        for rank in item.finding.ranks[:_MOST_RANKS]
    ]


def _only(values: tuple[str, ...]) -> str:
    return values[0] if len(set(values)) == 1 else ""


def _function(item: Finding | FunctionDetail) -> dict[str, str]:
    return {"function_id": item.function_id, "function": item.function, "kind": item.kind}


def _stack(stack: tuple[str, ...]) -> str:
    """Return the stack as the workers write it; the innermost frames are kept."""
    text = " > ".join(stack)
    if len(text.encode()) <= _STACK_BYTES:
        return text
    tail = text.encode()[-(_STACK_BYTES - 6) :].decode(errors="ignore")
    return "... > " + tail.partition(" > ")[2]
