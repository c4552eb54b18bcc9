"""The webhook keeps what an Alertmanager sends and refuses what is none of it."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from eroica_otel.demo.webhook import MOST_BYTES, Notification, Webhook


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook(clock=lambda: 7.0)
    yield server
    server.stop()


def send(webhook: Webhook, body: bytes) -> int:
    request = urllib.request.Request(f"{webhook.url}/in/pager", body, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_message_is_kept_with_its_receiver_and_time(webhook: Webhook) -> None:
    message = {
        "status": "firing",
        "commonLabels": {"alertname": "A", "team": "t"},
        "alerts": [{"labels": {"alertname": "A", "rank": "1"}}, {"labels": {"alertname": "A", "rank": "2"}}],
    }
    assert send(webhook, json.dumps(message).encode()) == 200
    alerts = ({"alertname": "A", "rank": "1"}, {"alertname": "A", "rank": "2"})
    assert webhook.notifications() == (Notification("pager", 7.0, "firing", "A", alerts),)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"alerts": 3}', b'{"alerts": [{}]}', b'"text"'])
def test_what_is_no_message_is_refused(webhook: Webhook, body: bytes) -> None:
    assert send(webhook, body) == 400
    assert webhook.notifications() == ()


def test_a_message_without_end_is_refused(webhook: Webhook) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", webhook.port, timeout=10)
    # Announced, not sent: the refusal comes before the body, and may cut off who is still sending.
    connection.putrequest("POST", "/in/pager")
    connection.putheader("Content-Length", str(MOST_BYTES + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
