"""The demo's Prometheus and Alertmanager: their configuration, the commands that start them, and what they answer.

The rules and the Alertmanager's routes are those of alerts/, as a user gets them; only the receivers' addresses change.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import socket
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from eroica_otel import assets
from eroica_otel.demo.webhook import Webhook
from eroica_otel.errors import EroicaError

INTERVAL = "5s"
"""Of scrapes and of rules."""
DEAD_MAN = "EroicaDeadMan"
ALERTMANAGERS = ("prometheus-alertmanager", "alertmanager")
"""What the program is called: on Debian, and as it is released."""
LOWEST_PORT, HIGHEST_PORT = 10_000, 29_000
"""Where free ports are looked for."""
_REMEDY = "on Debian: apt-get install --no-install-recommends prometheus prometheus-alertmanager"


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that fires in Prometheus.

    Attributes:
        name: Its name.
        labels: Its labels without the name.
        annotations: Its annotations.
        since: Unix time at which it became active; with "for: 0s" it fires since then.
    """

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    since: float


class Monitoring:
    """One Prometheus and one Alertmanager on loopback, and the webhook to which the latter sends.

    Attributes:
        url: Address of Prometheus.
        webhook: What received the notifications.
    """

    def __init__(self, folder: Path) -> None:
        """Find the programs, take ports and open the webhook.

        Raises:
            EroicaError: a program is not installed.
        """
        self._prometheus = _program("prometheus")
        self._alertmanager = _program(*ALERTMANAGERS)
        self._folder = folder
        self._port, self._alert_port = free_ports(1)[0], free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self._port}"
        self.webhook = Webhook()

    def close(self) -> None:
        """Stop the webhook; the two servers are ended by who started them."""
        self.webhook.stop()

    def configure(self, targets: Mapping[str, Sequence[str]]) -> None:
        """Write both configurations; ``targets`` are addresses (HOST:PORT) by scrape job."""
        self._folder.mkdir(parents=True, exist_ok=True)
        example = (assets.path("alerts") / "alertmanager.example.yml").read_text("utf-8")
        ours = re.sub(r"http://127\.0\.0\.1:9099", f"http://127.0.0.1:{self.webhook.port}", example)
        (self._folder / "alertmanager.yml").write_text(ours, "utf-8")
        rules = assets.path("alerts") / "rules" / "*.yml"
        lines = [
            f"global: {{scrape_interval: {INTERVAL}, scrape_timeout: {INTERVAL}, evaluation_interval: {INTERVAL}}}",
            f"rule_files: [{json.dumps(str(rules))}]",
            f'alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{self._alert_port}"]}}]}}]}}',
            "scrape_configs:",
        ]
        for job, addresses in targets.items():
            lines += [f"  - job_name: {job}", f"    static_configs: [{{targets: {json.dumps(list(addresses))}}}]"]
        (self._folder / "prometheus.yml").write_text("\n".join([*lines, ""]), "utf-8")

    def commands(self) -> dict[str, list[str]]:
        """Return what to start, by name, first what must be there first."""
        return {
            "alertmanager": [
                self._alertmanager,
                f"--config.file={self._folder / 'alertmanager.yml'}",
                f"--storage.path={self._folder / 'alertmanager'}",
                f"--web.listen-address=127.0.0.1:{self._alert_port}",
                "--cluster.listen-address=",
            ],
            "prometheus": [
                self._prometheus,
                f"--config.file={self._folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._folder / 'prometheus'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
                "--rules.alert.resend-delay=5s",
            ],
        }

    def query(self, expression: str) -> list[Any]:
        """Return the result of an instant query; empty while Prometheus starts."""
        data = self._get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        return list(data.get("result", ()))

    def firing(self) -> list[Alert]:
        """Return the alerts that fire now, without the one that always does."""
        found = self._get("/api/v1/alerts").get("alerts", ())
        return [_alert(alert) for alert in found if _counts(alert)]

    def evaluated_since(self, moment: float) -> bool:
        """Return whether all rules have been evaluated after the Unix time ``moment``."""
        groups = self._get("/api/v1/rules").get("groups", ())
        return bool(groups) and all(_unix(group["lastEvaluation"]) > moment for group in groups)

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                data: dict[str, Any] = json.load(answer)["data"]
                return data
        except OSError:
            return {}


def free_ports(count: int) -> list[int]:
    """Return ``count`` neighbouring TCP ports of loopback that nobody listens on at this moment.

    They lie below those that systems draw for connections going out (Linux from 32768, others from 49152), any of which
    could take one before it is used, and where they begin is left to chance, so that two who ask get two.

    Raises:
        EroicaError: there are none.
    """
    for _ in range(100):
        first = LOWEST_PORT + secrets.randbelow(HIGHEST_PORT - LOWEST_PORT - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return list(range(first, first + count))
    raise EroicaError(f"there are no {count} neighbouring free ports on this machine; end something that listens")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _program(*names: str) -> str:
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        raise EroicaError(f"--backend prometheus needs {names[0]}, which is not on PATH; {_REMEDY}")
    return found


def _counts(alert: Mapping[str, Any]) -> bool:
    return bool(alert["state"] == "firing" and alert["labels"]["alertname"] != DEAD_MAN)


def _alert(alert: Mapping[str, Any]) -> Alert:
    labels = dict(alert["labels"])
    return Alert(labels.pop("alertname"), labels, dict(alert["annotations"]), _unix(alert["activeAt"]))


def _unix(text: str) -> float:
    """Return RFC 3339 time with up to nine decimals as Unix time; Python 3.10 reads six and no Z."""
    whole, _, rest = text.partition(".")
    decimals = re.match(r"\d*", rest)
    zone = re.search(r"(Z|[+-]\d\d:\d\d)$", text)
    moment = datetime.fromisoformat(whole.removesuffix("Z")[:19] + (zone[0] if zone else "").replace("Z", "+00:00"))
    return moment.timestamp() + float(f"0.{decimals[0]}" if decimals and decimals[0] else 0)
