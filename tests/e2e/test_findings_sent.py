"""A localizer that nobody scrapes writes its series to a real Prometheus, where the shipped rules alert on them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eroica_otel import assets, names
from factories_central import WINDOW, send_windows, windows
from jobs import scrape, wait_until
from servers import Server, prometheus

IDENTITY = ("training_job", "team", "rank", "host", "role")


class Service:
    """The command, with its ports as it says them."""

    def __init__(self, folder: Path, server: Server) -> None:
        options = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--state", str(folder / "state")]
        send = ["--send-remote-write", f"{server.url}/api/v1/write"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "eroica_otel.commands.main", "localize", *options, *send],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        said = next(line for line in self.process.stderr if "waiting for patterns" in line)
        self.otlp, self.metrics = re.findall(r"http://[^ /]+", said)

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    rules = f"rule_files: [{json.dumps(str(assets.path('alerts') / 'rules' / '*.yml'))}]"
    with prometheus(tmp_path / "prometheus", more=rules) as running:
        yield running


@pytest.fixture
def service(tmp_path: Path, server: Server) -> Iterator[Service]:
    running = Service(tmp_path, server)
    yield running
    running.process.kill()
    running.process.wait()


def impacts(rows: list[dict[str, str]]) -> set[tuple[str, ...]]:
    return {tuple(row.get(name, "") for name in (*IDENTITY, "cause", "severity")) for row in rows}


def test_a_finding_alerts_without_a_scrape_and_a_localizer_that_ends_leaves_nothing(
    server: Server, service: Service
) -> None:
    send_windows(service.otlp, windows(reason="reference"))
    send_windows(service.otlp, windows([2], window_id=WINDOW + 60))

    def written() -> list[dict[str, str]]:
        return [row["metric"] for row in server.query(names.IMPACT.name)]

    wait_until(lambda: bool(written()), "the finding in Prometheus")
    shown = scrape(int(service.metrics.rpartition(":")[2]))
    assert impacts(written()) == impacts([dict(point.labels) for point in shown if point.name == names.IMPACT.name])
    assert {row["job"] for row in written()} == {"eroica-localizer"}
    alert = 'ALERTS{alertname="EroicaWorkerSlowsJob",alertstate="firing"}'
    wait_until(lambda: bool(server.query(alert)), "the alert")
    assert {(row["metric"]["training_job"], row["metric"]["rank"]) for row in server.query(alert)} == {("llm-7b", "2")}
    sent = server.query(f'{names.LOCALIZER_DELIVERIES.name}{{delivery="remote_write",outcome="failed"}}')
    assert {float(row["value"][1]) for row in sent} == {0.0}
    service.end()
    wait_until(lambda: not server.query('{job="eroica-localizer"}'), "the end of its series", 30.0)
