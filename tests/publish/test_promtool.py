"""The localizer's page of series, as promtool sees it."""

from __future__ import annotations

import subprocess

from prometheus_client import CollectorRegistry, generate_latest

from eroica_otel.publish.series import JobStatus, LocalizerStatus, OpenFinding, job_points, localizer_points
from eroica_otel.publish.serve import PointCollector
from factories_central import finding, identity, report


def test_promtool_has_nothing_to_say_about_the_localizers_page() -> None:
    found = OpenFinding(finding(), 1, "degraded", (identity(2),), 3, "other")
    job = JobStatus("llm-7b", "vision", 4, (found,), report(), 0, 1_764_430_010.0, 0.25)
    localizer = LocalizerStatus("0.1.0", {"judge": 1}, {"accepted": 9}, {"material": 0.05}, queries={"ok": 3})
    registry = CollectorRegistry()
    registry.register(PointCollector(lambda: job_points(job) + localizer_points(localizer)))
    text = generate_latest(registry)
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, (done.stdout + done.stderr).decode()) == (0, "")
    assert b"eroica_anomaly_impact_ratio" in text
