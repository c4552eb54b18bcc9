"""OpenTelemetry's door: attaches, detaches, and leaves the environment as the user made it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

import eroica_otel
from eroica_otel.instrumentor import (
    LOADER,
    PROTOCOL,
    STARTUP,
    EroicaInstrumentor,
    SentByHelper,
    hand_on,
    restore_protocol,
    started_with,
)


def test_it_attaches_as_instrument_does_and_detaches() -> None:
    door = EroicaInstrumentor()
    door.instrument(skip_dep_check=True)
    handle = eroica_otel.instrument()
    assert handle is door._handle
    door.uninstrument()
    again = eroica_otel.instrument()
    assert again is not handle
    again.close()


def test_it_names_what_it_is_for() -> None:
    assert EroicaInstrumentor().instrumentation_dependencies() == ("torch >= 2.4",)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({}, {"OTHER": "1"}),
        ({PROTOCOL: "grpc"}, {PROTOCOL: "grpc", "OTHER": "1"}),
        (None, {PROTOCOL: "grpc", "OTHER": "1"}),
    ],
    ids=["set by the distro", "set by the user", "not known"],
)
def test_a_protocol_that_the_user_has_not_asked_for_is_taken_away(
    given: dict[str, str] | None, left: dict[str, str]
) -> None:
    environment = {PROTOCOL: "grpc", "OTHER": "1"}
    restore_protocol(environment, given)
    assert environment == left


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        ([LOADER, "/a"], ["/a"], [STARTUP, "/a"]),
        ([LOADER], [""], [STARTUP]),
        ([LOADER, "/a"], [LOADER, "/a"], [LOADER, "/a"]),
        (["/a"], ["/a"], ["/a"]),
        ([LOADER, STARTUP], [STARTUP], [STARTUP]),
    ],
    ids=["taken out", "nothing left", "put back", "loaded by the program itself", "under eroica-otel run"],
)
def test_children_attach_where_the_loader_was_handed_on_to_this_process(
    before: list[str], now: list[str], after: list[str]
) -> None:
    environment = {"PYTHONPATH": os.pathsep.join(now)}
    hand_on(environment, {"PYTHONPATH": os.pathsep.join(before)})
    assert environment["PYTHONPATH"] == os.pathsep.join(after)
    environment = {}
    hand_on(environment, None)
    assert environment == {}


def test_what_a_process_was_started_with_is_told_whatever_it_has_set_since() -> None:
    code = (
        "import os; os.environ['LATER'] = '1'\n"
        "from eroica_otel.instrumentor import started_with\n"
        "given = started_with(); print(given['EARLIER'], 'LATER' in given)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"EARLIER": "a=b"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "a=b False\n"
    assert started_with() is not None


def test_pull_by_the_loader_itself_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "prometheus")
    door = EroicaInstrumentor()
    with caplog.at_level(logging.WARNING):
        door.instrument(skip_dep_check=True)
    door.uninstrument()
    assert "set OTEL_METRICS_EXPORTER=none and EROICA_DELIVERIES=prometheus" in caplog.text


def test_the_reader_in_the_training_starts_nothing_and_ends_at_once() -> None:
    reader = SentByHelper()
    reader.shutdown()
