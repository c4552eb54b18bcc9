"""What the demo says of the alert: from alerts and notifications, nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from eroica_otel.demo import follow
from eroica_otel.demo.alarm import Alarm, alarm, as_json, as_text
from eroica_otel.demo.monitoring import Alert, _unix, free_ports
from eroica_otel.demo.webhook import Notification
from eroica_otel.errors import EroicaError


def alert(name: str = "EroicaWorkerSlowsJob", since: float = 130.0, **labels: str) -> Alert:
    given = {"training_job": "demo", "rank": "2", "host": "node-c", "severity": "critical"} | labels
    return Alert(name, given, {"summary": "Slow.", "description": "Why.", "cause": "slow_input"}, since)


def message(name: str = "EroicaWorkerSlowsJob", at: float = 145.0, receiver: str = "pager") -> Notification:
    return Notification(receiver, at, "firing", name, ({"alertname": name},))


def made(**changes: Any) -> Alarm:
    found = alarm(alert(), [message()], onset=100.0)
    assert found is not None
    return replace(found, **changes)


def test_there_is_no_alarm_before_its_notification() -> None:
    assert alarm(alert(), [], 100.0) is None
    assert alarm(alert(), [message("EroicaDeadMan"), message("EroicaJobSlower")], 100.0) is None


def test_times_count_from_the_onset_and_the_dead_man_is_no_notification() -> None:
    found = alarm(alert(), [message("EroicaDeadMan", 101.0), message(), message(at=150.0)], 100.0)
    assert found is not None
    assert (found.firing_seconds, found.notified_seconds, found.receiver, found.notifications) == (30, 45, "pager", 2)


def test_the_text_names_the_worker_and_both_times() -> None:
    text = as_text(made())
    assert text.startswith("ALERT     EroicaWorkerSlowsJob   critical   rank 2 on node-c\n")
    assert "firing 30 s after the fault began; 1 notification, the first to pager after 45 s" in text
    assert json.loads(as_json(made()))["firing_seconds"] == 30


def test_the_right_alarm_passes() -> None:
    follow.check(made(), 2, "slow_input")


@pytest.mark.parametrize(
    "wrong",
    [
        {"alertname": "EroicaJobSlower"},
        {"labels": {"rank": "1"}},
        {"labels": {}},
        {"annotations": {"cause": "unknown"}},
        {"annotations": {}},
        {"notifications": 2},
    ],
)
def test_a_wrong_alarm_is_said_with_what_it_should_be(wrong: dict[str, object]) -> None:
    with pytest.raises(EroicaError, match="it should be EroicaWorkerSlowsJob on rank 2 with cause slow_input in 1"):
        follow.check(made(**wrong), 2, "slow_input")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2025-11-29T15:26:40Z", 1764430000.0),
        ("2025-11-29T15:26:40.25Z", 1764430000.25),
        ("2025-11-29T16:26:40.123456789+01:00", 1764430000.123456789),
    ],
)
def test_times_of_prometheus_are_read_to_the_last_decimal(text: str, seconds: float) -> None:
    assert _unix(text) == pytest.approx(seconds, abs=1e-6)


def test_free_ports_are_neighbours() -> None:
    first, *rest = free_ports(4)
    assert rest == [first + 1, first + 2, first + 3]
