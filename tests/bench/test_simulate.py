"""The simulated training against what can be worked out by hand."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sim() -> Iterator[SimpleNamespace]:
    """Everything that bench/simulate and bench/counterfactual.py define."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        names: dict[str, Any] = {}
        for module in ("operations", "run", "jobs", "faults", "observe"):
            names |= vars(importlib.import_module(f"bench.simulate.{module}"))
        names |= vars(importlib.import_module("bench.counterfactual"))
        yield SimpleNamespace(**names)


def meeting(sim: SimpleNamespace, own: list[float], transfer: float = 0.25, **changes: Any) -> Any:
    """Return a job whose ranks do ``own`` seconds of work and meet once."""
    groups = np.arange(len(own)).reshape(1, -1)
    return (
        sim.Work(sim.GEMM, np.array(own)),
        sim.Meet(sim.ALL_REDUCE, groups, np.full(len(own), transfer), **changes),
    )


def charged(sim: SimpleNamespace, program: Any, function: Any) -> list[float]:
    """Return what a function takes on each rank in an iteration."""
    times = sim.run(program, 3)
    table: np.ndarray[Any, Any] = times.charged[:, times.functions.index(function)]
    assert np.ptp(table, axis=0).max() == pytest.approx(0)  # without noise every iteration is alike
    return [float(value) for value in table[0]]


def test_an_iteration_lasts_as_long_as_the_slowest_rank_and_the_transfer(sim: SimpleNamespace) -> None:
    assert sim.run(meeting(sim, [1.0, 3.0]), 4).iteration == pytest.approx(3.25)


def test_the_late_rank_waits_for_the_transfer_alone_the_other_for_it_too(sim: SimpleNamespace) -> None:
    assert charged(sim, meeting(sim, [1.0, 3.0]), sim.ALL_REDUCE) == pytest.approx([2.25, 0.25])


def test_a_transfer_takes_as_long_as_the_slowest_link_of_the_group(sim: SimpleNamespace) -> None:
    two = np.array([[0, 1], [2, 3]])
    program = (sim.Work(sim.GEMM, np.ones(4)), sim.Meet(sim.ALL_REDUCE, two, np.array([0.5, 0.1, 0.1, 0.2])))
    assert charged(sim, program, sim.ALL_REDUCE) == pytest.approx([0.5, 0.5, 0.2, 0.2])


def test_overlapped_communication_costs_what_is_left_of_it_after_the_work(sim: SimpleNamespace) -> None:
    for after, left in ((0.4, 0.6), (1.5, 0.0)):
        program = (
            *meeting(sim, [1.0, 1.0], 1.0, overlapped=True),
            sim.Work(sim.OPTIMIZER, np.full(2, after)),
            sim.Join(sim.ALL_REDUCE),
        )
        assert charged(sim, program, sim.ALL_REDUCE) == pytest.approx([left, left])
        assert sim.run(program, 2).iteration == pytest.approx(1 + after + left)


def test_the_root_of_a_broadcast_waits_for_nobody_the_others_for_it_alone(sim: SimpleNamespace) -> None:
    groups, transfer = np.array([[0, 1, 2]]), np.full(3, 0.5)
    spread = sim.Spread(sim.BROADCAST, groups, transfer)
    late_root = (sim.Work(sim.GEMM, np.array([3.0, 1.0, 2.0])), spread)
    clocks = sim.Clocks(np.zeros(3), np.zeros(3))
    for operation in late_root:
        operation.run(clocks, np.ones(3))
    assert clocks.now.tolist() == [3.0, 3.5, 3.5]
    late_member = sim.Clocks(np.array([0.0, 4.0, 0.0]), np.zeros(3))
    spread.run(late_member, np.ones(3))
    assert late_member.now.tolist() == [0.0, 4.0, 0.5]


def test_who_gathers_waits_for_the_last_the_others_go_on(sim: SimpleNamespace) -> None:
    clocks = sim.Clocks(np.array([0.0, 4.0, 1.0]), np.zeros(3))
    sim.Spread(sim.REDUCE, np.array([[0, 1, 2]]), np.full(3, 0.5), gather=True).run(clocks, np.ones(3))
    assert clocks.now.tolist() == [4.5, 4.0, 1.0]


@pytest.mark.parametrize(("stages", "micro"), [(2, 4), (4, 8), (8, 8)])
def test_the_bubble_of_a_pipeline(sim: SimpleNamespace, stages: int, micro: int) -> None:
    """(p - 1) / (m + p - 1) of the time of the pipeline is idle, here waiting to receive (GPipe, section 2.3)."""
    shape = sim.Shape(pipeline=stages, micro=micro)
    waiting = charged(sim, sim.program(shape), sim.SEND_RECV)
    assert waiting[0] / 0.8 == pytest.approx((stages - 1) / (micro + stages - 1), abs=0.005)


def test_the_slowest_stage_sets_the_pace_of_all_micro_batches(sim: SimpleNamespace) -> None:
    """One forward and backward of a micro batch takes 0.1 s a stage and 0.2 s on the slow one: the even pipeline's
    (m + p - 1) 0.1 s get longer by m 0.1 s.
    """
    shape = sim.Shape(pipeline=3, micro=6)
    even, slow = (sim.run(sim.program(shape, cut=np.array(cut)), 4).iteration for cut in ((1, 1, 1), (1, 2, 1)))
    assert slow - even == pytest.approx(6 * 0.8 / 8, rel=0.01)


