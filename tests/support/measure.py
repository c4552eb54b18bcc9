"""What a training of the table really did, counted by the training itself and compared with what was delivered.

``Job`` is given to each loop: it says how long to train, does the known work, and keeps the time of every update.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path


def known_work(seconds: float) -> None:
    """Take ``seconds``: the function that costs most in every loop, and has to be found as that."""
    time.sleep(seconds)


def known_hot_loop(turns: int) -> int:
    """Keep a core busy in pure Python for some 0.4 ms (1,000 turns are about 50 us)."""
    checksum = 0
    for value in range(turns):
        checksum = (checksum * 31 + value) % 1_000_003
    return checksum


@dataclass
class Truth:
    """What one rank did.

    Attributes:
        updates: Updates of the optimizer that is counted.
        at: Time in seconds after each of them.
        worked: Seconds of known work until then.
    """

    updates: int = 0
    at: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)

    def share(self, start: int, stop: int) -> float:
        """Return the share of known work between the updates ``start`` and ``stop`` (numbers, from 1)."""
        elapsed = self.at[stop - 1] - self.at[start - 1]
        return (self.worked[stop - 1] - self.worked[start - 1]) / elapsed

    def period(self, first: int, updates: int) -> float:
        """Return the mean time of an iteration of ``updates`` updates, from update ``first`` on."""
        return (self.at[-1] - self.at[first - 1]) / (len(self.at) - first) * updates


class Job:
    """One rank of a training: how long it has to be, and what it has done."""

    def __init__(self, updates: int, rank: int = 0, world: int = 1) -> None:
        self.target, self.rank, self.world = updates, rank, world
        self.truth = Truth()
        self._worked = 0.0

    @property
    def done(self) -> bool:
        return self.truth.updates >= self.target

    def work(self, seconds: float = 0.02) -> None:
        """Do the known work."""
        begin = time.perf_counter()
        known_work(seconds)
        self._worked += time.perf_counter() - begin

    def burn(self, calls: int, turns: int) -> None:
        """Do the known work as many short calls of pure Python."""
        begin = time.perf_counter()
        for _ in range(calls):
            known_hot_loop(turns)
        self._worked += time.perf_counter() - begin

    def credit(self, seconds: float) -> None:
        """Count work that something else than the two above has done."""
        self._worked += seconds

    def update(self) -> None:
        """Count one update of the counted optimizer; call it right after the update."""
        self.truth.updates += 1
        self.truth.at.append(time.perf_counter())
        self.truth.worked.append(self._worked)

    def save(self, folder: Path) -> None:
        (folder / f"truth-{self.rank}.json").write_text(json.dumps(asdict(self.truth)))


def truths(folder: Path) -> dict[int, Truth]:
    """Return what each rank left in ``folder``."""
    return {
        int(path.stem.partition("-")[2]): Truth(**json.loads(path.read_text()))
        for path in sorted(folder.glob("truth-*.json"))
    }
