"""What a person got of a fault: takes alerts and notifications, gives one Alarm, its text and its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from eroica_otel.demo.monitoring import DEAD_MAN, Alert
from eroica_otel.demo.webhook import Notification


@dataclass(frozen=True, slots=True)
class Named:
    """Something that was named in the run: an alert that fires, or a finding above info, at whatever time it was open.

    Attributes:
        what: Name of the alert, or cause of the finding.
        rank: Worker that it is about; "" for none.
        host: Where that runs; "" for none.
        link: Link that it is about, HOST-HOST; "" for none.
    """

    what: str
    rank: str = ""
    host: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Alarm:
    """The alert of a fault and how it arrived; times are seconds after the fault began.

    Attributes:
        alertname: Its name.
        labels: Its labels.
        annotations: Its annotations.
        firing_seconds: When it fired in Prometheus.
        notified_seconds: When the first notification of it arrived.
        receiver: Where that arrived.
        notifications: Messages about this job that had arrived by then.
        named: Everything that was named until then, this alert too.
    """

    alertname: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    firing_seconds: float
    notified_seconds: float
    receiver: str
    notifications: int
    named: tuple[Named, ...] = ()


def alarm(alert: Alert, notifications: Sequence[Notification], onset: float) -> Alarm | None:
    """Return the alarm once a notification of ``alert`` has come, None before; ``onset`` is the fault's Unix time."""
    about = [message for message in notifications if message.alertname != DEAD_MAN]
    first = next((message for message in about if message.alertname == alert.name), None)
    if first is None:
        return None
    return Alarm(
        alert.name,
        alert.labels,
        alert.annotations,
        round(alert.since - onset, 1),
        round(first.at - onset, 1),
        first.receiver,
        len(about),
    )


def as_json(found: Alarm) -> str:
    """Return the alarm as JSON."""
    return json.dumps(asdict(found), indent=1) + "\n"


def as_text(found: Alarm) -> str:
    """Return the alarm as a person reads it."""
    said, labels = found.annotations, found.labels
    where = f"rank {labels['rank']} on {labels['host']}" if "rank" in labels else labels.get("training_job", "")
    count = "1 notification" if found.notifications == 1 else f"{found.notifications} notifications"
    lines = [
        f"ALERT     {found.alertname}   {labels.get('severity', '')}   {where}",
        f"          {said.get('summary', '')}",
        f"          {said.get('description', '')}",
        f"          runbook {said.get('runbook_url') or said.get('runbook', '')}",
        f"          firing {found.firing_seconds:.0f} s after the fault began; {count}, "
        f"the first to {found.receiver} after {found.notified_seconds:.0f} s",
    ]
    return "\n".join(lines)
