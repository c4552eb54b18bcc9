"""What the environment asks for: deliveries, protocols, addresses, and what contradicts."""

from __future__ import annotations

from typing import Any

import pytest

from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError
from eroica_otel.wanted import (
    contradictions,
    described,
    otlp_endpoint,
    otlp_protocol,
    prometheus_address,
    unknown,
    wanted,
)


@pytest.mark.parametrize(
    ("text", "chosen", "asked"),
    [
        (None, "", ("otlp",)),
        ("otlp", "", ("otlp",)),
        ("prometheus, otlp", "", ("prometheus", "otlp")),
        ("otlp,otlp", "", ("otlp",)),
        ("remote_write", "", ("remote_write",)),
        ("none", "", ()),
        ("", "", ()),
        (" prometheus ,", "", ("prometheus",)),
        ("console", "", ("otlp",)),
        ("prometheus,console", "", ("prometheus",)),
        ("none", "prometheus", ("prometheus",)),
        ("otlp", "none", ()),
    ],
)
def test_deliveries_that_are_wanted(text: str | None, chosen: str, asked: tuple[str, ...]) -> None:
    assert wanted({} if text is None else {"OTEL_METRICS_EXPORTER": text}, chosen) == asked


def test_an_unknown_delivery_is_said_with_the_known_ones_and_what_is_used() -> None:
    assert unknown({"OTEL_METRICS_EXPORTER": "otlp,graphite"}) == (
        "OTEL_METRICS_EXPORTER='otlp,graphite': graphite is unknown; give otlp, prometheus, remote_write, several of "
        "them with commas, or none; otlp is used"
    )
    assert unknown({"OTEL_METRICS_EXPORTER": "none"}, "graphite").startswith("EROICA_DELIVERIES='graphite': graphite")
    assert unknown({"OTEL_METRICS_EXPORTER": "otlp, prometheus,remote_write"}) == ""


@pytest.mark.parametrize(
    ("environment", "options", "remedy"),
    [
        ({}, {"pull": "node"}, "EROICA_PULL=node has no effect without pull: add prometheus"),
        ({"OTEL_METRICS_EXPORTER": "remote_write"}, {}, "set EROICA_REMOTE_WRITE_URL"),
        ({}, {"remote_write_url": "http://a"}, "EROICA_REMOTE_WRITE_URL has no effect: add remote_write"),
        (
            {},
            {"remote_write_token_file": "t", "remote_write_user": "u", "remote_write_password_file": "p"},
            "are both set: unset one",
        ),
        ({"OTEL_SDK_DISABLED": "True"}, {}, "unset it, or set EROICA_DISABLED=1"),
        ({}, {"remote_write_headers": "X-Scope-OrgID=a"}, "add remote_write to OTEL_METRICS_EXPORTER"),
        ({}, {"remote_write_user": "u"}, "set both or none"),
        ({}, {"remote_write_password_file": "p"}, "set both or none"),
    ],
)
def test_what_contradicts_is_said_with_the_remedy(
    environment: dict[str, str], options: dict[str, Any], remedy: str
) -> None:
    (said,) = contradictions(environment, WorkerConfig(**options))
    assert remedy in said


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, {}),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, {"pull": "node"}),
        ({}, {"pull": "node", "deliveries": "prometheus"}),
        ({"OTEL_METRICS_EXPORTER": "none", "OTEL_SDK_DISABLED": "true"}, {}),
        ({"OTEL_METRICS_EXPORTER": "otlp,remote_write"}, {"remote_write_url": "http://a"}),
    ],
)
def test_what_fits_together_is_not_complained_about(environment: dict[str, str], options: dict[str, Any]) -> None:
    assert list(contradictions(environment, WorkerConfig(**options))) == []


def test_a_contradiction_is_a_problem_of_the_configuration() -> None:
    (problem,) = WorkerConfig.from_env({"EROICA_PULL": "node"}).problems
    assert problem.startswith("EROICA_PULL=node")


@pytest.mark.parametrize(
    ("variable", "text", "remedy"),
    [
        ("EROICA_REMOTE_WRITE_URL", "prometheus:9090", "give an address that begins with http:// or https://"),
        ("EROICA_REMOTE_WRITE_HEADERS", "X-Scope-OrgID", "give NAME=VALUE, several with commas"),
        ("EROICA_PULL", "host", "give worker or node"),
    ],
)
def test_a_value_that_is_not_usable_is_said_with_the_remedy(variable: str, text: str, remedy: str) -> None:
    assert remedy in WorkerConfig.from_env({variable: text}).problems[0]


def test_the_protocol_is_the_metrics_own_else_the_common_one_else_http() -> None:
    assert otlp_protocol({}) == "http/protobuf"
    assert otlp_protocol({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}) == "grpc"
    both = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf"}
    assert otlp_protocol(both) == "http/protobuf"
    with pytest.raises(ConfigError, match="'http/json' is not spoken here: give http/protobuf or grpc"):
        otlp_protocol({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})


@pytest.mark.parametrize(
    ("environment", "endpoint"),
    [
        ({}, "http://localhost:4318"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http://localhost:4317"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "http://localhost:4318"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}, "http://a:1"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://b:2/v1/m"},
            "http://b:2/v1/m",
        ),
    ],
)
def test_the_endpoint_is_the_exporters(environment: dict[str, str], endpoint: str) -> None:
    assert otlp_endpoint(environment) == endpoint


@pytest.mark.parametrize("text", ["http", "0", "65536", "-1", "1.5", "65534"])
def test_a_port_that_is_none_is_an_error_with_the_remedy(text: str) -> None:
    with pytest.raises(ConfigError, match="give a port from 1 to 65535"):
        prometheus_address({"OTEL_EXPORTER_PROMETHEUS_PORT": text}, 2)


@pytest.mark.parametrize(
    ("environment", "options", "said"),
    [
        ({}, {}, "series to http://localhost:4318"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}, {}, "series to http://a:1"),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, {}, "series on port 9467 (each rank has its own)"),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, {"pull": "node"}, "series on port 9464 (of all ranks of the node)"),
        (
            {"OTEL_METRICS_EXPORTER": "prometheus, otlp", "OTEL_EXPORTER_PROMETHEUS_PORT": "9000"},
            {},
            "series on port 9003 (each rank has its own), series to http://localhost:4318",
        ),
        ({"OTEL_METRICS_EXPORTER": "none"}, {}, "series go nowhere (OTEL_METRICS_EXPORTER)"),
        ({"OTEL_METRICS_EXPORTER": "console"}, {}, "series to http://localhost:4318"),
        ({}, {"deliveries": "remote_write", "remote_write_url": "http://p/w"}, "series written to http://p/w"),
        ({"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "x"}, {}, "no series on any port"),
    ],
)
def test_the_greeting_names_the_deliveries_that_are_made(
    environment: dict[str, str], options: dict[str, Any], said: str
) -> None:
    assert described(environment, WorkerConfig(**options), 3) == said
