"""Findings as the localizer publishes them, and the alerts that they are in a real rule engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alert_rules import RULES, run
from eroica_otel.publish.series import JobStatus, OpenFinding, job_points
from factories_central import finding, identity, report

JOB = {"training_job": "llm-7b", "team": "vision", "severity": "critical", "domain": "code"}


def quoted(labels: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(labels.items())) + "}"


def series(**changes: Any) -> list[dict[str, str]]:
    judged = finding(**changes)
    opened = OpenFinding(judged, 1, "degraded", tuple(identity(rank) for rank in judged.ranks), 3, "other")
    points = job_points(JobStatus("llm-7b", "vision", 4, (opened,), report()))
    # A label without a value is none in Prometheus.
    given = [(each.name, {key: text for key, text in each.labels.items() if text}, each.value) for each in points]
    return [{"series": name + quoted(labels), "values": f"_ {value:g}"} for name, labels, value in given]


def firing(alertname: str, **labels: str) -> str:
    return "ALERTS" + quoted(JOB | {"alertname": alertname, "alertstate": "firing"} | labels)


ROLE: dict[str, Any] = {"scope": "role", "ranks": (2, 3), "cause": "pipeline_imbalance"}
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "two workers of one fault": (
        {"ranks": (1, 2)},
        [
            firing("EroicaWorkerSlowsJob", rank="1", host="host-0"),
            firing("EroicaWorkerSlowsJob", rank="2", host="host-1"),
        ],
    ),
    "a stage, wherever it runs": (ROLE | {"hosts": ()}, [firing("EroicaRoleSlowsJob", role="all")]),
    "a role on known hosts": (
        ROLE | {"hosts": ("host-1",), "cause": "python_overhead"},
        [firing("EroicaRoleSlowsJob", role="all")],
    ),
    "all processes of a role are stopped, each of which can be looked at": (
        ROLE | {"hosts": ("host-1",), "cause": "process_stopped"},
        [firing("EroicaWorkerHangsJob", rank=rank, host="host-1") for rank in ("2", "3")],
    ),
    "a role of which there is nothing but something to know": (ROLE | {"severity": "info"}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_a_finding_is_the_alerts_of_its_scope(case: str, tmp_path: Path) -> None:
    changes, expected = CASES[case]
    told = {
        "expr": 'ALERTS{alertname=~"Eroica(Worker|Role|Link|Job).*", domain!="pipeline"}',
        "eval_time": "1m",
        "exp_samples": [{"labels": labels, "value": 1} for labels in expected],
    }
    test = {"interval": "1m", "input_series": series(**changes), "promql_expr_test": [told]}
    # YAML takes JSON.
    (tmp_path / "case.yml").write_text(json.dumps({"rule_files": [str(path) for path in RULES], "tests": [test]}))
    assert "SUCCESS" in run("promtool", "test", "rules", tmp_path / "case.yml")
