"""One fault that shows in several kinds of functions of a rank is one finding; two faults stay two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eroica_otel.localize.verdict import judge
from eroica_otel.model import Finding
from factories_localize import Rank, Work, blocked_input, busy, device, matmul, ordinary, rank, window_of
from scenarios import copied, kernel

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


def gpu(*kernels: Work, extra: tuple[Work, ...] = (), **changes: float) -> Rank:
    """Return a rank whose kernels are these."""
    return rank(*extra, base=(*kernels, LOOP), **changes)


COOL, HOT, SILENT = kernel(60.0, 0.95), kernel(120.0, 0.475), kernel(120.0, None)
COPY, NARROW = copied(10.0, 0.9), copied(72.0, 0.125)
READ, COLLECT = (blocked_input(50.0),), Work("garbage collection", 60.0, 60.0, family="gc")
TWO = {
    "Python and input": (rank(busy(60.0), *READ), rank(), {"python_overhead": 60, "slow_input": 50}),
    "collections and input": (rank(COLLECT, *READ), rank(), {"gc_pause": 60, "slow_input": 50}),
    "collections and a lock": (rank(COLLECT, BACKOFF), rank(), {"gc_pause": 60, "python_blocked": 60}),
    "GPU and input": (gpu(HOT, extra=READ), gpu(COOL), {"gpu_throttled": 60, "slow_input": 50}),
    "GPU and its bus": (gpu(HOT, NARROW), gpu(COOL, COPY), {"gpu_throttled": 60, "pcie_degraded": 62}),
    "more for the GPU, and input": (
        gpu(kernel(120.0, 0.95), extra=READ), gpu(COOL), {"load_imbalance": 60, "slow_input": 50},
    ),
    "GPU and Python, without a core for 60 of 193 ms": (
        gpu(HOT, extra=(busy(50.0),), run_delay_ratio=0.02 + 60 / 193), gpu(COOL),
        {"gpu_throttled": 60, "python_overhead": 50},
    ),
    "kernels, nobody knows why, and input": (
        gpu(SILENT, extra=READ), gpu(kernel(60.0, None)), {"unknown": 60, "slow_input": 50},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("bad", "good", "costs_ms"), TWO.values(), ids=TWO)
def test_two_faults_of_a_rank_with_time_of_their_own_stay_two(bad: Rank, good: Rank, costs_ms: dict[str, int]) -> None:
    """The rank is longer by the sum of both, and each costs what it takes."""
    found = grave(bad, good)
    assert {one.cause: (one.ranks, round(1000 * one.impact_seconds)) for one in found} == {
        cause: ((1,), costs) for cause, costs in costs_ms.items()
    }


def test_a_slow_gpu_is_one_finding_also_where_the_clock_is_known_of_one_kernel_only() -> None:
    """Both families take twice as long: 120 ms in all."""
    relu = {"name": "relu", "family": "elementwise"}
    (found,) = grave(gpu(HOT, kernel(120.0, None, **relu)), gpu(COOL, kernel(60.0, None, **relu)))
    assert (found.cause, found.function) == ("gpu_throttled", "bf16_gemm")
    assert found.impact_seconds == pytest.approx(0.120, abs=1e-4)


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


def test_of_several_ranks_that_one_is_named_on_which_another_function_shows_it() -> None:
    ranks = [away(share=0.0)] * 6
    ranks[1], ranks[2] = away(matmul_ms=100.0, loop_ms=33.0), away(matmul_ms=100.0)
    (found,) = judge(window_of(ranks), expected=6).findings
    assert (found.cause, found.ranks) == ("numa_misplaced", (1, 2))
    assert (
        "the same fault shows in train (train.py:12) on rank 1: 33 ms an iteration, its peers 3.0 ms" in found.evidence
    )


def test_a_slow_input_beside_it_stays_a_finding_of_its_own() -> None:
    """The input takes 40 ms longer, operators 40 and Python 30: one costs 40 and the other 70."""
    found = grave(away(blocked_input(40.0), matmul_ms=100.0, loop_ms=33.0), *[away(share=0.0)] * 4)
    costs = {(one.cause, one.ranks, round(1000 * one.impact_seconds)) for one in found}
    assert costs == {("numa_misplaced", (1,), 70), ("slow_input", (1,), 40)}


def test_the_same_fault_of_another_rank_is_not_joined_with_another_function() -> None:
    """Rank 1 reads slowly and rank 5 computes: each has its own."""
    found = grave(rank(blocked_input(60.0)), rank(busy(60.0)))
    assert told(found) == {("slow_input", (1,)), ("python_overhead", (5,))}
