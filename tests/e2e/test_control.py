"""A real training whose plugin is told something while it runs, or whose helpers serve one page; training goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from eroica_otel import names
from eroica_otel.commands.main import main
from eroica_otel.export.node import pages
from eroica_otel.ports import holder
from eroica_otel.status import live_workers
from jobs import LOOP, Job, helper_of, job, value, wait_until


def threads(pid: int) -> set[str]:
    return {(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()}


def asked_for_a_window(training: Job) -> None:
    """Ask until the iteration is known, then wait until the window is delivered."""

    def told() -> bool:
        return main(["window", "--dir", str(training.folder)]) == 0

    wait_until(told, "a worker that can take a window")
    wait_until(lambda: value(training.points(), names.WINDOW_ID.name) > 0, "the window")


def test_options_change_and_then_the_plugin_goes_while_training_goes_on(tmp_path: Path) -> None:
    with job(tmp_path, EROICA_REFERENCE="0") as training:
        directory = ["--dir", str(training.folder)]
        wait_until(lambda: value(training.points(), names.ITERATIONS.name) > 0, "iterations")
        helper = helper_of(training.process.pid)
        assert main(["set", *directory, "window_seconds=4", "degraded_ratio=0.2"]) == 0
        asked_for_a_window(training)
        # 1 s is what the training was started with; that the machine is slower when it begins halves 4 s at most.
        assert value(training.points(), names.WINDOW_SECONDS.name) > 2
        assert main(["disable", *directory]) == 0
        wait_until(lambda: live_workers(training.folder) == [], "the worker's folder to go")
        wait_until(lambda: not Path(f"/proc/{helper}/cmdline").exists(), "the helper to go")
        assert training.points() == []
        wait_until(lambda: not {"eroica-monitor", "eroica-poller"} & threads(training.process.pid), "threads to end")
        log = training.end()
    assert "detached, as eroica-otel disable has asked" in log
    assert "steps " in log


def test_one_port_of_the_node_outlives_the_helper_that_holds_it(tmp_path: Path) -> None:
    """Two trainings of one directory stand for two ranks; the port is the first one's until its helper is killed."""
    by_node = {"EROICA_PULL": "node", "EROICA_REFERENCE": "0", "EROICA_TRAINING_JOB": "a"}
    with job(tmp_path, **by_node, RANK="0", LOCAL_RANK="0") as first:
        port = {"OTEL_EXPORTER_PROMETHEUS_PORT": str(first.port), "EROICA_DIR": str(first.folder)}
        (tmp_path / "second").mkdir()
        with job(tmp_path / "second", **by_node, **port, RANK="1", LOCAL_RANK="1") as second:

            def ranks() -> list[str]:
                return sorted(point.labels["rank"] for point in first.points() if point.name == names.ITERATIONS.name)

            wait_until(lambda: ranks() == ["0", "1"], "both ranks on the one port")
            checked(first.port)
            killed = helper_of(first.process.pid)
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda: f"(pid {killed})" not in (holder(first.port) or f"(pid {killed})"), "another to hold it")
            wait_until(lambda: ranks() == ["0", "1"], "the helper to be started again")
            second.end()
            wait_until(lambda: ranks() == ["0"], "the rank that ended to go")
        log = first.end()
    assert "no delivery" not in log


def checked(port: int) -> None:
    """Assert that promtool has nothing to say about the page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        done = subprocess.run(["promtool", "check", "metrics"], input=answer.read(), capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_a_machine_without_network_trains_and_counts(tmp_path: Path) -> None:
    """In a namespace of its own not even loopback is up; the node's page is read over its socket, which needs none."""
    settings = {
        "OTEL_METRICS_EXPORTER": "otlp,prometheus,remote_write", "EROICA_PULL": "node", "EROICA_REFERENCE": "0",
        "EROICA_REMOTE_WRITE_URL": "http://192.0.2.1:9090/api/v1/write", "OTEL_METRIC_EXPORT_INTERVAL": "500",
        "EROICA_DIR": str(tmp_path / "workers"), "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
    }  # fmt: skip
    stop = tmp_path / "stop"
    command = ["unshare", "--map-root-user", "-n", sys.executable, "-u", str(LOOP), "--stop", str(stop)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, env=os.environ | settings, stdout=log, stderr=log, text=True)
    try:
        wait_until(
            lambda: all(count >= 1 for count in failed(tmp_path / "workers").values()), "both failures to be counted"
        )
        stop.touch()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
    text = (tmp_path / "log").read_text()
    assert "steps " in text
    assert text.count("cannot deliver to http://192.0.2.1:9090/api/v1/write") == 1


def failed(directory: Path) -> dict[str, float]:
    """Return the deliveries that failed, as the workers' pages under ``directory`` say."""
    lines = [line for page in pages(directory) for line in page.decode().splitlines()]
    counted = [line for line in lines if line.startswith(names.DELIVERIES.name) and 'outcome="failed"' in line]
    return {
        delivery: sum(float(line.rsplit(" ", 1)[1]) for line in counted if f'delivery="{delivery}"' in line)
        for delivery in ("otlp", "remote_write")
    }
