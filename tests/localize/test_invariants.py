"""What must not change a verdict: the order of workers, their numbers, and what all of them do alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eroica_otel.localize.verdict import judge
from eroica_otel.model import Report, WorkerWindow
from factories_localize import Work, blocked_input, busy, noisy, rank, reference_of, window_of


def faulty() -> list[WorkerWindow]:
    return window_of([rank(busy()) if at == 1 else rank(blocked_input(40)) if at == 4 else rank() for at in range(6)])


def renamed(windows: list[WorkerWindow], names: list[int]) -> list[WorkerWindow]:
    return [replace(w, identity=replace(w.identity, rank=names[w.identity.rank])) for w in windows]


@settings(deadline=None, max_examples=20)
@given(st.permutations(range(6)))
def test_the_order_in_which_workers_report_changes_nothing(order: list[int]) -> None:
    windows, reference = faulty(), reference_of(6)
    shuffled = judge([windows[at] for at in order], [reference[at] for at in order], expected=6)
    assert repr(shuffled) == repr(judge(windows, reference, expected=6))


@settings(deadline=None, max_examples=20)
@given(st.permutations(range(6)))
def test_other_numbers_of_ranks_give_the_same_verdict_on_the_same_workers(names: list[int]) -> None:
    before = judge(faulty(), reference_of(6), expected=6)
    after = judge(renamed(faulty(), names), renamed(reference_of(6), names), expected=6)
    assert [tuple(names[r] for r in f.ranks) for f in before.findings] == [f.ranks for f in after.findings]
    assert [(f.cause, f.function_id, f.hosts, f.severity) for f in before.findings] == [
        (f.cause, f.function_id, f.hosts, f.severity) for f in after.findings
    ]
    assert [tuple(sorted(names[r] for r in v.ranks)) for v in before.victims] == [v.ranks for v in after.victims]


def who(report: Report) -> list[tuple[str, tuple[int, ...], str, float]]:
    return [(f.cause, f.ranks, f.function, round(f.impact_seconds, 4)) for f in report.findings]


@pytest.mark.parametrize("constant", [1.0, 10.0, 60.0])
def test_work_that_all_do_alike_changes_no_finding_about_peers(constant: float) -> None:
    alike = Work("log (train.py:9)", constant, constant)
    more = window_of([rank(busy(), alike) if at == 1 else rank(alike) for at in range(6)])
    plain = window_of([rank(busy()) if at == 1 else rank() for at in range(6)])
    assert who(judge(more, expected=6)) == who(judge(plain, expected=6))


def test_a_longer_window_of_the_same_iterations_gives_the_same_verdict() -> None:
    ranks = [rank(busy()) if at == 1 else rank() for at in range(6)]
    short, long = (judge(window_of(ranks, iterations=n), expected=6) for n in (20, 200))
    assert who(short) == who(long)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 50))
def test_the_same_input_gives_the_same_report(seed: int) -> None:
    assert repr(judge(noisy(seed, 4), expected=4)) == repr(judge(noisy(seed, 4), expected=4))
