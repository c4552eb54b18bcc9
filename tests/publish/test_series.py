from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from eroica_otel import names
from eroica_otel.model import Point
from eroica_otel.publish.series import (
    MOST_FINDINGS,
    JobStatus,
    LocalizerStatus,
    OpenFinding,
    job_points,
    localizer_points,
)
from factories_central import detail, finding, identity, report


def open_finding(**changes: object) -> OpenFinding:
    judged = finding(**changes)
    return OpenFinding(judged, 1, "degraded", tuple(identity(rank) for rank in judged.ranks), 3, "other")


def status(*findings: OpenFinding, **changes: object) -> JobStatus:
    given = JobStatus("llm-7b", "vision", 4, findings, report(), 0, 1_764_430_010.0, 0.25)
    return replace(given, **changes)  # type: ignore[arg-type]


def by_name(points: Iterable[Point], name: str) -> list[Point]:
    return [point for point in points if point.name == name]


def one(points: Iterable[Point], metric: names.Metric) -> float:
    (point,) = by_name(points, metric.name)
    return point.value


FAULTY = status(open_finding(), open_finding(verdict="job", ranks=(), hosts=(), scope="job", drift_distance=0.3))
LOCALIZER = LocalizerStatus(
    "0.1.0", {"judge": 1}, {"accepted": 9}, {"material": 0.05}, queries={"ok": 3}, deliveries={("otlp", "sent"): 1}
)


def test_names_and_labels_are_exactly_those_of_names_py() -> None:
    points = job_points(replace(FAULTY, thresholds={"gap_ratio": 0.1})) + localizer_points(LOCALIZER)
    for point in points:
        assert sorted(point.labels) == sorted(names.BY_NAME[point.name].labels)
    assert {point.name for point in points} == {metric.name for metric in names.OF_LOCALIZER}


def test_each_series_is_there_once() -> None:
    twice = status(open_finding(), open_finding(cause="gc_pause"), open_finding(confidence="low"))
    points = job_points(twice)
    series = [(point.name, tuple(sorted(point.labels.items()))) for point in points]
    assert len(series) == len(set(series))
    assert {point.labels["cause"] for point in by_name(points, names.IMPACT.name)} == {"python_overhead", "gc_pause"}


def test_a_healthy_job_shows_zeros_and_no_distances() -> None:
    points = job_points(status(report=None, success_timestamp_seconds=None, duration_seconds=None))
    values = {point.name: point.value for point in points}
    assert values == {
        names.ANOMALIES.name: 0,
        names.LOCALIZER_SEEN.name: 0,
        names.LOCALIZER_EXPECTED.name: 4,
        names.LOCALIZER_NO_CONSENSUS.name: 0,
        names.DUPLICATES.name: 0,
    }


def test_a_culprit_carries_its_own_host_and_the_job_carries_none() -> None:
    points = by_name(job_points(FAULTY), names.IMPACT.name)
    labels = [{key: point.labels[key] for key in ("rank", "host", "role", "verdict")} for point in points]
    assert labels == [
        {"rank": "1", "host": "host-0", "role": "all", "verdict": "culprit"},
        {"rank": "", "host": "", "role": "", "verdict": "job"},
    ]


def test_a_role_carries_no_host() -> None:
    points = job_points(status(open_finding(scope="role", hosts=())))
    assert [point.labels["host"] for point in by_name(points, names.IMPACT.name)] == [""]


def test_a_link_is_named_by_its_ends() -> None:
    link = open_finding(scope="link", link=("host-0", "host-1"), ranks=(), hosts=("host-0", "host-1"))
    (point,) = by_name(job_points(status(link)), names.IMPACT.name)
    assert (point.labels["link"], point.labels["rank"], point.labels["host"]) == ("host-0-host-1", "", "")


def test_what_was_not_computed_is_absent() -> None:
    points = job_points(status(open_finding(differential_distance=math.nan)))
    assert by_name(points, names.DRIFT.name) == []
    assert by_name(points, names.DIFFERENTIAL.name) == []
    assert one(points, names.EXPECTATION) == 0.49


def test_info_is_shown_but_not_counted() -> None:
    points = job_points(status(open_finding(), open_finding(severity="info", cause="cpu_contention", ranks=(2,))))
    assert one(points, names.ANOMALIES) == 1
    assert len(by_name(points, names.IMPACT.name)) == 2


def test_the_twenty_largest_are_published_and_all_are_counted() -> None:
    many = [open_finding(ranks=(rank,), impact_ratio=rank / 100) for rank in range(30)]
    points = job_points(status(*many))
    shown = {int(point.labels["rank"]) for point in by_name(points, names.IMPACT.name)}
    assert shown == set(range(30 - MOST_FINDINGS, 30))
    assert one(points, names.ANOMALIES) == 30


def levels(points: list[Point], metric: names.Metric) -> dict[tuple[str, str], float]:
    return {
        (point.labels["peer_role"], point.labels["component"]): point.value for point in by_name(points, metric.name)
    }


def test_median_mad_and_reference_by_peer_role_and_component() -> None:
    points = job_points(FAULTY)
    assert levels(points, names.FUNCTION_MEDIAN) == {("all", "beta"): 0.125, ("all", "mu"): 0.5}
    assert levels(points, names.FUNCTION_MAD) == {("all", "beta"): 0.025, ("all", "mu"): 0.01}
    assert levels(points, names.FUNCTION_REFERENCE) == {("all", "beta"): 0.125, ("all", "mu"): 0.4}


def test_the_first_reference_window_is_the_reference() -> None:
    unknown = tuple((*level[:4], math.nan) for level in detail().functions[0].peers)
    function = replace(detail().functions[0], peers=unknown)
    first = report(reason="reference", detail=detail(functions=(function,)))
    points = job_points(status(report=first))
    assert levels(points, names.FUNCTION_REFERENCE) == levels(points, names.FUNCTION_MEDIAN)
    later = replace(first, reason="degraded")
    assert by_name(job_points(status(report=later)), names.FUNCTION_REFERENCE.name) == []


def test_the_series_of_peer_roles_have_a_budget() -> None:
    many = tuple((f"pp{role:02}", "beta", 0.1, 0.01, 0.1) for role in range(64))
    functions = tuple(replace(detail().functions[0], function_id=f"{at:012x}", peers=many) for at in range(50))
    points = job_points(status(report=report(detail=detail(functions=functions))))
    assert len(by_name(points, names.FUNCTION_MEDIAN.name)) == 20 * 8


def test_a_long_stack_keeps_its_inner_end() -> None:
    deep = tuple(f"module{index}:function:{index}" for index in range(200))
    (point,) = by_name(job_points(status(open_finding(stack=deep))), names.FUNCTION_INFO.name)
    text = point.labels["stack"]
    assert len(text.encode()) <= 1024
    assert text.startswith("... > module")
    assert text.endswith(deep[-1])
