"""Programs -> times: runs iterations of a synchronous training and gives what each function took on each rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.simulate.operations import Clocks, Floats, Function, Program, Work

Law = Callable[[np.random.Generator, tuple[int, ...]], Floats]
"""Draws numbers of mean 0 and standard deviation 1."""


def normal(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draw from the normal distribution."""
    return random.standard_normal(shape)


def laplace(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draw from the double exponential distribution: heavier tails than the normal one, all moments finite."""
    return random.laplace(0, np.sqrt(0.5), shape)


def student(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draw from Student's t of 5 degrees of freedom: one in 5,000 is beyond 4.9 standard deviations."""
    return np.asarray(random.standard_t(5, shape) / np.sqrt(5 / 3), np.float64)


LAWS: dict[str, Law] = {"normal": normal, "laplace": laplace, "student": student}


@dataclass(frozen=True, slots=True)
class Noise:
    """How much times vary, as shares of them.

    Attributes:
        each: Standard deviation from iteration to iteration, of every operation by itself.
        lasting: Standard deviation between ranks that stays over all iterations and windows, by function; work only.
        window: The same, drawn anew in each window.
        law: Of all of them, or of single iterations only where ``steady`` is another.
    """

    each: float = 0.0
    lasting: float = 0.0
    window: float = 0.0
    law: Law = normal
    steady: Law | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """What was simulated, seconds.

    Attributes:
        functions: Names of the second axis.
        charged: [iterations, functions, W].
        length: Of each iteration on each rank, [iterations, W].
    """

    functions: tuple[Function, ...]
    charged: Floats
    length: Floats

    @property
    def iteration(self) -> float:
        """Mean length of an iteration."""
        return float(self.length.mean())


def run(
    program: Program, iterations: int, noise: Noise = Noise(), *, seed: int = 0, lasting_seed: int = 0
) -> Times:  # fmt: skip
    """Return the times of ``iterations`` after one that is not counted; equal seeds give equal noise, whatever the
    program takes.
    """
    size = _size(program)
    random = np.random.default_rng([seed, 1])
    steady = _steady(program, noise, size, seed, lasting_seed)
    clocks = Clocks(np.zeros(size), np.zeros(size))
    charged: list[dict[Function, Floats]] = []
    ends = []
    for _ in range(iterations + 1):
        factors = 1 + noise.each * noise.law(random, (len(program), size)) if noise.each else np.ones((1, size))
        clocks.charged = {}
        for at, operation in enumerate(program):
            factor = factors[at if noise.each else 0]
            if isinstance(operation, Work):
                factor = factor + steady[operation.function]
            operation.run(clocks, np.maximum(factor, 0.01))
        charged.append(clocks.charged)
        ends.append(clocks.now)
    functions = tuple(charged[0])
    table = np.array([[one[function] for function in functions] for one in charged[1:]])
    return Times(functions, table, np.diff(np.array(ends), axis=0))


def _size(program: Program) -> int:
    return next(operation.seconds.size for operation in program if isinstance(operation, Work))


def _steady(program: Program, noise: Noise, size: int, seed: int, lasting_seed: int) -> dict[Function, Floats]:
    """Draw what makes a function longer or shorter on a rank over the whole window."""
    functions = dict.fromkeys(operation.function for operation in program)
    always, now = np.random.default_rng([lasting_seed, 2]), np.random.default_rng([seed, 3])
    shape, law = (len(functions), size), noise.steady or noise.law
    both = noise.lasting * law(always, shape) + noise.window * law(now, shape)
    return dict(zip(functions, both, strict=True))
