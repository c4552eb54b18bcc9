"""Follows a fault through Prometheus: takes its onset, gives the alarm that a person gets, or that there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from eroica_otel import names
from eroica_otel.demo.alarm import Alarm, Named, alarm
from eroica_otel.demo.monitoring import Alert, Monitoring
from eroica_otel.errors import EroicaError

PIPELINE = "pipeline"
"""Domain of alerts that are not about the training."""
WORKER, LINK = "EroicaWorkerSlowsJob", "EroicaLinkSlowsJob"
NETWORK = "nic_degraded"
SETTLE_SECONDS = 10.0
"""What is named within this time after the notification counts too."""
_OPENED = f'count_over_time({names.IMPACT.name}{{severity!="info"}}[1h])'
"""All findings above info that Prometheus has ever seen: it is as old as the demo."""
Wait = Callable[[str, Callable[[], bool]], None]
"""Waits until something is true; the first argument says for what."""


def to_alarm(
    monitoring: Monitoring,
    wait: Wait,
    say: Callable[[str], None],
    onset: float,
    clock: Callable[[], float] = time.monotonic,
) -> Alarm:
    """Return the alarm of the first alert about the training after ``onset`` (Unix time), once it was received.

    It is looked at some seconds later, so that what is named beside it, by then or at any time before, is in it too.
    """
    firing: list[Alert] = []

    def fires() -> bool:
        firing[:] = _about_training(monitoring)
        return bool(firing)

    wait("an alert to fire in Prometheus", fires)
    first = min(firing, key=lambda alert: alert.since)
    say(f"{first.name} fires in Prometheus, {first.since - onset:.0f} s after the fault began")
    wait("Alertmanager to send its notification", lambda: _received(monitoring, first, onset) is not None)
    end = clock() + SETTLE_SECONDS
    wait("whether anything else is named", lambda: clock() >= end)
    found = _received(monitoring, first, onset)
    assert found is not None
    return replace(found, named=tuple(_alerts(monitoring) + _findings(monitoring)))


def _received(monitoring: Monitoring, alert: Alert, onset: float) -> Alarm | None:
    return alarm(alert, monitoring.webhook.notifications(), onset)


def _about_training(monitoring: Monitoring) -> list[Alert]:
    return [alert for alert in monitoring.firing() if alert.labels.get("domain") != PIPELINE]


def _alerts(monitoring: Monitoring) -> list[Named]:
    """Return what fires; an alert stays for minutes, so these are all that fired in the demo."""
    found = _about_training(monitoring)
    return [Named(alert.name, alert.labels.get("rank", ""), alert.labels.get("host", "")) for alert in found]


def _findings(monitoring: Monitoring) -> list[Named]:
    labels = [row["metric"] for row in monitoring.query(_OPENED)]
    return [Named(one["cause"], *(one.get(name, "") for name in ("rank", "host", "link"))) for one in labels]


def to_silence(monitoring: Monitoring, wait: Wait, window_id: int) -> None:
    """Return once Prometheus has the verdict on ``window_id``, has evaluated the rules since, and nothing was named.

    Raises:
        EroicaError: an alert fires, or there was a finding above info at any time.
    """

    def known() -> bool:
        return any(float(row["value"][1]) >= window_id for row in monitoring.query(names.LOCALIZER_WINDOW.name))

    wait("Prometheus to know the verdict", known)
    # What is evaluated from now on is evaluated with the verdict in place.
    moment = time.time()
    wait("Prometheus to evaluate the rules", lambda: monitoring.evaluated_since(moment))
    alerts = [Named(alert.name) for alert in monitoring.firing()]
    if named := sorted({one.what for one in [*alerts, *_findings(monitoring)]}):
        raise EroicaError(f"nothing is wrong with the training, and yet this was named: {', '.join(named)}")


def check(found: Alarm, rank: int, cause: str) -> None:
    """Compare the alarm with what was done.

    Raises:
        EroicaError: it names another worker or cause, more than one notification came, or anything but the worker
            that was hurt (or its link, where that was limited) was named beside it.
    """
    got = (found.alertname, found.labels.get("rank"), found.annotations.get("cause"), found.notifications)
    wanted = (WORKER, str(rank), cause, 1)
    if got != wanted:
        raise EroicaError(f"the alert is wrong: {_words(*got)}, but it should be {_words(*wanted)}")
    host = found.labels.get("host", "")
    if others := [one for one in found.named if not _is_right(one, str(rank), host, cause)]:
        said = ", ".join(sorted({f"{one.what} on {_where(one)}" for one in others}))
        raise EroicaError(f"beside rank {rank}, which was hurt, others are named: {said}")


def _is_right(one: Named, rank: str, host: str, cause: str) -> bool:
    """Return whether the worker that was hurt is meant, or its link; the alert of a link does not say which."""
    if one.rank or cause != NETWORK:
        return (one.rank, one.host) == (rank, host)
    return one.what == LINK or (one.what == cause and host in one.link)


def _where(one: Named) -> str:
    return f"rank {one.rank}" if one.rank else f"link {one.link}" if one.link else "no worker"


def _words(name: str, rank: str | None, cause: str | None, notifications: int) -> str:
    return f"{name} on rank {rank} with cause {cause} in {notifications} notification(s)"