def test_a_late_rank_holds_its_tensor_group_in_every_layer_and_all_others_at_the_end(sim: SimpleNamespace) -> None:
    shape = sim.Shape(data=2, tensor=2)
    late = sim.inject(sim.program(shape), sim.Fault("compute", (0,), 0.4))
    before, after = (charged(sim, one, sim.TENSOR_REDUCE) for one in (sim.program(shape), late))
    # What it is late by after the last collective, its group waits for in the first of the next iteration.
    assert np.subtract(after, before) == pytest.approx([0, 0.4, 0, 0], abs=0.001)


@pytest.mark.parametrize(
    "changes",
    [{"data": 4}, {"data": 4, "central": True}, {"data": 2, "tensor": 4}, {"data": 2, "pipeline": 4},
     {"data": 2, "tensor": 2, "pipeline": 2}, {"data": 8, "expert": 4}],
)  # fmt: skip
def test_every_moment_is_charged_once_and_all_ranks_go_at_one_pace(sim: SimpleNamespace, changes: Any) -> None:
    times = sim.run(sim.program(sim.Shape(**changes)), 20, sim.Noise(each=0.05, lasting=0.05))
    assert times.charged.sum(axis=1) == pytest.approx(times.length)
    assert times.charged.min() >= 0
    assert np.ptp(times.length.mean(axis=0)) < 0.02 * times.iteration


def test_groups_and_roles_of_a_job(sim: SimpleNamespace) -> None:
    shape = sim.Shape(data=4, tensor=2, pipeline=2, expert=2, node=8)
    assert shape.tensor_groups()[:2].tolist() == [[0, 1], [2, 3]]
    assert shape.data_groups()[:2].tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert shape.expert_groups()[:2].tolist() == [[0, 2], [4, 6]]
    assert shape.roles()[:4] == ["pp0-ep0", "pp0-ep0", "pp0-ep1", "pp0-ep1"]
    assert (shape.roles()[8], shape.hosts()[7], shape.hosts()[8]) == ("pp1-ep0", "node-000", "node-001")


@pytest.mark.parametrize("kind", ["compute", "input", "python", "cpu"])
def test_a_fault_adds_its_seconds_and_mending_takes_them_away(sim: SimpleNamespace, kind: str) -> None:
    shape = sim.Shape(data=4)
    healthy = sim.program(shape)
    bad = sim.inject(healthy, sim.Fault(kind, (2,), 0.3))
    times = [sim.run(one, 2).iteration for one in (healthy, bad, sim.mend(bad, (2,), shape.roles()))]
    assert times == pytest.approx([times[0], times[0] + 0.3, times[0]])


def test_noise_has_the_spread_that_was_asked_for_and_equal_seeds_are_equal(sim: SimpleNamespace) -> None:
    program = (sim.Work(sim.GEMM, np.ones(20_000)),)
    for law in sim.LAWS.values():
        window = sim.run(program, 1, sim.Noise(window=0.05, law=law), seed=3).charged[0, 0]
        assert window.std() == pytest.approx(0.05, rel=0.05)
        again = sim.run(program, 1, sim.Noise(window=0.05, law=law), seed=3).charged[0, 0]
        assert np.array_equal(window, again)
    lasting = [sim.run(program, 1, sim.Noise(lasting=0.05), seed=seed).charged[0, 0] for seed in (1, 2)]
    assert np.array_equal(*lasting)


def test_workers_report_what_was_charged(sim: SimpleNamespace) -> None:
    shape = sim.Shape(data=2)
    times = sim.run(sim.inject(sim.program(shape), sim.Fault("input", (1,), 0.5)), 16, sim.Noise(each=0.05))
    windows = sim.windows_of(times, shape, reason="reference", missing=(0,))
    (window,) = windows
    found = {pattern.function: pattern for pattern in window.patterns}
    at = times.functions.index(sim.INPUT)
    seconds = found[sim.INPUT.name].beta * window.seconds / window.iterations
    assert seconds == pytest.approx(times.charged[:, at, 1].mean())
    pairs = times.charged[:, at, 1].reshape(8, 2).mean(axis=1)
    assert found[sim.INPUT.name].noise_seconds == pytest.approx(pairs.std(ddof=1))
    assert sum(window.kinds.values()) == pytest.approx(1)


def test_a_slow_link_shows_at_both_of_its_ends_and_a_starved_rank_has_its_lack_of_a_core(sim: SimpleNamespace) -> None:
    shape = sim.Shape(data=4, node=1)
    times = sim.run(sim.program(shape), 2)
    windows = sim.windows_of(times, shape, [sim.Fault("link", (1,), 4.0)])
    rates = [next(p.peaks for p in window.patterns if p.peaks) for window in windows]
    assert [rate["nic_tx"] < 0.5 for rate in rates] == [True, True, False, False]
    assert [rate["nic_rx"] < 0.5 for rate in rates] == [False, True, True, False]
    starved = sim.windows_of(times, shape, [sim.Fault("cpu", (2,), 0.1)])
    assert [w.throttled_ratio for w in starved] == pytest.approx([0, 0, 0.1 / times.iteration, 0])


@pytest.mark.parametrize(
    ("changes", "kind", "rank"),
    [({"data": 8}, "compute", 3), ({"data": 8}, "cpu", 3), ({"data": 4, "tensor": 2}, "compute", 5),
     ({"data": 4, "pipeline": 2}, "compute", 5), ({"data": 4, "pipeline": 2}, "input", 5),
     ({"data": 8, "expert": 2}, "python", 3), ({"data": 8, "central": True}, "compute", 0)],
)  # fmt: skip
def test_the_impact_of_a_finding_is_what_the_job_gains_without_the_fault(
    sim: SimpleNamespace, changes: dict[str, Any], kind: str, rank: int
) -> None:
    result = sim.play(sim.Case("", sim.Shape(**changes), sim.Fault(kind, (rank,), 0.2)))
    assert result.right, result
