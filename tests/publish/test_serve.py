from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from eroica_otel import names
from eroica_otel.errors import ConfigError, DeliveryError
from eroica_otel.publish.report import html
from eroica_otel.publish.report import json as report_json
from eroica_otel.publish.series import JobStatus, LocalizerStatus, OpenFinding, job_points, localizer_points
from eroica_otel.publish.serve import MetricsServer, Publication
from eroica_otel.webserver import Address
from factories_central import LOOPBACK, fetch, finding, identity, report

POINTS = tuple(
    job_points(JobStatus("llm-7b", "vision", 4, (OpenFinding(finding(), 1, "degraded", (identity(1),)),), report()))
    + localizer_points(LocalizerStatus("0.1.0", {"judge": 2}, {"accepted": 5}, {"material": 0.05}))
)
REPORTS = {("vision", "llm-7b"): report(findings=(finding(function="<script>"),))}


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    made = MetricsServer(LOOPBACK, {"json": report_json.render, "html": html.render})
    made.start("metrics")
    yield made
    made.stop()


def test_a_scrape_gives_every_point_with_its_type_and_help(server: MetricsServer) -> None:
    server.publish(Publication(POINTS))
    status, body = fetch(f"{server.url}/metrics")
    assert status == 200
    text = body.decode()
    families = list(text_string_to_metric_families(text))
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value for item in families for sample in item.samples
    }
    assert samples == {(point.name, frozenset(point.labels.items())): point.value for point in POINTS}
    for name in {point.name for point in POINTS}:
        known = names.BY_NAME[name]
        assert f"# TYPE {name} {known.type}\n" in text
        assert f"# HELP {name} {known.help}\n" in text


def test_openmetrics_and_gzip_are_answered(server: MetricsServer) -> None:
    server.publish(Publication(POINTS))
    asked = urllib.request.Request(
        f"{server.url}/metrics",
        headers={"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"},
    )
    _, body = fetch(asked)
    assert body[:2] == b"\x1f\x8b"


def test_ready_only_after_the_first_publication(server: MetricsServer) -> None:
    assert fetch(f"{server.url}/-/healthy")[0] == 200
    assert fetch(f"{server.url}/-/ready")[0] == 503
    server.publish(Publication())
    assert fetch(f"{server.url}/-/ready")[0] == 200


def test_a_localizer_whose_rounds_have_stopped_is_not_healthy() -> None:
    alive = True
    server = MetricsServer(LOOPBACK, alive=lambda: alive)
    server.start("metrics")
    assert fetch(f"{server.url}/-/healthy")[0] == 200
    alive = False
    assert fetch(f"{server.url}/-/healthy") == (503, b"no round for a minute; restart it\n")
    server.stop()


def test_the_latest_report_of_a_job(server: MetricsServer) -> None:
    server.publish(Publication(reports=REPORTS))
    status, body = fetch(f"{server.url}/report/llm-7b.json")
    assert status == 200
    assert body.decode() == report_json.render(REPORTS["vision", "llm-7b"])
    status, body = fetch(f"{server.url}/report/llm-7b.html?team=vision")
    assert status == 200
    assert b"<script>" not in body


@pytest.mark.parametrize(
    "path", ["/", "/report/none.json", "/report/llm-7b.exe", "/report/llm-7b", "/report/../etc.json"]
)
def test_what_is_not_there(server: MetricsServer, path: str) -> None:
    server.publish(Publication(reports=REPORTS))
    assert fetch(f"{server.url}{path}")[0] == 404


def test_a_job_with_a_strange_name_and_one_of_two_teams(server: MetricsServer) -> None:
    given = report(training_job="a/b c.d")
    server.publish(Publication(reports={("x", "a/b c.d"): given, ("y", "a/b c.d"): replace(given, window_id=2)}))
    assert fetch(f"{server.url}/report/a%2Fb%20c.d.json")[0] == 409
    _, body = fetch(f"{server.url}/report/a%2Fb%20c.d.json?team=y")
    assert json.loads(body)["window_id"] == 2


def test_a_token_protects_everything_but_the_probes() -> None:
    server = MetricsServer(replace(LOOPBACK, token="secret"))
    server.start("metrics")
    server.publish(Publication(POINTS))
    assert fetch(f"{server.url}/metrics")[0] == 401
    assert fetch(f"{server.url}/report/llm-7b.json")[0] == 401
    assert fetch(f"{server.url}/-/ready")[0] == 200
    asked = urllib.request.Request(f"{server.url}/metrics", headers={"Authorization": "Bearer secret"})
    assert fetch(asked)[0] == 200
    server.stop()


def test_a_taken_port_names_the_option(server: MetricsServer) -> None:
    with pytest.raises(DeliveryError, match=rf"{server.port}.*--metrics"):
        MetricsServer(Address("127.0.0.1", server.port, "--metrics"))


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(ConfigError, match=r"--metrics 192\.0\.2\.7:9465 is no address of this machine"):
        MetricsServer(Address("192.0.2.7", 9465, "--metrics"))
