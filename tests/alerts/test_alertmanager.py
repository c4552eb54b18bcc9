"""The Alertmanager example: accepted, routed by domain and team, inhibited within one job of one team only."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from alert_rules import EXAMPLE, FINDINGS, RECEIVERS, alerts, read, run, with_mail_and_chat


def test_amtool_accepts_it() -> None:
    assert "SUCCESS" in run("amtool", "check-config", EXAMPLE)


WORKER = "alertname=EroicaWorkerSlowsJob"
ROUTED = [
    ((WORKER, "severity=critical", "domain=hardware", "team=research", "training_job=llm"), "infrastructure"),
    (("alertname=EroicaSlowWorkerThrottles", "severity=warning", "domain=hardware", "team=nlp"), "infrastructure"),
    ((WORKER, "severity=critical", "domain=code", "team=research", "training_job=llm"), "research"),
    ((WORKER, "severity=warning", "domain=data", "team=research", "training_job=llm"), "research"),
    ((WORKER, "severity=warning", "domain=code", "team=nlp", "training_job=llm"), "owners"),
    (("alertname=EroicaJobBlocked", "severity=critical", "domain=training", "training_job=llm"), "owners"),
    (("alertname=EroicaWindowIncomplete", "severity=warning", "domain=pipeline", "team=research"), "platform"),
    (("alertname=EroicaDeadMan", "severity=none", "domain=pipeline"), "watchdog"),
]


@pytest.mark.parametrize(
    ("labels", "receiver"), [*ROUTED, (("alertname=SomebodyElses", "severity=critical"), "default")]
)
def test_an_alert_goes_to_who_can_mend_it(labels: tuple[str, ...], receiver: str) -> None:
    routed = run("amtool", "config", "routes", "test", f"--config.file={EXAMPLE}", *labels)
    assert routed.splitlines()[0] == receiver


def test_grouping_and_inhibition_are_by_team_and_job_never_by_the_label_of_the_scrape() -> None:
    config = read(EXAMPLE)
    (ours,) = config["route"]["routes"]
    assert ours["group_by"] == ["alertname", "team", "training_job"]
    for rule in config["inhibit_rules"]:
        assert rule["equal"] == ["team", "training_job"]
        assert 'training_job=~".+"' in rule["source_matchers"]


def test_a_configuration_that_exists_takes_route_rules_and_receivers_and_keeps_its_own_ways(tmp_path: Path) -> None:
    example = read(EXAMPLE)
    (route,) = example["route"]["routes"]
    mine = {
        "route": {
            "receiver": "mine",
            "group_by": ["instance"],
            "routes": [{"receiver": "night", "matchers": ["x=y"]}, route],
        },
        "inhibit_rules": example["inhibit_rules"],
        "receivers": [{"name": "mine"}, {"name": "night"}, *example["receivers"]],
    }
    (tmp_path / "mine.yml").write_text(json.dumps(mine))  # YAML takes JSON
    run("amtool", "check-config", tmp_path / "mine.yml")
    for labels, receiver in [*ROUTED, (("alertname=SomebodyElses",), "mine"), (("x=y",), "night")]:
        routed = run("amtool", "config", "routes", "test", f"--config.file={tmp_path / 'mine.yml'}", *labels)
        assert routed.splitlines()[0] == receiver


def test_the_receivers_by_mail_and_chat_fit_the_example(tmp_path: Path) -> None:
    merged = with_mail_and_chat()
    assert {each["name"] for each in read(RECEIVERS)["receivers"]} <= {
        each["name"] for each in read(EXAMPLE)["receivers"]
    }
    (tmp_path / "merged.yml").write_text(json.dumps(merged))
    assert "1 templates" in run("amtool", "check-config", tmp_path / "merged.yml")


def test_the_example_names_alerts_that_exist() -> None:
    named = set(re.findall(r"Eroica[A-Z]\w+", EXAMPLE.read_text("utf-8")))
    assert named <= set(alerts())
    assert set(FINDINGS) <= named
