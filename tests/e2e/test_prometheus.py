"""A real training that is only scraped, a real Prometheus that dies in between, and the verdict read from it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eroica_otel.commands.window import request
from eroica_otel.demo.monitoring import free_ports
from eroica_otel.demo.stage import JOB, RANKS, Fault, Stage
from eroica_otel.model import Report
from eroica_otel.publish.report import json as report_json
from jobs import wait_until
from servers import prometheus

WINDOW_SECONDS = 3.0
PATIENCE_SECONDS = 180.0
SLOW = Fault("python", 2, 0.08)


@contextmanager
def localizer(folder: Path, url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``eroica-otel localize`` on a Prometheus; report and state lie in ``folder``, and so does what it said."""
    folder.mkdir()
    command = [sys.executable, "-m", "eroica_otel.commands.main", "localize", "--prometheus", url]
    where = ["--prometheus-interval", "1", "--metrics", "127.0.0.1:0", "--state", str(folder), "--report", str(folder)]
    with (folder / "said").open("w") as said:
        process = subprocess.Popen([*command, *where, *options], stdout=said, stderr=said, text=True)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=30)


def newest(folder: Path) -> Report | None:
    path = folder / "report.json"
    return report_json.parse(path.read_text()) if path.exists() else None


def is_complete(folder: Path, reason: str) -> bool:
    report = newest(folder)
    return report is not None and (report.reason, report.workers_seen) == (reason, RANKS)


def culprits(report: Report) -> list[tuple[str, tuple[int, ...]]]:
    return [(finding.cause, finding.ranks) for finding in report.findings if finding.severity != "info"]


@pytest.mark.long
def test_a_scraped_training_is_judged_although_prometheus_was_killed(tmp_path: Path) -> None:
    ports = free_ports(RANKS)
    environment = os.environ | {
        "OTEL_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(ports[0]),
        "EROICA_DEGRADED_RATIO": "5",  # on a machine that others load, too, no window but the one asked for
    }
    steady, once = tmp_path / "steady", tmp_path / "once"
    targets = {"training": [f"127.0.0.1:{port}" for port in ports]}
    with (
        prometheus(tmp_path / "prometheus", targets, interval="2s") as server,
        Stage(tmp_path / "stage", WINDOW_SECONDS, environment) as stage,
        localizer(steady, server.url) as service,
    ):

        def until(reached: Callable[[], bool], what: str) -> None:
            def alive_and_reached() -> bool:
                stage.check()
                assert service.poll() is None, (steady / "said").read_text()
                return reached()

            wait_until(alive_and_reached, f"{what}; see {stage.log} and {steady / 'said'}", PATIENCE_SECONDS)

        until(lambda: is_complete(steady, "reference"), "the reference window")
        server.kill()
        until(lambda: "cannot read" in (steady / "said").read_text(), "the loss of Prometheus to be said")
        server.start()
        with localizer(once, server.url, "--once", "--timeout", str(PATIENCE_SECONDS)) as single:
            until(lambda: is_complete(once, "reference"), "what Prometheus had kept of the reference window")
            stage.inject(SLOW)
            request(stage.workers_folder, JOB)
            until(lambda: is_complete(steady, "manual"), "the manual window")
            report = newest(steady)
            assert report is not None
            assert culprits(report) == [("python_overhead", (2,))]
            assert report.missing_ranks == ()
            assert single.wait(timeout=PATIENCE_SECONDS) == 1
        verdict = newest(once)
        assert verdict is not None
        assert (verdict.reason, verdict.window_id) == ("manual", report.window_id), (once / "said").read_text()
        assert culprits(verdict) == culprits(report), (once / "said").read_text()
        said = (steady / "said").read_text()
        assert said.count("cannot read") >= 1
        assert f"{server.url} answers again" in said
        assert said.count("(reference): patterns from 4 of 4 workers") == 1
