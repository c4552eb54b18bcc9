"""The Alertmanager example: accepted, routed by severity, inhibited within one job of one team only."""

from __future__ import annotations

import re

import pytest

from alert_rules import ALERTS, FINDINGS, alerts, read, run

EXAMPLE = ALERTS / "alertmanager.example.yml"


def test_amtool_accepts_it() -> None:
    assert "SUCCESS" in run("amtool", "check-config", EXAMPLE)


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (("alertname=EroicaWorkerSlowsJob", "severity=critical", "team=nlp", "training_job=llm"), "pager"),
        (("alertname=EroicaWorkerSlowsJob", "severity=warning", "team=nlp", "training_job=llm"), "tickets"),
        (("alertname=EroicaLocalizerAbsent", "severity=warning"), "tickets"),
        (("alertname=EroicaDeadMan", "severity=none"), "watchdog"),
        (("alertname=SomebodyElses", "severity=critical"), "tickets"),
    ],
)
def test_an_alert_goes_where_its_severity_says(labels: tuple[str, ...], receiver: str) -> None:
    routed = run("amtool", "config", "routes", "test", f"--config.file={EXAMPLE}", *labels)
    assert routed.splitlines()[0] == receiver


def test_grouping_and_inhibition_are_by_team_and_job_never_by_the_label_of_the_scrape() -> None:
    config = read(EXAMPLE)
    assert config["route"]["group_by"] == ["alertname", "team", "training_job"]
    for rule in config["inhibit_rules"]:
        assert rule["equal"] == ["team", "training_job"]
        assert 'training_job=~".+"' in rule["source_matchers"]


def test_the_example_names_alerts_that_exist() -> None:
    named = set(re.findall(r"Eroica[A-Z]\w+", EXAMPLE.read_text("utf-8")))
    assert named <= set(alerts())
    assert set(FINDINGS) <= named
