"""Faults on chosen ranks: takes a program, gives the program in which these ranks are slower; and the opposite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.simulate.operations import Floats, Function, Join, Operation, Program, Work


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with some ranks.

    Attributes:
        kind: compute, input, python, cpu (a core is lacking: all that a CPU does takes longer) or link.
        ranks: The culprits.
        seconds: By how much an iteration's work of theirs gets longer; of a link, by which factor transfers do.
    """

    kind: str
    ranks: tuple[int, ...]
    seconds: float


_HIT: dict[str, Callable[[Function], bool]] = {
    "compute": lambda function: function.kind == "compute",
    "input": lambda function: function.family == "input",
    "python": lambda function: function.kind == "python" and function.family == "other",
    "cpu": lambda function: function.kind in ("python", "host"),
    "link": lambda function: function.resource == "nic",
}


def inject(program: Program, fault: Fault) -> Program:
    """Return the program with the fault."""
    at = list(fault.ranks)
    hit = [isinstance(one, Work) and _HIT[fault.kind](one.function) for one in program]
    works = [one.seconds for one, yes in zip(program, hit, strict=True) if yes and isinstance(one, Work)]
    own = np.sum(works, axis=0)

    def slower(one: Operation, yes: bool) -> Operation:
        if fault.kind == "link" and _HIT["link"](one.function) and not isinstance(one, (Work, Join)):
            return replace(one, seconds=_scaled(one.seconds, at, fault.seconds))
        if not yes or not isinstance(one, Work):
            return one
        return replace(one, seconds=_scaled(one.seconds, at, 1 + fault.seconds / own[at]))

    return tuple(slower(one, yes) for one, yes in zip(program, hit, strict=True))


def mend(program: Program, ranks: Sequence[int], roles: Sequence[str]) -> Program:
    """Return the program in which these ranks do and send what the median of their healthy peers does; of all others
    where none of the role is healthy.
    """
    healthy = [rank for rank in range(len(roles)) if rank not in set(ranks)]
    peers = {at: [rank for rank in healthy if roles[rank] == roles[at]] or healthy for at in ranks}

    def mended(one: Operation) -> Operation:
        if isinstance(one, Join):
            return one
        seconds = one.seconds.copy()
        for at in ranks:
            seconds[at] = np.median(one.seconds[peers[at]])
        return replace(one, seconds=seconds)

    return tuple(mended(one) for one in program)


def _scaled(seconds: Floats, at: Sequence[int], factor: Floats | float) -> Floats:
    result: Floats = seconds.copy()
    result[list(at)] *= factor
    return result
