"""The bug reports of the log, each with its own numbers: who, why, whose; and not that cause without its evidence."""

from __future__ import annotations

import pytest

from eroica_otel.model import Finding
from scenarios import Scenario, verdict
from scenarios_hang import HANGS, HangScenario
from scenarios_hang import verdict as standstill
from scenarios_log import ALL

WITH_CLEAN = [row for row in ALL if row.clean]


@pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)
def test_the_cause_of_the_report(row: Scenario) -> None:
    report = verdict(row, row.now)
    told = [f for f in report.findings if row.info or f.severity != "info"]
    if not row.cause:
        assert told == []
        return
    (finding,) = told
    assert (finding.cause, finding.domain, finding.ranks) == (row.cause, row.domain, row.culprits)
    assert finding.verdict == ("culprit" if row.culprits else "job")
    assert (finding.severity == "info") == row.info
    assert row.scope in ("", finding.scope)


@pytest.mark.parametrize("row", WITH_CLEAN, ids=lambda row: row.name)
def test_not_that_cause_without_its_evidence(row: Scenario) -> None:
    assert row.cause not in {finding.cause for finding in verdict(row, row.clean).findings if counts(finding, row)}


def counts(finding: Finding, row: Scenario) -> bool:
    return row.info or finding.severity != "info"


def test_a_gpu_with_more_to_do_may_run_another_program() -> None:
    row = next(row for row in ALL if row.cause == "load_imbalance")
    (finding,) = verdict(row, row.now).findings
    assert finding.advice.endswith("what else runs on this GPU")
    assert "the clock of the SMs is at 95 % of its highest while it runs, 95 % on its peers" in finding.evidence


@pytest.mark.parametrize("row", HANGS, ids=lambda row: row.name)
def test_who_holds_up_the_job(row: HangScenario) -> None:
    report = standstill(row, row.windows)
    if not row.cause:
        assert report.findings == ()
        assert report.notes[0].startswith(row.said)
        return
    (finding,) = report.findings
    assert (finding.cause, finding.domain, finding.ranks) == (row.cause, "code", row.culprits)
    assert (finding.severity, finding.confidence) == ("critical", "high" if row.sure else "low")


@pytest.mark.parametrize("row", [row for row in HANGS if row.clean], ids=lambda row: row.name)
def test_nobody_where_all_stand_alike(row: HangScenario) -> None:
    assert standstill(row, row.clean, {}).findings == ()
