"""The verdict on traces that lie in files: judge, and what only a person who looks at files asks for.

A live job has a reference and comes back in the next window. Files are all there is, so what is far outside its
expected range is told without a reference too, and of two runs it is told what the second one won.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eroica_otel.localize.detail import detail_of
from eroica_otel.localize.gains import gains
from eroica_otel.localize.jobwide import outside_findings
from eroica_otel.localize.network import network_of
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.verdict import judge, scene_of_windows
from eroica_otel.model import Finding, Report, WorkerWindow


def judge_traces(
    windows: Sequence[WorkerWindow],
    reference: Sequence[WorkerWindow] = (),
    *,
    expected: int,
    apart: bool = False,
    policy: Policy = Policy(),  # noqa: B008 - frozen
) -> Report:
    """Return the verdict on one run, compared with another where there is one.

    Args:
        windows: The run, one window a rank.
        reference: The run that it is compared with; () without one.
        expected: Workers that the job had.
        apart: Whether the windows are of different iterations, so that confidence is low.
    """
    report = judge(windows, reference, expected=expected, policy=policy)
    scene = scene_of_windows(windows, reference, policy)
    if scene is None:
        return report
    findings = (*_costly(report, scene), *(() if scene.reference else _new(report, outside_findings(scene))))
    if apart:
        findings = tuple(replace(finding, confidence="low") for finding in findings)
    detail = detail_of(scene, findings, network_of(scene.columns.workers, policy))
    return replace(report, findings=findings, notes=(*report.notes, *gains(scene)), detail=detail)


def _costly(report: Report, scene: Scene) -> tuple[Finding, ...]:
    """Leave out what cost nothing because the job got faster; the notes on what was won tell of it."""
    if not scene.growth < 0:
        return report.findings
    return tuple(one for one in report.findings if one.verdict != "job" or one.impact_seconds > 0)


def _new(report: Report, outside: Sequence[Finding]) -> list[Finding]:
    known = {finding.function_id for finding in report.findings}
    return [finding for finding in outside if finding.function_id not in known]
