"""What the demo says of the alert: from alerts and notifications, nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eroica_otel.demo import follow
from eroica_otel.demo.alarm import Alarm, Named, alarm, as_json, as_text
from eroica_otel.demo.monitoring import Alert, Monitoring, _unix, free_ports
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


@dataclass
class Scene:
    """Stands for Prometheus and the webhook: what fires, which findings there ever were, what has arrived."""

    alerts: list[Alert] = field(default_factory=lambda: [alert()])
    labels: list[dict[str, str]] = field(default_factory=list)
    arrived: list[Notification] = field(default_factory=lambda: [message()])
    now: float = 0.0

    def firing(self) -> list[Alert]:
        return self.alerts

    def query(self, expression: str) -> list[Any]:
        assert expression.startswith("count_over_time(eroica_anomaly_impact_ratio{severity!=")
        return [{"metric": labels} for labels in self.labels]

    @property
    def webhook(self) -> SimpleNamespace:
        return SimpleNamespace(notifications=lambda: self.arrived)

    def wait(self, what: str, reached: Callable[[], bool]) -> None:
        while not reached():
            self.now += 1
            assert self.now < 100, what
            self.later()

    def later(self) -> None:
        """Happens each second that somebody waits."""

    def followed(self) -> Alarm:
        def say(text: str) -> None:
            pass

        return follow.to_alarm(cast(Monitoring, self), self.wait, say, 100.0, clock=lambda: self.now)


def finding(rank: str = "2", host: str = "node-c", link: str = "", cause: str = "slow_input") -> dict[str, str]:
    """Return the labels of an impact; Prometheus leaves empty ones out."""
    given = {"cause": cause, "rank": rank, "host": host, "link": link, "severity": "critical"}
    return {name: value for name, value in given.items() if value}


def test_the_hurt_worker_alone_passes_also_with_two_severities() -> None:
    scene = Scene([alert(), alert(severity="warning")], [finding(), finding(cause="python_blocked")])
    follow.check(scene.followed(), 2, "slow_input")


def test_an_alert_of_a_healthy_worker_that_fires_with_the_right_one_is_wrong_although_one_message_came() -> None:
    found = Scene([alert(), alert(since=130.0, rank="1", host="node-b")], [finding()]).followed()
    assert (found.labels["rank"], found.notifications) == ("2", 1)
    with pytest.raises(EroicaError, match=r"others are named: EroicaWorkerSlowsJob on rank 1$"):
        follow.check(found, 2, "slow_input")


def test_an_alert_of_a_healthy_worker_that_fires_seconds_after_the_notification_is_wrong() -> None:
    class Later(Scene):
        def later(self) -> None:
            if self.now == 9:
                self.alerts.append(alert(since=150.0, rank="0"))
            if self.now == 10:
                self.arrived.append(message(at=150.0))

    found = Later().followed()
    assert found.notifications == 2
    assert [one.rank for one in found.named] == ["2", "0"]


def test_alerts_of_the_pipeline_name_nobody() -> None:
    scene = Scene([alert(), alert("EroicaDeliveriesFail", domain="pipeline")])
    assert scene.followed().named == (Named("EroicaWorkerSlowsJob", "2", "node-c"),)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (finding(rank="3"), "slow_input on rank 3"),
        (finding(host="node-b"), "slow_input on rank 2"),  # the right number on another host
        (finding("", "", "node-a-node-c", "nic_degraded"), "nic_degraded on link node-a-node-c"),
        (finding("", ""), "slow_input on no worker"),
    ],
)
def test_a_finding_on_anything_else_at_any_time_is_wrong(labels: dict[str, str], said: str) -> None:
    found = Scene(labels=[finding(), labels]).followed()
    with pytest.raises(EroicaError, match=f"others are named: {said}$"):
        follow.check(found, 2, "slow_input")


def test_where_a_link_was_limited_its_own_link_may_be_named_too_and_no_other() -> None:
    right = replace(alert(), annotations={"cause": "nic_degraded"})
    link = alert("EroicaLinkSlowsJob", rank="", host="")
    seen = [finding(cause="nic_degraded"), finding("", "", "node-a-node-c", "nic_degraded")]
    follow.check(Scene([right, link], seen).followed(), 2, "nic_degraded")
    found = Scene([right, link], [*seen, finding("", "", "node-a-node-b", "nic_degraded")]).followed()
    with pytest.raises(EroicaError, match=r"others are named: nic_degraded on link node-a-node-b$"):
        follow.check(found, 2, "nic_degraded")


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (Scene([], [finding(rank="0")]), "slow_input"),  # it has ended, and no alert fires any more
        (Scene(), "EroicaWorkerSlowsJob"),
    ],
)
def test_a_clean_run_in_which_anything_was_named_is_said(scene: Scene, said: str) -> None:
    def wait(what: str, reached: Callable[[], bool]) -> None:
        pass

    with pytest.raises(EroicaError, match=f"yet this was named: {said}$"):
        follow.to_silence(cast(Monitoring, scene), wait, 7)
    follow.to_silence(cast(Monitoring, Scene([])), wait, 7)


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


def test_free_ports_are_none_that_a_connection_going_out_is_given() -> None:
    first, *_, last = free_ports(4)
    assert 1024 < first < last < 32768
