"""What a training of the table really did, counted by the training itself and compared with what was delivered.

``Job`` is given to each loop: it says how long to train, does the known work, and keeps the time of every update.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
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

    def period(self, first: int, updates: int, left_out: Sequence[tuple[int, int]] = ()) -> tuple[float, float]:
        """Return the mean time of an iteration of ``updates`` updates, from update ``first`` on: least and most.

        In the least no iteration counts that took ten times the median: training stood still there, as while the
        profiler was tried out, and what then is timed is not the same on each rank. In neither those count that touch a
        range of ``left_out`` (first update, last one), which are not timed.
        """
        ends = range(first, len(self.at) + 1, updates)
        took = [
            self.at[end - 1] - self.at[begin - 1]
            for begin, end in pairwise(ends)
            if not any(begin <= last and end >= start for start, last in left_out)
        ]
        usual = 10 * statistics.median(took)
        return statistics.mean(seconds for seconds in took if seconds <= usual), statistics.mean(took)


LOOK_EVERY = 20
NOTICE = 40
"""Updates between rank 0's decision to end and the end: synchronous ranks are never that far apart."""


class Job:
    """One rank of a training: how long it has to be, and what it has done.

    It ends when ``folder`` holds the file ``enough``; rank 0 looks, and says at which update all ranks end.
    """

    def __init__(self, folder: Path, rank: int = 0, world: int = 1) -> None:
        self.folder, self.rank, self.world = folder, rank, world
        self.truth = Truth()
        self._worked = 0.0
        self._last: int | None = None

    @property
    def done(self) -> bool:
        return self._last is not None and self.truth.updates >= self._last

    def _look(self) -> None:
        agreed, updates = self.folder / "last", self.truth.updates
        if self.rank == 0 and self._last is None and updates % LOOK_EVERY == 0 and (self.folder / "enough").exists():
            (self.folder / "deciding").write_text(str(updates + NOTICE))
            (self.folder / "deciding").rename(agreed)
        if self._last is None and agreed.exists():
            self._last = int(agreed.read_text())

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
        self._look()

    def save(self) -> None:
        """Leave the truth for the test."""
        (self.folder / f"truth-{self.rank}.json").write_text(json.dumps(asdict(self.truth)))


def truths(folder: Path) -> dict[int, Truth]:
    """Return what each rank left in ``folder``."""
    return {
        int(path.stem.partition("-")[2]): Truth(**json.loads(path.read_text()))
        for path in sorted(folder.glob("truth-*.json"))
    }
