"""What ranks do, one operation after the other: takes the clocks of all ranks, moves them, charges the time.

Each rank runs its operations in program order and blocks where it needs others, so the time of an event is the latest
of what it depends on plus its own length, and operations can be run in any order that keeps those dependencies. All
arrays are over ranks, [W], times in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Function:
    """What a pattern will be about.

    Attributes:
        use: Share of its resource in use while it runs, 0 to 1; of the CPU this is the time on a core.
    """

    name: str
    kind: str
    family: str
    resource: str = ""
    use: float = 0.9


@dataclass(slots=True)
class Clocks:
    """Where all ranks are.

    Attributes:
        now: Each rank's time.
        stream: When the overlapped communication of each rank will be over.
        charged: Time by function, of this iteration.
    """

    now: Floats
    stream: Floats
    charged: dict[Function, Floats] = field(default_factory=dict)

    def charge(self, function: Function, seconds: Floats) -> None:
        """Add to what a function took on each rank."""
        self.charged[function] = self.charged.get(function, np.zeros_like(self.now)) + seconds

    def until(self, function: Function, then: Floats) -> None:
        """Let every rank be in this function until then; who is later already is not held."""
        then = np.maximum(then, self.now)
        self.charge(function, then - self.now)
        self.now = then


@dataclass(frozen=True, slots=True)
class Work:
    """Own work; 0 where a rank has none. Noise multiplies it."""

    function: Function
    seconds: Floats

    def run(self, clocks: Clocks, noise: Floats) -> None:
        """Move each rank by its own work."""
        took = self.seconds * noise
        clocks.charge(self.function, took)
        clocks.now = clocks.now + took


@dataclass(frozen=True, slots=True)
class Meet:
    """A symmetric collective: nobody leaves before the last of its group has come and the slowest link is done.

    Attributes:
        groups: Ranks of each group, [groups, size]; disjoint.
        seconds: What the transfer takes over each rank's link.
        overlapped: Whether ranks go on with their work and meet it again in Join.
    """

    function: Function
    groups: Ints
    seconds: Floats
    overlapped: bool = False

    def run(self, clocks: Clocks, noise: Floats) -> None:
        """Let groups meet, each rank's link as noisy as it is."""
        came = np.maximum(clocks.now, clocks.stream) if self.overlapped else clocks.now
        end = came[self.groups].max(axis=1) + (self.seconds * noise)[self.groups].max(axis=1)
        then = clocks.stream.copy() if self.overlapped else clocks.now.copy()
        then[self.groups] = end[:, None]
        if self.overlapped:
            clocks.stream = then
        else:
            clocks.until(self.function, then)


@dataclass(frozen=True, slots=True)
class Join:
    """Wait for the overlapped communication; what is left of it by now is what it costs."""

    function: Function

    def run(self, clocks: Clocks, noise: Floats) -> None:
        """Wait for the stream."""
        clocks.until(self.function, clocks.stream)


@dataclass(frozen=True, slots=True)
class Spread:
    """An asymmetric collective: the first of each group sends and goes on, the others wait for it alone (broadcast);
    or, ``gather``, the first waits for all others and these go on (reduce to one).
    """

    function: Function
    groups: Ints
    seconds: Floats
    gather: bool = False

    def run(self, clocks: Clocks, noise: Floats) -> None:
        """Let the members or the root wait."""
        took = self.seconds * noise
        root, members = self.groups[:, 0], self.groups[:, 1:]
        then = clocks.now.copy()
        if self.gather:
            then[root] = (clocks.now + took)[members].max(axis=1)
        else:
            then[members] = clocks.now[root][:, None] + np.maximum(took[root][:, None], took[members])
        clocks.until(self.function, then)


@dataclass(frozen=True, slots=True)
class Pass:
    """Messages from one rank to another; who sends goes on, who receives waits for them."""

    function: Function
    sender: Ints
    receiver: Ints
    seconds: Floats

    def run(self, clocks: Clocks, noise: Floats) -> None:
        """Hold each receiver until its message has come."""
        took = self.seconds * noise
        then = clocks.now.copy()
        then[self.receiver] = clocks.now[self.sender] + np.maximum(took[self.sender], took[self.receiver])
        clocks.until(self.function, then)


Operation = Work | Meet | Join | Spread | Pass
Program = tuple[Operation, ...]
"""What all ranks do in one iteration, in an order in which everything comes after what it needs."""
