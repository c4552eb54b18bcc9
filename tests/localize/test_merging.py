"""One fault that shows in several kinds of functions of a rank is one finding; two faults stay two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eroica_otel.localize.verdict import judge
from eroica_otel.model import Finding
from factories_localize import Rank, Work, blocked_input, busy, device, matmul, ordinary, rank, window_of

LOOP = Work("train (train.py:12)", 3.0, 2.5)
BACKOFF = Work("backoff (train.py:77)", 60.0, 0.0)
# In 0.5 ms of input that all have.
INPUT = blocked_input(49.5)


def grave(bad: Rank, *others: Rank, count: int = 6) -> list[Finding]:
    """Return what is found where rank 1 is ``bad`` and the last ranks are ``others``."""
    ranks = [rank(base=others[0].base) if others else rank() for _ in range(count)]
    ranks[1] = bad
    ranks[count - len(others) :] = others
    return [one for one in judge(window_of(ranks), expected=count).findings if one.severity != "info"]


def told(found: list[Finding]) -> set[tuple[str, tuple[int, ...]]]:
    return {(one.cause, one.ranks) for one in found}


@pytest.mark.parametrize(("device_ms", "findings"), [(50.0, 1), (70.0, 2), (90.0, 2)])
def test_a_second_cause_counts_where_own_work_holds_the_first_and_half_of_it(device_ms: float, findings: int) -> None:
    """60 ms of Python and 49.5 of input more, and 40, 20 or 0 ms less on the device: 69.5, 89.5 or 109.5 ms in all, of
    which a second cause needs 60 + 49.5 / 2 = 84.75.
    """
    found = grave(rank(busy(60.0), INPUT, base=(device(device_ms), *ordinary()[1:])))
    assert [one.ranks for one in found] == [(1,)] * findings
    assert found[0].cause == "python_overhead"
    line = "the same fault shows in fetch_remote (train.py:52): 50 ms an iteration, its peers 0.5 ms"
    assert (line in found[0].evidence) == (findings == 1)
    assert found[0].impact_seconds == pytest.approx(0.0695 if findings == 1 else 0.060, abs=1e-4)


@pytest.mark.parametrize(("lacking_ms", "findings"), [(0.0, 2), (60.0, 1)])
def test_the_time_without_a_core_is_no_second_fault(lacking_ms: float, findings: int) -> None:
    """Two families of Python stand still for 60 ms each; of the 119.5 ms the rank had no core for 60."""
    bad = rank(BACKOFF, blocked_input(59.5), run_delay_ratio=0.02 + lacking_ms / 233.0)
    found = grave(bad)
    assert [one.ranks for one in found] == [(1,)] * findings
    if findings == 1:
        assert found[0].impact_seconds == pytest.approx(0.0595, abs=1e-3)


def test_want_of_a_core_beside_work_that_is_on_a_core_stays_two() -> None:
    """Operators take 45 ms longer for want of a core, which was lacking for 70; 60 ms of Python were on one."""
    base = (matmul(), LOOP)
    bad = rank(busy(60.0), base=(matmul(105.0, 57.0), LOOP), throttled_ratio=0.37)
    assert told(grave(bad, rank(base=base))) == {("python_overhead", (1,)), ("cpu_starved", (1,))}


def test_another_rank_with_a_fault_makes_two_of_one_rank_not_one() -> None:
    """Of three ranks the peers' median is half of the other's fault: 109.5 - 30 ms would be less than 84.75."""
    other = rank(Work("garbage collection", 60.0, 60.0, family="gc"))
    assert told(grave(rank(busy(60.0), INPUT), other, count=3)) == {
        ("python_overhead", (1,)), ("slow_input", (1,)), ("gc_pause", (2,)),
    }  # fmt: skip


def away(*extra: Work, matmul_ms: float = 60.0, loop_ms: float = 3.0, share: float = 0.4) -> Rank:
    """Return a rank whose process is on another NUMA node for ``share`` of the time."""
    base = (matmul(matmul_ms, matmul_ms - 3.0), replace(LOOP, ms=loop_ms, on=loop_ms - 0.5))
    return rank(*extra, base=base, host_use={"numa_away": share})


def test_what_slows_all_that_a_core_does_is_one_finding_with_what_it_costs_in_all() -> None:
    """Operators take 40 ms longer and Python 30, both of CPU time."""
    (found,) = grave(away(matmul_ms=100.0, loop_ms=33.0), *[away(share=0.0)] * 4)
    assert (found.cause, found.ranks, found.function) == ("numa_misplaced", (1,), "aten::mm")
    assert found.impact_seconds == pytest.approx(0.070, abs=1e-4)
    assert "the same fault shows in train (train.py:12): 33 ms an iteration, its peers 3.0 ms" in found.evidence


def test_a_slow_input_beside_it_stays_a_finding_of_its_own() -> None:
    found = grave(away(blocked_input(30.0), loop_ms=33.0), *[away(share=0.0)] * 4)
    assert told(found) == {("numa_misplaced", (1,)), ("slow_input", (1,))}


def test_the_same_fault_of_another_rank_is_not_joined_with_another_function() -> None:
    """Rank 1 reads slowly and rank 5 computes: each has its own."""
    found = grave(rank(blocked_input(60.0)), rank(busy(60.0)))
    assert told(found) == {("slow_input", (1,)), ("python_overhead", (5,))}
