"""A page on a port of its own: where it is, who holds the port when it is taken, and that it is free afterwards."""

from __future__ import annotations

import socket
import subprocess
import urllib.request

import numpy as np
import pytest
from prometheus_client import generate_latest

from eroica_otel.demo.stage import free_port
from eroica_otel.errors import DeliveryError
from eroica_otel.export import pull
from eroica_otel.export.board import Board
from eroica_otel.export.delivery import provider, resource
from eroica_otel.export.instruments import create, record
from eroica_otel.export.points import window_points
from eroica_otel.export.standing import standing_points
from factories_worker import identity, status, worker_window


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        text: str = answer.read().decode()
        return text


def test_a_page_is_served_and_the_port_is_free_after_close() -> None:
    port = free_port()
    for _ in range(2):
        close = pull.serve(pull.page()[1], "127.0.0.1", port)
        assert get(f"http://127.0.0.1:{port}/metrics") == ""
        close()


def test_a_port_that_is_taken_is_an_error_that_names_the_holder() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(DeliveryError, match=rf"port {port} on 127.0.0.1 .* is taken by \S+ \(pid \d+\); set OTEL"):
            pull.serve(pull.page()[1], "127.0.0.1", port)


def test_where_another_worker_holds_the_port_the_place_of_the_rank_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pull, "runs_module", lambda port, module: module == "eroica_otel.helper")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        with pytest.raises(DeliveryError, match=r"by another worker's helper, \S+ \(pid \d+\): set LOCAL_RANK to"):
            pull.serve(pull.page()[1], "127.0.0.1", holder.getsockname()[1])


def test_a_host_that_is_not_ours_is_an_error() -> None:
    with pytest.raises(DeliveryError, match=r"on 192\.0\.2\.1"):
        pull.serve(pull.page()[1], "192.0.2.1", free_port())


def test_promtool_has_nothing_to_say_about_a_full_workers_page() -> None:
    reader, registry = pull.page()
    meter = provider([reader], resource(identity(), 1)).get_meter("eroica_otel")
    board = Board()
    record(create(meter, board), identity().labels(), np.array([[0.1, 0.2]]))
    board.stand(
        standing_points(
            status(), deliveries={("otlp", "sent"): 1}, failures={}, windows={}, dropped=0, missing={},
            helper_cpu_seconds=1.0, device={},
        )
    )  # fmt: skip
    board.show(window_points(worker_window()))
    text = generate_latest(registry)
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, (done.stdout + done.stderr).decode()) == (0, "")
