"""Ranks of one machine that differ for good, and only by what healthy ranks differ by: nobody is named for it.

Each trait alone and all together: 1 to 2 ms more in one function, waits for cores that differ by 10 % of the window,
a rank that shares its core, CPUs of different speed. A fault beside them is still found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np
import pytest

from eroica_otel.localize.verdict import judge
from eroica_otel.model import Finding, WorkerWindow
from factories_localize import Rank, Work, blocked_input, busy, rank, window_of

TRAITS = ("offset", "delay", "shared", "speed")
TOGETHER = ("offset", "delay", "speed")
SEEDS = 32
BAD = 2


def functions(ms: float) -> tuple[tuple[Work, float], ...]:
    """Return what an iteration of ``ms`` holds beside the waiting, each with its noise as a share of its time."""
    main = ("train:main:1",)
    return (
        (Work("demo::device", 0.5 * ms, 0.01 * ms, "compute"), 0.01),
        (Work("aten::mm", 0.12 * ms, 0.1 * ms, "compute", "gemm"), 0.04),
        (Work("aten::add", 0.05 * ms, 0.04 * ms, "compute", "elementwise"), 0.04),
        (Work("train (train.py:12)", 0.04 * ms, 0.03 * ms, stack=(*main, "train:train:12")), 0.08),
        (Work("step (adamw.py:200)", 0.06 * ms, 0.04 * ms, stack=(*main, "adamw:step:200")), 0.08),
        (Work("fetch (data.py:9)", 0.03 * ms, 0.01 * ms, family="input", stack=(*main, "data:fetch:9")), 0.15),
    )


def alike(
    seed: int, traits: Collection[str], fault: Work | None = None, *, ms: float = 20.0, again: int = 0
) -> list[WorkerWindow]:
    """Return a window of four ranks; traits follow from ``seed`` alone, noise also from ``again``."""
    lasting, passing = np.random.default_rng(seed), np.random.default_rng((seed, again))
    speed = 1 + lasting.choice([0.0, 0.05], 4) * ("speed" in traits)
    offset = lasting.uniform(1, 2, 4) * lasting.choice([0, 1], 4) * ("offset" in traits)
    where = lasting.integers(1, 6, 4)
    delay = lasting.uniform(0, 0.1, 4) * ("delay" in traits)
    shares_core = (BAD + 1 + int(lasting.integers(3))) % 4
    delay[shares_core] += 0.1 * ("shared" in traits)
    ranks = [_rank(passing, ms, speed[at], offset[at], int(where[at]), delay[at]) for at in range(4)]
    if fault is not None:
        ranks[BAD] = replace(ranks[BAD], extra=(fault,))
    transfer_ms = 0.1 * ms * float(passing.uniform(0.8, 1.2))
    return window_of(ranks, transfer_ms=transfer_ms, reason="degraded" if fault else "manual")


def _rank(random: np.random.Generator, ms: float, speed: float, offset: float, where: int, delay: float) -> Rank:
    """Return one rank: a slower CPU stretches CPU time, the wait for a core falls on whatever runs."""
    base = []
    for at, (work, noise) in enumerate(functions(ms)):
        more = offset if at == where else 0.0
        on = ((work.on or 0.0) + more * (work.on or 0.0) / work.ms) * speed * float(random.normal(1, 0.02))
        wall = work.ms * float(random.normal(1, noise)) + more + on * (1 - 1 / speed) + delay * work.ms
        base.append(replace(work, ms=wall, on=min(on, wall), noise_ms=noise * wall))
    return rank(base=tuple(base), host="node-0", run_delay_ratio=delay, sampler_gap_seconds=0.05)


def named(windows: list[WorkerWindow], reference: list[WorkerWindow]) -> list[Finding]:
    report = judge(windows, reference, expected=4)
    return [finding for finding in report.findings if finding.severity != "info"]


@pytest.mark.parametrize("ms", [20.0, 100.0])
@pytest.mark.parametrize("referenced", [False, True], ids=["alone", "referenced"])
@pytest.mark.parametrize("traits", [*((trait,) for trait in TRAITS), TOGETHER, TRAITS], ids="-".join)
def test_nobody_is_named_for_what_healthy_ranks_differ_by(traits: tuple[str, ...], referenced: bool, ms: float) -> None:
    false = {}
    for seed in range(SEEDS if ms < 50 else SEEDS // 4):
        before = [replace(w, reason="reference", window_id=0) for w in alike(seed, traits, ms=ms, again=1)]
        if found := named(alike(seed, traits, ms=ms), before if referenced else []):
            false[seed] = [(finding.cause, finding.ranks, finding.function) for finding in found]
    assert false == {}


@pytest.mark.parametrize("ms", [20.0, 100.0])
@pytest.mark.parametrize("referenced", [False, True], ids=["alone", "referenced"])
@pytest.mark.parametrize(
    ("fault", "cause"), [(busy, "python_overhead"), (blocked_input, "slow_input")], ids=["busy", "input"]
)
def test_a_fault_beside_it_is_found(fault: Callable[[float], Work], cause: str, referenced: bool, ms: float) -> None:
    share = 0.2 if cause == "python_overhead" else 0.15
    work = fault(share / (1 - share) * ms)
    for seed in range(SEEDS if ms < 50 else SEEDS // 4):
        before = [replace(w, reason="reference", window_id=0) for w in alike(seed, TRAITS, ms=ms, again=1)]
        found = named(alike(seed, TRAITS, work, ms=ms), before if referenced else [])
        assert [(finding.cause, finding.ranks) for finding in found] == [(cause, (BAD,))], seed
