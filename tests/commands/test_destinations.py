from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from eroica_otel.commands import destinations, main
from eroica_otel.export.remotewrite import Target
from eroica_otel.jobsend import Destinations
from eroica_otel.webserver import Address

WRITE = "http://prometheus:9090/api/v1/write"


def made(*options: str, environment: dict[str, str] | None = None) -> Destinations:
    parser = argparse.ArgumentParser()
    destinations.configure(parser)
    own = Address("127.0.0.1", 4318, "--listen"), None
    return destinations.destinations(parser.parse_args(options), environment or {}, *own)


def test_nothing_is_sent_unless_it_is_asked_for() -> None:
    """Variables that workers have too say nothing about the localizer: it would send to itself."""
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318", "EROICA_REMOTE_WRITE_URL": WRITE}
    assert made(environment=variables) == Destinations("", None, variables)


def test_addresses_are_options_and_credentials_are_variables() -> None:
    variables = {"EROICA_REMOTE_WRITE_TOKEN_FILE": "/run/token", "EROICA_PULL": "node"}
    found = made("--send-otlp", "http://h:4318/", "--send-remote-write", WRITE, environment=variables)
    assert found == Destinations("http://h:4318", Target(WRITE, token_file="/run/token"), variables)


@pytest.mark.parametrize(
    ("options", "variables", "text"),
    [
        (
            ["--send-otlp", "h:4318"],
            {},
            "--send-otlp 'h:4318' is no address; give one, for example http://127.0.0.1:4318",
        ),
        (["--send-otlp", "http://localhost:4318"], {}, "--send-otlp http://localhost:4318 is this localizer's own"),
        (["--send-remote-write", "http://127.0.0.1:9465/write"], {}, "is this localizer's own --metrics; give"),
        (
            ["--send-remote-write", WRITE],
            {"EROICA_REMOTE_WRITE_USER": "me"},
            "EROICA_REMOTE_WRITE_USER and EROICA_REMOTE_WRITE_PASSWORD_FILE belong together: set both or none",
        ),
        (
            ["--send-otlp", "http://h:4317"],
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL='http/json' is not spoken here",
        ),
    ],
)
def test_wrong_usage_is_2_with_the_remedy(
    options: list[str],
    variables: dict[str, str],
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main.main(["localize", "--state", str(tmp_path), *options]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
