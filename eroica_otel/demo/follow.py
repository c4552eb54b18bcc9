"""Follows a fault through Prometheus: takes its onset, gives the alarm that a person gets, or that there is none."""

from __future__ import annotations

import time
from collections.abc import Callable

from eroica_otel import names
from eroica_otel.demo.alarm import Alarm, alarm
from eroica_otel.demo.monitoring import Alert, Monitoring
from eroica_otel.errors import EroicaError

PIPELINE = "pipeline"
"""Domain of alerts that are not about the training."""
Wait = Callable[[str, Callable[[], bool]], None]
"""Waits until something is true; the first argument says for what."""


def to_alarm(monitoring: Monitoring, wait: Wait, say: Callable[[str], None], onset: float) -> Alarm:
    """Return the alarm of the first alert about the training after ``onset`` (Unix time), once it was received."""
    firing: list[Alert] = []

    def fires() -> bool:
        firing[:] = [alert for alert in monitoring.firing() if alert.labels.get("domain") != PIPELINE]
        return bool(firing)

    wait("an alert to fire in Prometheus", fires)
    first = min(firing, key=lambda alert: alert.since)
    say(f"{first.name} fires in Prometheus, {first.since - onset:.0f} s after the fault began")
    wait("Alertmanager to send its notification", lambda: _received(monitoring, first, onset) is not None)
    found = _received(monitoring, first, onset)
    assert found is not None
    return found


def _received(monitoring: Monitoring, alert: Alert, onset: float) -> Alarm | None:
    return alarm(alert, monitoring.webhook.notifications(), onset)


def to_silence(monitoring: Monitoring, wait: Wait, window_id: int) -> None:
    """Return once Prometheus has the verdict on ``window_id``, has evaluated the rules since, and nothing fires.

    Raises:
        EroicaError: an alert fires.
    """

    def known() -> bool:
        return any(float(row["value"][1]) >= window_id for row in monitoring.query(names.LOCALIZER_WINDOW.name))

    wait("Prometheus to know the verdict", known)
    # What is evaluated from now on is evaluated with the verdict in place.
    moment = time.time()
    wait("Prometheus to evaluate the rules", lambda: monitoring.evaluated_since(moment))
    firing = ", ".join(sorted(alert.name for alert in monitoring.firing()))
    if firing:
        raise EroicaError(f"nothing is wrong with the training, and yet there is an alert: {firing}")


def check(found: Alarm, rank: int, cause: str) -> None:
    """Compare the alarm with what was done.

    Raises:
        EroicaError: it names another worker or cause, or more than one notification came.
    """
    got = (found.alertname, found.labels.get("rank"), found.annotations.get("cause"), found.notifications)
    wanted = ("EroicaWorkerSlowsJob", str(rank), cause, 1)
    if got != wanted:
        raise EroicaError(f"the alert is wrong: {_words(*got)}, but it should be {_words(*wanted)}")


def _words(name: str, rank: str | None, cause: str | None, notifications: int) -> str:
    return f"{name} on rank {rank} with cause {cause} in {notifications} notification(s)"
