"""The impact of a finding is what an iteration would gain without it (bench/counterfactual.py, in numbers that can be
worked out).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from eroica_otel.localize.verdict import judge
from eroica_otel.model import Finding, Report
from factories_localize import Rank, Work, blocked_input, busy, device, one_bad, ordinary, quiet, rank, window_of


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


def kernels(**ms: float) -> tuple[Work, ...]:
    """Return operators of a device, of a family each."""
    return tuple(device(value, name=name, family=name, on=None) for name, value in ms.items())


def test_what_is_slow_beside_the_function_that_is_named_counts_too() -> None:
    """All kernels of a slow GPU take half as much again; attention alone would be below 5 % of the iteration."""
    usual, slow = kernels(gemm=60, attention=12, norm=10), kernels(gemm=90, attention=18, norm=15)
    ranks = [rank(base=(*(slow if at == 2 else usual), *ordinary()[1:])) for at in range(8)]
    finding = only(judge(window_of(ranks), expected=8))
    assert (finding.ranks, finding.function) == ((2,), "gemm")
    assert finding.impact_seconds == pytest.approx(0.041, rel=0.01)


def test_two_faults_of_one_rank_have_each_its_own_impact() -> None:
    report = judge(window_of(one_bad(6, 1, busy(60), blocked_input(50))), expected=6)
    assert [round(1000 * finding.impact_seconds) for finding in report.findings] == [60, 50]


@pytest.mark.parametrize(("before", "gained"), [(0.0, 60.0), (20.0, 40.0), (45.0, 15.0)])
def test_a_rank_that_had_waited_before_holds_the_others_up_by_less(before: float, gained: float) -> None:
    """All waited for ``before`` ms for something else; while they do, the first of the 60 ms cost nothing."""
    reference = window_of([quiet()] * 6, window_id=1, reason="reference", longer_ms=before)
    finding = only(judge(window_of(one_bad(6, 1, busy(60))), reference, expected=6))
    assert finding.ranks == (1,)
    assert finding.impact_seconds == pytest.approx(gained / 1000, abs=1e-4)


@pytest.mark.parametrize(("reason", "severity"), [("manual", "info"), ("degraded", "warning")])
def test_work_that_hides_behind_what_all_wait_for_costs_nothing(reason: str, severity: str) -> None:
    """It is only told, but where the trigger fired: then the job is slower, and there is nobody else."""
    reference = window_of([quiet()] * 6, window_id=1, reason="reference", longer_ms=60)
    report = judge(window_of(one_bad(6, 1, busy(60)), reason=reason), reference, expected=6)
    about = {(f.severity, f.ranks, round(f.impact_seconds, 4)) for f in report.findings if f.verdict == "culprit"}
    assert about == {(severity, (1,), 0.0)}


def test_a_rank_that_was_slow_in_the_reference_too_costs_what_it_is_slower() -> None:
    before = [replace(quiet(), extra=(busy(60),)) if at == 1 else quiet() for at in range(6)]
    reference = window_of(before, window_id=1, reason="reference")
    finding = only(judge(window_of(one_bad(6, 1, busy(60))), reference, expected=6))
    assert (finding.persistence, round(finding.impact_seconds, 4)) == ("since_start", 0.06)


def test_a_reference_in_which_all_waited_for_longer_takes_nothing_off() -> None:
    reference = window_of([quiet()] * 6, window_id=1, reason="reference", transfer_ms=200)
    finding = only(judge(window_of(one_bad(6, 1, busy(60))), reference, expected=6))
    assert (finding.severity, round(finding.impact_seconds, 4)) == ("critical", 0.06)


def test_a_rank_that_became_nearly_as_its_role_is_does_not_stand_apart_from_another_role() -> None:
    """Ranks 4 to 7 take 130 ms, rank 6 took 100 before and 137 now; ranks 0 to 3 take 60."""

    def ranks(last: float) -> list[Rank]:
        each = [60.0] * 4 + [130.0, 130.0, last, 130.0]
        works = [(device(ms, name="gemm", family="gemm", noise_ms=0.1), *ordinary()[1:]) for ms in each]
        return [rank(base=base, role=f"pp{at // 4}") for at, base in enumerate(works)]

    report = judge(window_of(ranks(137)), window_of(ranks(100), window_id=1, reason="reference"), expected=8)
    assert [finding for finding in report.findings if finding.severity != "info"] == []


def test_one_fault_on_several_ranks_is_one_finding_however_evenly_it_is_spread() -> None:
    """On rank 0 no function holds half of what its kind is too long, on rank 1 one does."""
    usual = kernels(gemm=20, attention=20, norm=20)
    works = {0: kernels(gemm=40, attention=40, norm=40), 1: kernels(gemm=70, attention=25, norm=25)}
    ranks = [rank(base=(*works.get(at, usual), *ordinary()[1:])) for at in range(10)]
    assert only(judge(window_of(ranks), expected=10)).ranks == (0, 1)
