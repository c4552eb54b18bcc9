"""Empty and hostile input: a report with a note, never an exception and never a finding about nonsense."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import pytest

from eroica_otel.localize.policy import Policy
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Pattern, WorkerWindow
from factories_localize import busy, one_bad, rank, reference_of, window_of

NAN = math.nan


def healthy() -> list[WorkerWindow]:
    return window_of([rank() for _ in range(4)])


def changed(at: int, **changes: Any) -> list[WorkerWindow]:
    windows = healthy()
    windows[at] = replace(windows[at], **changes)
    return windows


def test_no_windows() -> None:
    report = judge([], expected=4)
    assert (report.workers_seen, report.missing_ranks, report.findings, report.detail) == (0, (0, 1, 2, 3), (), None)
    assert report.notes == ("not enough evidence: no worker reported a usable window",)


def test_missing_ranks_are_named_and_the_rest_is_judged() -> None:
    report = judge(window_of(one_bad(4, 2, busy()))[1:], expected=4)
    assert report.missing_ranks == (0,)
    assert report.findings[0].ranks == (2,)
    assert (report.workers_seen, report.workers_expected) == (3, 4)


def test_two_workers_of_one_identity_are_named_and_not_judged() -> None:
    windows = window_of(one_bad(4, 2, busy()))
    report = judge([*windows, windows[2]], expected=4)
    assert not report.findings
    assert report.missing_ranks == ()
    assert report.notes[0] == "rank 2 reported more than once under one identity and is not judged"


def test_no_iterations_on_any_rank() -> None:
    report = judge(window_of([rank(iterations=0) for _ in range(4)], reason="manual"), expected=4)
    assert not report.findings
    assert report.notes[-1] == "not enough evidence: no rank finished an iteration in the window"


def test_a_stopped_rank_is_found_without_any_iteration() -> None:
    ranks = [rank(iterations=0, stopped_seconds=3.0 if at == 1 else 0.0) for at in range(4)]
    report = judge(window_of(ranks, reason="blocked"), expected=4)
    assert [(f.cause, f.ranks, f.severity) for f in report.findings] == [("process_stopped", (1,), "critical")]


def test_no_iterations_on_one_rank() -> None:
    report = judge(changed(2, iterations=0), expected=4)
    assert not report.findings
    assert "rank 2 finished no iteration" in report.notes[0]
    assert report.detail is not None
    assert report.detail.ranks == (0, 1, 3)


@pytest.mark.parametrize("seconds", [0.0, -1.0, NAN, math.inf])
def test_a_window_of_no_length(seconds: float) -> None:
    report = judge(changed(1, seconds=seconds), expected=4)
    assert not report.findings
    assert report.notes[0] == "rank 1 reported no usable length of the window and is not judged"


@pytest.mark.parametrize("beta", [NAN, math.inf, -0.1, 1.5])
def test_a_share_that_is_none(beta: float) -> None:
    windows = healthy()
    broken = tuple(replace(p, beta=beta) if p.function.startswith("fetch") else p for p in windows[3].patterns)
    report = judge(changed(3, patterns=broken), expected=4)
    assert not report.findings
    assert "1 patterns hold no usable share or kind and are not judged" in report.notes


@pytest.mark.parametrize(
    "changes",
    [
        {"patterns": ()},
        {"kinds": {}},
        {"kinds": {"compute": NAN}},
        {"cpu_seconds": NAN},
        {"sampler_gap_seconds": NAN},
        {"throttled_ratio": NAN, "run_delay_ratio": None},
        {"throttled_ratio": math.inf},
        {"floor": NAN, "dropped": 3},
        {"stopped_seconds": NAN},
        {"patterns": (Pattern("x", "x", "nonsense", "", "", 0.5),)},
    ],
    ids=str,
)
def test_missing_measurements_are_no_findings(changes: dict[str, Any]) -> None:
    assert not [f for f in judge(changed(0, **changes), reference_of(4), expected=4).findings if f.severity != "info"]


def test_missing_measurements_everywhere_still_name_the_culprit() -> None:
    bare = [
        replace(
            w, kinds={}, cpu_seconds=None, sampler_gap_seconds=None, throttled_ratio=None, run_delay_ratio=None,
            patterns=tuple(replace(p, mu=None, sigma=None) for p in w.patterns),
        )
        for w in window_of(one_bad(4, 2, busy()))
    ]  # fmt: skip
    (finding,) = judge(bare, expected=4).findings
    assert (finding.ranks, finding.function) == ((2,), busy().name)
    assert finding.cause == "unknown"  # nothing tells busy from blocked


def test_mu_outside_its_range_is_taken_as_the_border() -> None:
    windows = window_of(one_bad(4, 2, busy()))
    loud = [replace(w, patterns=tuple(replace(p, mu=(p.mu or 0) * 3) for p in w.patterns)) for w in windows]
    assert judge(loud, expected=4).findings[0].cause == "python_overhead"


def test_a_rank_that_joined_late_is_named() -> None:
    late = [replace(w, iterations=20, seconds=w.seconds * 2 / 3) if w.identity.rank == 3 else w for w in healthy()]
    report = judge(late, expected=4)
    assert not report.findings
    assert "rank 3 profiled fewer iterations than the others (20 of 30 at least)" in report.notes


def test_windows_of_another_id_are_left_out() -> None:
    late = [replace(w, window_id=5) for w in healthy()[:1]]
    report = judge([*late, *healthy()[1:]], expected=4)
    assert report.missing_ranks == (0,)
    assert "1 reports belong to another window" in report.notes[0]


def test_a_reference_of_another_loop_or_size_is_not_used() -> None:
    other = [replace(w, signature="another") for w in reference_of(4)]
    all_bad = window_of([rank(busy()) for _ in range(4)])
    assert not judge(all_bad, other, expected=4).findings
    assert "another training loop" in judge(all_bad, other, expected=4).notes[0]
    assert "another number of workers" in judge(all_bad, reference_of(8), expected=4).notes[0]


def test_a_rank_that_was_not_in_the_reference_is_compared_with_its_peers() -> None:
    (finding,) = judge(window_of([rank(busy()) for _ in range(4)]), reference_of(4)[:3], expected=4).findings
    assert (finding.verdict, finding.cause) == ("job", "python_overhead")


def test_a_short_window_is_of_low_confidence_against_the_reference() -> None:
    report = judge(window_of([rank(busy()) for _ in range(4)], iterations=5), reference_of(4, iterations=5), expected=4)
    assert report.findings[0].confidence == "low"
    assert any("fewer than 16 iterations" in note for note in report.notes)


def test_thresholds_are_published_as_numbers() -> None:
    thresholds = Policy(material_ratio=0.07).thresholds()
    assert thresholds["material_ratio"] == 0.07
    assert len(thresholds) > 30
    assert all(isinstance(value, float) for value in thresholds.values())


def test_thresholds_decide() -> None:
    windows = window_of(one_bad(4, 2, busy(12.0)))
    assert judge(windows, expected=4).findings
    assert not judge(windows, expected=4, policy=Policy(material_ratio=0.2)).findings


def test_a_world_that_is_mostly_absent_costs_no_more_than_what_was_seen() -> None:
    report = judge(window_of(one_bad(4, 2, busy())), expected=2**21)
    assert report.missing_ranks == tuple(range(4, 1004))
    assert report.notes[0] == "more than 1,000 ranks are missing; missing_ranks holds the first of them"
    assert report.findings[0].ranks == (2,)


def test_a_thousand_missing_ranks_are_all_named() -> None:
    report = judge(healthy(), expected=1004)
    assert report.missing_ranks == tuple(range(4, 1004))
    assert not [note for note in report.notes if "missing" in note]


@pytest.mark.parametrize("value", [1e300, -1e300])
def test_what_is_too_large_for_a_column_is_left_out_without_a_warning(value: float) -> None:
    windows = window_of(one_bad(4, 2, busy()))
    huge = replace(windows[1].patterns[0], beta=value, mu=value, sigma=value, noise_seconds=value)
    windows[1] = replace(windows[1], patterns=(huge, *windows[1].patterns[1:]), cpu_seconds=value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = judge(windows, expected=4)
    assert [finding.ranks for finding in report.findings] == [(2,)]
    assert "1 patterns hold no usable share or kind and are not judged" in report.notes
