"""A memory in which a ring's writer and reader run in any order that is chosen: at random, or every one of them.

Nothing runs at the same time here. The writer's stores wait in a queue, and happen while the reader loads.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.ring import Layout, Writer
from eroica_otel.hardware.ringreader import Samples, Samplings
from eroica_otel.hardware.source import Resource

EVERY = 1 << 62
Pick = Callable[[int], int]
"""Chooses one of so many possibilities, counted from 0."""
NIC = (
    Resource("nic_tx", "eth0", "By", 1.25e9, True),
    Resource("nic_rx", "eth0", "By", 1.25e9, True),
    Resource("speed", "eth0", "1", math.nan, False),
)


def layout(resources: tuple[Resource, ...] = NIC, slots: int = 8, family: str = "net", batch: int = 1) -> Layout:
    return Layout(family, resources, slots, batch)


class Memory:
    """Bytes of a ring; a store happens in two parts, in either order, and a load too where that is wanted.

    ``cuts`` gives the places at which a store of so many bytes may be divided. A load is divided between two numbers.
    """

    def __init__(self, size: int, pick: Pick, cuts: Callable[[int], Sequence[int]], divide_loads: bool) -> None:
        self.bytes = bytearray(size)
        self.waiting: deque[tuple[int, bytes]] = deque()
        self.meanwhile: Callable[[], None] = lambda: None
        self._pick, self._cuts, self._divide_loads = pick, cuts, divide_loads

    def save(self, position: int, data: bytes) -> None:
        """Put the parts of a store at the end of the queue."""
        cuts, waiting = self._cuts(len(data)), self.waiting
        cut = cuts[self._pick(len(cuts))]
        if not 0 < cut < len(data):
            waiting.append((position, data))
        elif self._pick(2):
            waiting.append((position + cut, data[cut:]))
            waiting.append((position, data[:cut]))
        else:
            waiting.append((position, data[:cut]))
            waiting.append((position + cut, data[cut:]))

    def happen(self) -> None:
        """Let the first part in the queue happen."""
        at, data = self.waiting.popleft()
        self.bytes[at : at + len(data)] = data

    def load(self, position: int, into: memoryview) -> None:
        """Load one part, let the writer go on, load the other; a single number is whole."""
        if len(into) == 8:
            self.meanwhile()
            into[:] = self.bytes[position : position + 8]
            return
        cut = 8 * self._pick(len(into) // 8 + 1) if self._divide_loads else 0
        parts = [slice(0, cut), slice(cut, len(into))]
        if self._divide_loads and self._pick(2):
            parts.reverse()
        for part in parts:
            if part.start < part.stop:
                self.meanwhile()
                into[part] = self.bytes[position + part.start : position + part.stop]


class Race:
    """One writer and one reader; sample k has the time k and the values k, k, k."""

    def __init__(
        self,
        slots: int,
        pick: Pick,
        cuts: Callable[[int], Sequence[int]] = lambda size: (0,),
        divide_loads: bool = False,
        before: int = 0,
        batch: int = 1,
    ) -> None:
        """``before`` batches of so many samples are already there."""
        form = layout(slots=slots, batch=batch)
        self.memory = Memory(form.size, pick, cuts, divide_loads)
        self.writer = Writer(form, self.memory)
        self.reader = Samplings(form, self.memory)
        self.writer.batches = max(0, before - slots // batch)
        while self.writer.batches < before:
            self._append()
        while self.memory.waiting:
            self.memory.happen()

    def _append(self) -> None:
        batch = self.writer.layout.batch
        first = self.writer.batches * batch + 1
        if batch == 1:
            self.writer.append(first, (first, first, first))
            return
        numbers = range(first, first + batch)
        self.writer.extend(numbers, [(number, number, number) for number in numbers])

    def write(self, parts: int) -> None:
        """Let the writer go on by so many parts of stores."""
        for _ in range(parts):
            if not self.memory.waiting:
                self._append()
            self.memory.happen()

    def read(self) -> Samples:
        return self.reader.read(0, EVERY)


def is_torn(samples: Samples) -> bool:
    """Whether something was accepted that was never written, or something left out between two samples."""
    times = samples.times.tolist()  # few as they are, lists take less time than arrays
    in_a_row = times == list(range(times[0], times[0] + len(times))) if times else True
    return not in_a_row or samples.values.tolist() != [[number] * 3 for number in times]


def at_random(slots: int, seed: int, batch: int = 1) -> tuple[Race, random.Random]:
    """Return a race in which stores are divided at any byte and loads between any two numbers."""
    drawn = random.Random(seed)

    def pick(possibilities: int) -> int:
        return int(drawn.random() * possibilities)

    return Race(slots, pick, cuts=lambda size: range(size + 1), divide_loads=True, batch=batch), drawn


def raced(race: Race, drawn: random.Random, most: int) -> Samples | None:
    """Read while the writer makes fewer than ``most`` parts of stores before each part of a load.

    None is an answer that was refused.
    """
    race.memory.meanwhile = lambda: race.write(int(drawn.random() * most))
    try:
        return race.read()
    except HardwareError:
        return None


class Every:
    """All sequences of choices, one after the other: ``pick`` chooses, ``another`` goes to the next sequence."""

    def __init__(self) -> None:
        self._chosen: list[list[int]] = []
        self._at = 0

    def pick(self, possibilities: int) -> int:
        if self._at == len(self._chosen):
            self._chosen.append([0, possibilities])
        choice = self._chosen[self._at][0]
        self._at += 1
        return choice

    def another(self) -> bool:
        """Return whether there is one more sequence; it begins with the next choice."""
        self._at = 0
        while self._chosen and self._chosen[-1][0] + 1 == self._chosen[-1][1]:
            self._chosen.pop()
        if self._chosen:
            self._chosen[-1][0] += 1
        return bool(self._chosen)


def every_order(
    slots: int, before: int, parts: int, cuts: Callable[[int], Sequence[int]], batch: int = 1
) -> tuple[int, int, int]:
    """Run all orders in which up to ``parts`` parts of stores can fall between the loads of one read.

    Returns:
        (orders, samples accepted, orders in which something torn was accepted).
    """
    every, orders, accepted, torn = Every(), 0, 0, 0
    while True:
        race = Race(slots, every.pick, cuts, before=before, batch=batch)
        left = [parts]

        def meanwhile(race: Race = race, left: list[int] = left) -> None:
            some = every.pick(left[0] + 1)
            left[0] -= some
            race.write(some)

        race.memory.meanwhile = meanwhile
        samples = race.read()
        orders, accepted, torn = orders + 1, accepted + len(samples.times), torn + is_torn(samples)
        if not every.another():
            return orders, accepted, torn
