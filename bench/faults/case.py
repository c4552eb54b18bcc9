"""What a row of the fault board says, and what a seed draws of it: which ranks are hurt, how much, and when."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.faults.board import Board

ONE_RANK, RANK_0, TWO_RANKS, ONE_NODE, HALF, ROLE, ALL, ROTATING, NONE = WHERE = (
    "one rank", "rank 0", "two ranks", "one node", "half", "role", "all", "rotating", "none",
)  # fmt: skip
"""Who can be hurt. Of a role only pipelines know: one of its stages."""
WORKER, LINK, JOB, HANG, SILENCE = VERDICTS = ("worker", "link", "job", "hang", "silence")
"""What can be right: these workers named; a link that ends at their node, or they; the job, nobody named; a worker (or,
where all are hurt, the job) that does not go on; nothing above info."""
AFTER, FIRST, ENDS = ONSETS = ("after the reference", "from the first iteration", "ends before the window")
PUBLISHED, UNSEEN = GROUPS = ("published", "unseen")
"""Unseen cases were written without a look at the causes' rules, and nothing is ever tuned on them."""
TUNING_SEEDS = (1, 2, 3)
SPREAD = 0.2
"""A drawn size lies within this share of the nominal one."""
MOST_DELAY_ITERATIONS = 20


@dataclass(frozen=True)
class Drawn:
    """What a seed draws.

    Attributes:
        seed: The seed; the training's own, too.
        ranks: Whom the fault hurts, by global rank; the ranks of node n are n * ranks ... ; empty for nobody.
        size: The size, in the case's unit.
        delay_iterations: Iterations between the moment at which all is ready and the onset.
    """

    seed: int
    ranks: tuple[int, ...]
    size: float
    delay_iterations: int


Inject = Callable[["Board", ExitStack, Drawn], None]
"""Starts a fault in a training that runs (or, from the first iteration, stands before it); returns at once. What has
to be undone goes on the stack."""


@dataclass(frozen=True)
class Case:
    """One row of the board.

    Attributes:
        name: Its id, with small letters, digits and hyphens; results are kept by it.
        klass: Its line in the table of classes ("network", "input", "hang" ...).
        workload: Name of the module in workloads/.
        what: What is done, for the page; "{size}" stands for the nominal size with its unit.
        fault: Starts it; None for a clean run.
        where: One of WHERE.
        verdict: One of VERDICTS.
        causes: Causes that are right (names.CAUSES); empty for silence.
        size, unit: Nominal size, 0 where there is none to draw.
        nodes, ranks: Nodes, and ranks of each.
        arguments: Further arguments of the workload.
        function: What the named function has to begin with; may be empty.
        onset: One of ONSETS.
        window_seconds: Length of windows.
        needs: What the fault uses that a machine may lack: "cgroups", "disk" (capabilities.py).
        group: One of GROUPS.
        source: Bug report it is taken from, "owner/repository#number".
        changed: Why the expectation is not the first one that was written; empty where it is.
        explanation: Why the verdict is wrong, where it is, as far as it has been studied.
    """

    name: str
    klass: str
    workload: str
    what: str
    fault: Inject | None
    where: str
    verdict: str
    causes: frozenset[str] = frozenset()
    size: float = 0.0
    unit: str = ""
    nodes: int = 2
    ranks: int = 2
    arguments: tuple[str, ...] = ()
    function: str = ""
    onset: str = AFTER
    window_seconds: float = 5.0
    needs: frozenset[str] = frozenset()
    group: str = PUBLISHED
    source: str = ""
    changed: str = ""
    explanation: str = ""

    @property
    def world(self) -> int:
        """Ranks of all nodes."""
        return self.nodes * self.ranks

    @property
    def text(self) -> str:
        """What is done, with the nominal size."""
        return self.what.replace("{size}", f"{self.size:g} {self.unit}".strip())

    def seeds(self, count: int = 1) -> tuple[int, ...]:
        """Return the seeds whose runs count in the table, the first one alone for most cases.

        They follow from the id by a fixed hash and are never those for tuning.
        """
        drawn = (hashlib.sha256(f"{self.name} {number}".encode()).digest()[:4] for number in range(count))
        return tuple(1000 + int.from_bytes(four, "big") % 1_000_000 for four in drawn)

    def draw(self, seed: int) -> Drawn:
        """Return whom, how much and when ``seed`` hurts; the same on every machine."""
        dice = random.Random(f"{self.name} {seed}")  # a str is hashed by SHA-512, whatever PYTHONHASHSEED says
        ranks = self._ranks(dice)
        size = self.size * dice.uniform(1 - SPREAD, 1 + SPREAD)
        return Drawn(seed, ranks, size, dice.randint(0, MOST_DELAY_ITERATIONS))

    def _ranks(self, dice: random.Random) -> tuple[int, ...]:
        everybody = range(self.world)
        if self.where in (ONE_NODE, ROLE):  # of a pipeline a node holds one stage
            first = dice.randrange(self.nodes) * self.ranks
            return tuple(range(first, first + self.ranks))
        if self.where == RANK_0:
            return (0,)
        count = {ONE_RANK: 1, TWO_RANKS: 2, HALF: self.world // 2, NONE: 0}.get(self.where, self.world)
        return tuple(sorted(dice.sample(everybody, count)))


def thrice(names: Iterable[str], count: int = 30) -> frozenset[str]:
    """Return the ``count`` cases that get three seeds, drawn by the same hash: those whose id hashes lowest."""
    return frozenset(sorted(names, key=lambda name: hashlib.sha256(f"thrice {name}".encode()).digest())[:count])
