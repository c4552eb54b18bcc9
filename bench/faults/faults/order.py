"""What a switch is told: the order of the board, and the scene in which it acts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Order:
    """One file of the control folder.

    Attributes:
        switch: Which fault.
        ranks: Ranks on which it is on.
        value: Its size, in the unit of the switch.
        every: It acts in every so-manieth iteration (of a loader's process: batch).
        stagger: Iterations by which each rank acts later than the one before it.
        iterations: It acts in so many iterations after it was seen first; 0 for no end.
        start: First iteration in which it acts, the same on all ranks, as faults with collectives need it.
        rotating: In each turn of ``every`` iterations only one of ``ranks`` acts, each in its turn.
        more: What one switch alone knows.
    """

    switch: str
    ranks: tuple[int, ...]
    value: float
    every: int = 1
    stagger: int = 0
    iterations: int = 0
    start: int = 0
    rotating: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(data: Mapping[str, Any]) -> Order:
        """Return the order that a file holds; keys that are none of its own are ``more``."""
        plain = {name: data[name] for name in Order.__dataclass_fields__ if name in data and name != "ranks"}
        more = {name: value for name, value in data.items() if name not in Order.__dataclass_fields__}
        return Order(**plain | {"ranks": tuple(data["ranks"]), "more": more})

    def acts(self, rank: int, iteration: int, first: int) -> bool:
        """Return whether the fault acts now.

        Args:
            first: Iteration in which this process saw the order first.
        """
        if rank not in self.ranks or iteration < self.start:
            return False
        if self.iterations and iteration >= max(first, self.start) + self.iterations:
            return False
        if self.rotating:
            return self.ranks[iteration // self.every % len(self.ranks)] == rank
        return (iteration - self.stagger * self.ranks.index(rank)) % self.every == 0


@dataclass
class Scene:
    """Where a switch acts.

    Attributes:
        rank, world: This rank and how many there are.
        iteration: Of the training, or number of the batch in a loader's process.
        kept: What a switch keeps from one iteration to the next; a process that is made anew has its own.
    """

    rank: int
    world: int
    iteration: int
    kept: dict[str, Any] = field(default_factory=dict)


Fault = Callable[[Any, Order, Scene], Any]
"""Takes what the point of the training hands over, gives it back, changed or not, after it has done its harm."""
