"""What --push sends, to a real receiver and to a server that reads remote write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eroica_otel.errors import ConfigError, DeliveryError
from eroica_otel.model import WorkerWindow
from eroica_otel.offline.load import load
from eroica_otel.offline.push import destination, push
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.receiver import Receiver
from eroica_otel.query.store import Store
from factories_central import LOOPBACK
from remote_write import WriteServer, series
from trace_files import late_rank


@pytest.fixture
def windows(tmp_path: Path) -> tuple[WorkerWindow, ...]:
    return load(late_rank(tmp_path / "old", count=2, late=1)).windows


@pytest.fixture
def inbox() -> Iterator[tuple[str, list[Delivery]]]:
    deliveries: list[Delivery] = []
    receiver = Receiver(LOOPBACK, deliveries.append, threads=2)
    receiver.start("receiver")
    yield receiver.url, deliveries
    receiver.stop()


def test_a_receiver_gets_the_windows_as_they_are(
    windows: tuple[WorkerWindow, ...], inbox: tuple[str, list[Delivery]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, deliveries = inbox
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:9/elsewhere")
    assert push(windows, destination({}, otlp=url)) == 2
    store = Store()
    came = [store.add(delivery, 0.0) for delivery in deliveries]
    assert [window and window.identity.rank for window in came] == [0, 1]
    for sent, got in zip(windows, came, strict=True):
        assert got is not None
        assert (got.window_id, got.iterations, got.seconds) == (sent.window_id, sent.iterations, sent.seconds)
        # They travel with nine digits, which tell any float32 from its neighbours.
        betas = [{p.function: np.float32(p.beta) for p in one.patterns} for one in (got, sent)]
        assert betas[0] == betas[1]


def test_remote_write_gets_one_sample_of_each_series_and_none_is_ended(windows: tuple[WorkerWindow, ...]) -> None:
    server = WriteServer()
    try:
        assert push(windows, destination({}, remote_write=server.url)) == 2
    finally:
        server.close()
    assert len(server.bodies) == 2
    labels = [labels for labels, _, _ in series(server.bodies[1])]
    betas = [one for one in labels if one["__name__"] == "eroica_pattern_beta_ratio"]
    assert len(betas) == len(windows[1].patterns)
    assert {(one["training_job"], one["rank"], one["instance"]) for one in betas} == {("rank0", "1", "rank-1")}
    assert {"eroica_world_size", "eroica_build_info", "eroica_window_id"} <= {one["__name__"] for one in labels}
    # Iterations, states and totals belong to a worker that lives.
    assert "eroica_iterations_total" not in {one["__name__"] for one in labels}


def test_names_are_kept_where_the_worker_would_keep_them(windows: tuple[WorkerWindow, ...], tmp_path: Path) -> None:
    server = WriteServer()
    key = tmp_path / "key"
    key.write_text("0123456789abcdef0123456789abcdef")
    environment = {"EROICA_REDACT": "names", "EROICA_REDACT_KEY_FILE": str(key), "EROICA_DIR": str(tmp_path)}
    try:
        push(windows, destination(environment, remote_write=server.url))
    finally:
        server.close()
    ids = {labels.get("function_id") for labels, _, _ in series(server.bodies[0])} - {None}
    assert ids
    assert not ids & {pattern.function_id for pattern in windows[0].patterns}


def test_an_endpoint_that_refuses_is_told_with_what_had_arrived(windows: tuple[WorkerWindow, ...]) -> None:
    server = WriteServer()
    server.answers = [204, 400]
    try:
        with pytest.raises(DeliveryError, match=r"rank 1 cannot be delivered to .* 1 of 2 workers have"):
            push(windows, destination({}, remote_write=server.url))
    finally:
        server.close()


@pytest.mark.parametrize(
    ("environment", "given", "why"),
    [
        ({"OTEL_METRICS_EXPORTER": "none"}, {}, "nothing pushes"),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, {}, "give --otlp URL or --remote-write URL"),
        ({"OTEL_METRICS_EXPORTER": "remote_write"}, {}, "has no address: set EROICA_REMOTE_WRITE_URL"),
        ({}, {"remote_write": "host:9090"}, "give an address that begins with http://"),
        ({}, {"otlp": "host:4318"}, "begins with http://"),
    ],
)
def test_nowhere_to_push_to(environment: dict[str, str], given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        destination(environment, **given)


def test_the_variables_of_a_worker_decide_where_nothing_is_given() -> None:
    environment = {"EROICA_DELIVERIES": "otlp,remote_write,prometheus", "EROICA_REMOTE_WRITE_URL": "http://a/write"}
    assert destination(environment).deliveries == ("otlp", "remote_write")
    assert destination({}).deliveries == ("otlp",)
    assert destination(environment, otlp="http://b:4318").deliveries == ("otlp",)
