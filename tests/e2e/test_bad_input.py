"""What users get wrong and what machines do to them: a message with the remedy, a metric, training untouched."""

from __future__ import annotations

import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from eroica_otel import names
from eroica_otel.demo.stage import free_port
from eroica_otel.status import live_workers
from jobs import helper_of, job, value, wait_until


def test_malformed_variables_are_named_and_their_defaults_used(tmp_path: Path) -> None:
    with job(tmp_path, EROICA_CAPTURE="everything", EROICA_WINDOWS="3") as training:
        wait_until(
            lambda: value(training.points(), names.FAILURES.name, stage="config") == 2, "the two mistakes to be counted"
        )
        log = training.end()
    assert "EROICA_CAPTURE='everything' is not usable: give light or exact or stacks" in log
    assert "EROICA_WINDOWS is not an option" in log
    assert "steps " in log


def test_an_unreachable_endpoint_is_named_once_and_counted(tmp_path: Path) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    environment = {"OTEL_METRICS_EXPORTER": "otlp,prometheus", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    environment["OTEL_EXPORTER_OTLP_TIMEOUT"] = "1"
    with job(tmp_path, **environment) as training:
        wait_until(
            lambda: value(training.points(), names.DELIVERIES.name, delivery="otlp", outcome="failed") >= 2,
            "failed deliveries to be counted",
        )
        assert value(training.points(), names.DELIVERIES.name, delivery="otlp", outcome="sent") == 0
        log = training.end()
    assert log.count(f"cannot deliver to {endpoint}") == 1
    assert "training is not affected" in log


def test_a_taken_port_is_named_with_its_holder_and_counted(tmp_path: Path) -> None:
    counted = threading.Event()

    class Sink(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    for point in metric.sum.data_points:
                        stage = {item.key: item.value.string_value for item in point.attributes}.get("stage")
                        if metric.name == names.FAILURES.instrument and stage == "delivery" and point.as_double >= 1:
                            counted.set()
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    sink = HTTPServer(("127.0.0.1", 0), Sink)
    server = threading.Thread(target=sink.serve_forever, daemon=True)
    server.start()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        environment = {
            "OTEL_METRICS_EXPORTER": "otlp,prometheus",
            "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
            "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{sink.server_address[1]}",
        }
        with job(tmp_path, **environment) as training:
            wait_until(counted.is_set, "the failure to arrive by the other delivery")
            log = training.end()
    sink.shutdown()
    sink.server_close()
    server.join()
    assert f"port {port} on 127.0.0.1" in log
    assert f"(pid {os.getpid()})" in log
    assert "set OTEL_EXPORTER_PROMETHEUS_PORT to a free range" in log


def test_a_full_disk_costs_the_window_and_nothing_else(tmp_path: Path) -> None:
    with job(tmp_path, "--largest-file", "100000") as training:
        wait_until(
            lambda: value(training.points(), names.WINDOWS.name, reason="reference", outcome="skipped") == 1,
            "the window to be counted as skipped",
        )
        log = training.end()
    assert "the trace could not be written" in log
    assert "is the disk full? EROICA_DIR moves it" in log
    assert "steps " in log


def test_a_loop_that_never_repeats_is_unmatched_and_says_what_to_do(tmp_path: Path) -> None:
    with job(tmp_path, "--irregular") as training:
        wait_until(
            lambda: value(training.points(), names.WORKER_STATE.name, state="unmatched") == 1, "the state unmatched"
        )
        log = training.end()
    assert log.count("no repeating iteration found") == 1
    assert "call eroica_otel.step() after each update" in log


def test_the_trainings_own_profiler_goes_first(tmp_path: Path) -> None:
    with job(tmp_path, "--profiler") as training:
        wait_until(
            lambda: value(training.points(), names.FAILURES.name, stage="profiler") >= 2,
            "the profiler that is not ours to be counted",
        )
        log = training.end()
    assert log.count("the training's own profiler is running; it goes first") == 1
    assert "steps " in log


@pytest.mark.parametrize("killed", ["trainer", "helper"])
def test_a_killed_process_leaves_nothing_behind(tmp_path: Path, killed: str) -> None:
    with job(tmp_path) as training:
        wait_until(lambda: value(training.points(), names.ITERATIONS.name) > 0, "the first series")
        folder, status = live_workers(training.folder)[0]
        if killed == "trainer":
            os.kill(status.pid, 9)
            wait_until(lambda: not folder.exists(), "the helper to end and remove the folder")
            return
        os.kill(helper_of(status.pid), 9)
        wait_until(
            lambda: value(training.points(), names.FAILURES.name, stage="helper") == 1, "a new helper that says so"
        )
        before = value(training.points(), names.ITERATIONS.name)
        wait_until(lambda: value(training.points(), names.ITERATIONS.name) > before, "series to go on")
        log = training.end()
    assert "the helper process ended with code -9; it is started again; training is not affected" in log
