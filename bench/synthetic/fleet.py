"""A job of any number of workers as columns, made by a seed: healthy but one.

Every worker runs the same functions, each with a share of its own and 2 % of noise; who has less to do waits in
all_reduce. The culprit spends another 30 % of the iteration in a Python function that computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from eroica_otel.table import Bools, Doubles, Floats, Function, Ints, Table, Words, Workers, not_measured

SECONDS, ITERATIONS, PER_HOST = 20.0, 100, 8
NOISE = 0.02
EXTRA = 0.3
"""What the culprit does more, as a share of a healthy iteration."""
KINDS = (("compute", "gemm"), ("compute", "elementwise"), ("memory", "copy"), ("host", "launch"), ("python", "other"))
GUILTY, WAIT = "augment (train.py:41)", "all_reduce"
OWN = 0.7
"""Share of a healthy iteration that is own work."""


def functions(count: int) -> tuple[Function, ...]:
    """Return this many functions: the culprit's, one collective, and others of all kinds in turn."""
    others = [
        Function(f"{at:012x}", f"{kind}_{at}", kind, f"{family}_{at % 3}", resource="cpu" if kind == "python" else "")
        for at in range(2, count)
        for kind, family in [KINDS[at % len(KINDS)]]
    ]
    guilty = Function("0" * 12, GUILTY, "python", "other", ("train:main:1", "train:augment:41"), "cpu")
    return (guilty, Function(f"{1:012x}", WAIT, "communication", "collective"), *others)


def culprit(workers: int) -> int:
    """Return who it is."""
    return workers // 3


def table(workers: int, count: int = 50, *, seed: int = 0, healthy: bool = False) -> Table:
    """Return a window; ``healthy``: the reference, before the culprit was one."""
    base = np.random.default_rng(seed).dirichlet(np.full(count - 1, 2.0)) * OWN
    random = np.random.default_rng((seed, healthy))
    guilty = np.zeros(workers, bool)
    guilty[culprit(workers)] = not healthy
    longer = 1.0 if healthy else 1 + EXTRA
    beta = np.concatenate(list(_shares(random, guilty, base / longer, longer)))
    every = np.arange(workers, dtype=np.int32)
    use = np.array([0.9 if function.resource else np.nan for function in functions(count)], np.float32)
    spread = np.array([0.1 if function.resource else np.nan for function in functions(count)], np.float32)
    return Table(
        _workers(guilty, longer, healthy), functions(count),
        worker=np.tile(every, count), function=np.repeat(np.arange(count, dtype=np.int32), workers), beta=beta,
        mu=np.repeat(use, workers), sigma=np.repeat(spread, workers), noise=not_measured(beta.size),
    )  # fmt: skip


def medians(whole: Table) -> Table:
    """Return one row with the medians of all workers, as a large job keeps its reference."""
    first = np.zeros(1, np.int64)
    workers = whole.workers.at(first)
    beta = np.median(whole.beta.reshape(len(whole.functions), -1), axis=1).astype(np.float32)
    every = np.arange(len(whole.functions)) * len(whole.workers)
    return Table(
        replace(workers, rank=np.array([-1])), whole.functions, np.zeros(beta.size, np.int32),
        np.arange(beta.size, dtype=np.int32), beta, whole.mu[every], whole.sigma[every], not_measured(beta.size),
    )  # fmt: skip


def _shares(random: np.random.Generator, guilty: Bools, base: Doubles, longer: float) -> Iterator[Floats]:
    """Yield the share of each function on all workers; the collective takes what the others leave."""
    parts = [(share * (1 + NOISE * random.standard_normal(guilty.size))).astype(np.float32) for share in base]
    parts[0] += np.float32(EXTRA / longer) * guilty
    rest = np.float32(1) - sum(parts, np.zeros(guilty.size, np.float32))
    yield parts[0]
    yield np.maximum(rest, 0)
    yield from parts[1:]


def _workers(guilty: Bools, longer: float, healthy: bool) -> Workers:
    count = guilty.size
    rank: Ints = np.arange(count, dtype=np.int64)
    return Workers.of(
        rank,
        training_job=Words.same("fleet", count),
        host=Words(tuple(f"node-{at}" for at in range(-(-count // PER_HOST))), (rank // PER_HOST).astype(np.int32)),
        role=Words.same("all", count),
        reason=Words.same("reference" if healthy else "degraded", count),
        signature=Words.same("loop", count),
        world_size=np.full(count, count),
        window_id=np.full(count, 1_764_420_000 if healthy else 1_764_430_000),
        seconds=np.full(count, SECONDS * longer),
        iterations=np.full(count, ITERATIONS),
        cpu_seconds=np.where(guilty, SECONDS * (0.2 + EXTRA), SECONDS * 0.2),
        sampler_gap_seconds=np.full(count, 0.03),
        throttled_ratio=np.zeros(count),
        run_delay_ratio=np.full(count, 0.02),
    )
