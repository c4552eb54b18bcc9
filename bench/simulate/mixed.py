"""Windows on which rules are compared: data parallel jobs whose ranks differ by chance, by role, or really.

A job has a dozen functions of 1 to 30 % of the iteration. How much a function's seconds differ between healthy ranks in
a window is its noise: half of the variance stays for good, most of the rest is drawn for each window, a little for each
iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.simulate.jobs import ALL_REDUCE
from bench.simulate.observe import table_of_times
from bench.simulate.operations import Function, Ints, Meet, Program, Work
from bench.simulate.run import LAWS, Noise, Times, run
from eroica_otel.table import Table

ITERATIONS = 16
FUNCTIONS = tuple(
    Function(name, kind, family, "cpu" if kind == "python" else "sm_clock", 0.9)
    for name, kind, family in (
        ("gemm", "compute", "gemm"), ("attention", "compute", "attention"), ("norm", "compute", "normalization"),
        ("elementwise", "compute", "elementwise"), ("optimizer", "compute", "optimizer"), ("copy", "memory", "copy"),
        ("fill", "memory", "fill"), ("launch", "host", "launch"), ("alloc", "host", "alloc"),
        ("next (loader.py:40)", "python", "input"), ("train (train.py:12)", "python", "other"),
        ("log (train.py:90)", "python", "other"),
    )
)  # fmt: skip
SHARES = np.array([0.30, 0.15, 0.06, 0.08, 0.05, 0.04, 0.01, 0.03, 0.01, 0.02, 0.03, 0.01])
"""Of one second; the rest is the transfer."""
OF_NOISE = (0.25, 0.66, np.sqrt(0.5))
"""Of the noise of a window: what comes from single iterations (each / sqrt(16)), from the window, what lasts."""


@dataclass(frozen=True, slots=True)
class Mix:
    """One kind of job.

    Attributes:
        sd: Noise of a function in a window, as a share of it.
        law: One of run.LAWS. A window's mean has it: the harder case, since single iterations add up to what is nearly
            normal.
        single: Whether single iterations have it instead: half of the variance is theirs, and what lasts is normal.
        missing: Share of the ranks that report nothing.
        split: By how much the first half of each role takes longer for its largest function, for good.
        most: Whether the fault hits 70 % of the ranks.
    """

    name: str
    size: int = 256
    roles: int = 1
    sd: float = 0.03
    law: str = "normal"
    missing: float = 0.0
    split: float = 0.0
    most: bool = False
    single: bool = False

    def noise(self) -> Noise:
        """Return the parts of the noise."""
        if self.single:
            half = float(self.sd * OF_NOISE[2])
            return Noise(half * ITERATIONS**0.5, half, law=LAWS[self.law], steady=LAWS["normal"])
        each, window, lasting = (float(self.sd * part) for part in OF_NOISE)
        return Noise(each * ITERATIONS**0.5, lasting, window, LAWS[self.law])

    def role_of(self) -> Ints:
        """Return the number of the role of each rank."""
        return np.asarray(np.arange(self.size) * self.roles // self.size, np.int64)


@dataclass(frozen=True, slots=True)
class Sample:
    """A window, the healthy one before it, and the truth: who has how many more seconds in which function."""

    table: Table
    reference: Table
    culprits: tuple[int, ...] = ()
    function: Function | None = None


def exact(mix: Mix, seed: int, fault: float) -> Sample:
    """Return one job whose rank 0 takes ``fault`` noise levels longer in the largest function, whatever that costs."""
    base = _program(mix)
    bad = _program(mix, 0, (0,), fault * mix.sd * float(SHARES[0]))
    reference = _seen(mix, base, 2 * seed, seed, "reference")
    return Sample(_seen(mix, bad, 2 * seed + 1, seed, "degraded"), reference, (0,), FUNCTIONS[0])


def sample(mix: Mix, seed: int, fault: float = 0.0) -> Sample:
    """Return one job with a fault of ``fault`` noise levels in a function drawn by chance, or none.

    For each 8 levels (the least that must be found) it costs 5 % of the slower iteration or more. What hides behind the
    waiting for whoever comes last by chance costs nothing, so it is added.
    """
    random = np.random.default_rng([seed, 7])
    base = _program(mix)
    reference = _seen(mix, base, 2 * seed, seed, "reference")
    now = 2 * seed + 1
    if not fault:
        return Sample(_seen(mix, base, now, seed, "degraded"), reference)
    at = int(random.integers(len(FUNCTIONS)))
    culprits = tuple(sorted(random.permutation(mix.size)[: int(0.7 * mix.size) if mix.most else 1].tolist()))
    calm, share = _times(mix, base, now, seed).iteration, 0.05 * fault / 8
    seconds = fault * mix.sd * float(SHARES[at])
    for _ in range(4):
        bad = _program(mix, at, culprits, seconds)
        slow = _times(mix, bad, now, seed).iteration
        seconds += max(share * slow - (slow - calm), 0.0) / (1 - share)
    return Sample(_seen(mix, bad, now, seed, "degraded", keep=culprits), reference, culprits, FUNCTIONS[at])


def _times(mix: Mix, program: Program, seed: int, lasting_seed: int) -> Times:
    return run(program, ITERATIONS, mix.noise(), seed=seed, lasting_seed=lasting_seed)


def _program(mix: Mix, at: int = -1, culprits: tuple[int, ...] = (), seconds: float = 0.0) -> Program:
    role = mix.role_of()
    scale = 1 + 0.5 * np.sin(np.outer(np.arange(len(FUNCTIONS)) + 1, role))  # another mixture in each role
    own = SHARES[:, None] * scale
    first_half = np.arange(mix.size) % max(mix.size // mix.roles, 1) < mix.size // mix.roles // 2
    own[0] *= 1 + mix.split * first_half
    own[:, :] *= SHARES.sum() / own.sum(axis=0) if not mix.split else 1.0
    if culprits:
        own[at, list(culprits)] += seconds
    works = tuple(Work(function, row) for function, row in zip(FUNCTIONS, own, strict=True))
    everyone = np.arange(mix.size).reshape(1, -1)
    return (*works, Meet(ALL_REDUCE, everyone, np.full(mix.size, 1 - SHARES.sum())))


def _seen(mix: Mix, program: Program, seed: int, lasting_seed: int, reason: str, keep: tuple[int, ...] = ()) -> Table:
    times = _times(mix, program, seed, lasting_seed)
    random = np.random.default_rng([seed, 5])
    gone = set(random.permutation(mix.size)[: int(mix.missing * mix.size)].tolist()) - set(keep)
    roles = [f"stage-{role}" if mix.roles > 1 else "all" for role in mix.role_of().tolist()]
    return table_of_times(times, roles, window_id=1 if reason == "reference" else 2, reason=reason, missing=gone)
