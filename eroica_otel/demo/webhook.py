"""Takes what an Alertmanager sends over HTTP, gives the notifications in the order in which they came."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eroica_otel.webserver import Address, BoundedServer, Handler

MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Notification:
    """One message of an Alertmanager.

    Attributes:
        receiver: Last part of the address it was sent to.
        at: Unix time of its arrival.
        status: "firing" or "resolved".
        alertname: Name that all of its alerts share.
        alerts: Labels of each of its alerts.
    """

    receiver: str
    at: float
    status: str
    alertname: str
    alerts: tuple[Mapping[str, str], ...]


class Webhook(BoundedServer):
    """Receives on a free loopback port until ``stop``."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Bind and serve."""
        super().__init__(Address("127.0.0.1", 0), _Receiver)
        self._clock = clock
        self._lock = threading.Lock()
        self._taken: list[Notification] = []
        self.start("webhook")

    def notifications(self) -> Sequence[Notification]:
        """Return what has come until now."""
        with self._lock:
            return tuple(self._taken)

    def take(self, receiver: str, message: Mapping[str, Any]) -> None:
        """Remember one message in Alertmanager's webhook format.

        Raises:
            LookupError: it has another form.
        """
        alerts = tuple(dict(alert["labels"]) for alert in message["alerts"])
        name = message["commonLabels"].get("alertname", "")
        with self._lock:
            self._taken.append(Notification(receiver, self._clock(), message["status"], name, alerts))


class _Receiver(Handler):
    server: Webhook

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 < length <= MOST_BYTES:
            self.answer(413, b"give a message of at most a megabyte\n")
            return
        try:
            self.server.take(self.path.rpartition("/")[2], json.loads(self.rfile.read(length)))
        except (ValueError, LookupError, TypeError, AttributeError):
            self.answer(400, b"this is no message of an Alertmanager\n")
        else:
            self.answer(200, b"")
