"""A real Alertmanager with the example's routes: one fault is one notification, and no job silences another."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from alert_rules import ALERTS
from eroica_otel.demo.webhook import Webhook
from jobs import wait_until
from servers import Server, alertmanager


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.stop()


@pytest.fixture
def running(tmp_path: Path, webhook: Webhook) -> Iterator[Server]:
    """Run the example with the webhook's address and a shorter wait."""
    text = (ALERTS / "alertmanager.example.yml").read_text("utf-8")
    assert "group_wait: 15s" in text
    config = text.replace("http://127.0.0.1:9099", webhook.url).replace("group_wait: 15s", "group_wait: 2s")
    with alertmanager(tmp_path, config) as server:
        yield server


def raised(name: str, job: str, severity: str = "warning", team: str = "nlp", **labels: str) -> dict[str, object]:
    identity = {"alertname": name, "training_job": job, "team": team, "severity": severity}
    return {"labels": {key: value for key, value in (identity | labels).items() if value}}


def send(server: Server, *alerts: dict[str, object]) -> None:
    body = json.dumps(alerts).encode()
    request = urllib.request.Request(f"{server.url}/api/v2/alerts", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 200


def told(webhook: Webhook) -> list[tuple[str, str, str, str, int]]:
    """Return receiver, alert, job, team and number of alerts of each notification."""
    return [
        (
            message.receiver,
            message.alertname,
            message.alerts[0].get("training_job", ""),
            message.alerts[0].get("team", ""),
            len(message.alerts),
        )
        for message in webhook.notifications()
    ]


def test_one_fault_is_one_notification_and_no_job_silences_another(running: Server, webhook: Webhook) -> None:
    send(
        running,
        # A rank of job a hangs; what that entails is not told.
        raised("EroicaWorkerHangsJob", "a", "critical", rank="1", host="n1"),
        raised("EroicaJobBlocked", "a", "critical"),
        raised("EroicaWorkerSlowsJob", "a", "warning", rank="3", host="n2"),
        raised("EroicaWindowIncomplete", "a", "warning", domain="pipeline"),
        # What has nothing to do with it goes to who runs the monitoring all the same.
        raised("EroicaDeliveriesFailing", "a", "warning", domain="pipeline"),
        # Job b of the same team, and job a of another, have faults of their own; two ranks of one node are one of them.
        raised("EroicaWorkerSlowsJob", "b", "warning", rank="4", host="n3"),
        raised("EroicaWorkerSlowsJob", "b", "warning", rank="5", host="n3"),
        raised("EroicaWorkerSlowsJob", "a", "warning", team="vision", rank="3", host="n2"),
        raised("EroicaWorkerSlowsJob", "a", "warning", team="", rank="3", host="n2"),
        # All workers of job c are slow; its single workers and its symptom are not told.
        raised("EroicaJobSlowedEverywhere", "c", "warning"),
        raised("EroicaWorkerSlowsJob", "c", "warning", rank="0", host="n4"),
        raised("EroicaJobSlower", "c", "warning"),
        # One worker of job d is worse than what slows all.
        raised("EroicaJobSlowedEverywhere", "d", "warning"),
        raised("EroicaWorkerSlowsJob", "d", "critical", rank="0", host="n5"),
        # The slow worker of job e became critical, and its warning stays for some minutes.
        raised("EroicaWorkerSlowsJob", "e", "warning", rank="0", host="n7", domain="code"),
        raised("EroicaWorkerSlowsJob", "e", "critical", rank="0", host="n7", domain="code"),
        # The cause at job f turned out to be of another domain, and its first alert stays for some minutes.
        raised("EroicaWorkerSlowsJob", "f", "warning", rank="0", host="n8", domain="code"),
        raised("EroicaWorkerSlowsJob", "f", "warning", rank="0", host="n8", domain="data"),
        # One role of job g is slow, which explains its symptom; at job h all workers are.
        raised("EroicaRoleSlowsJob", "g", "warning", role="all"),
        raised("EroicaJobSlower", "g", "warning"),
        raised("EroicaJobSlowedEverywhere", "h", "warning"),
        raised("EroicaRoleSlowsJob", "h", "warning", role="all"),
        # What is about no job is silenced by none.
        raised("EroicaLocalizerFailing", "", "warning", team="", domain="pipeline"),
        raised("EroicaDeadMan", "", "none", team=""),
        # A critical fault of job i in the code does not keep a warning about hardware from who runs the machines.
        raised("EroicaWorkerSlowsJob", "i", "critical", rank="0", host="n9", domain="code"),
        raised("EroicaWorkerSlowsJob", "i", "warning", rank="5", host="n10", domain="hardware"),
        raised("EroicaLinkSlowsJob", "j", "critical", domain="hardware"),
        raised("EroicaWorkerSlowsJob", "j", "warning", rank="5", host="n11", domain="hardware"),
    )
    expected = {
        ("owners", "EroicaWorkerHangsJob", "a", "nlp", 1),
        ("owners", "EroicaWorkerSlowsJob", "b", "nlp", 2),
        ("owners", "EroicaWorkerSlowsJob", "a", "vision", 1),
        ("owners", "EroicaWorkerSlowsJob", "a", "", 1),
        ("owners", "EroicaJobSlowedEverywhere", "c", "nlp", 1),
        ("owners", "EroicaWorkerSlowsJob", "d", "nlp", 1),
        ("owners", "EroicaWorkerSlowsJob", "e", "nlp", 1),
        ("owners", "EroicaWorkerSlowsJob", "f", "nlp", 2),
        ("owners", "EroicaRoleSlowsJob", "g", "nlp", 1),
        ("owners", "EroicaJobSlowedEverywhere", "h", "nlp", 1),
        ("platform", "EroicaLocalizerFailing", "", "", 1),
        ("platform", "EroicaDeliveriesFailing", "a", "nlp", 1),
        ("watchdog", "EroicaDeadMan", "", "", 1),
        ("owners", "EroicaWorkerSlowsJob", "i", "nlp", 1),
        ("infrastructure", "EroicaWorkerSlowsJob", "i", "nlp", 1),
        ("infrastructure", "EroicaLinkSlowsJob", "j", "nlp", 1),
    }
    wait_until(lambda: set(told(webhook)) >= expected, "all notifications to come")
    # What is raised after them is told after them: whatever else there was to tell has been told by then.
    send(running, raised("EroicaWorkerSlowsJob", "last", "warning", rank="0", host="n6"))
    last = ("owners", "EroicaWorkerSlowsJob", "last", "nlp", 1)
    wait_until(lambda: last in told(webhook), "the last notification to come")
    assert sorted(told(webhook)) == sorted({*expected, last})
    suppressed = {
        (alert["labels"]["alertname"], alert["labels"]["training_job"])
        for alert in running.get("/api/v2/alerts")
        if alert["status"]["state"] == "suppressed"
    }
    assert suppressed == {
        ("EroicaJobBlocked", "a"),
        ("EroicaWorkerSlowsJob", "a"),
        ("EroicaWindowIncomplete", "a"),
        ("EroicaWorkerSlowsJob", "c"),
        ("EroicaJobSlower", "c"),
        ("EroicaJobSlowedEverywhere", "d"),
        ("EroicaWorkerSlowsJob", "e"),
        ("EroicaJobSlower", "g"),
        ("EroicaRoleSlowsJob", "h"),
        ("EroicaWorkerSlowsJob", "j"),
    }
