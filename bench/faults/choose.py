"""Which case runs next: what this round has not run yet, from the class of which the least has run. Pure."""

from __future__ import annotations

import fnmatch
import hashlib
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bench.faults.case import PUBLISHED, Case, thrice
from bench.faults.ledger import Line, of_kind, row_digest

RUN_SECONDS = 200.0
"""What a run takes where none has been timed."""
MOST_VOID = 2
"""Void runs of a case and seed that are made again."""


class Turn(NamedTuple):
    """A case with a seed."""

    case: Case
    seed: int


def selected(cases: Sequence[Case], patterns: str) -> list[Case]:
    """Return the cases whose id a pattern of ("link-*,quota") fits, or, where it fits none, whose class; all for ""."""
    found: set[str] = set()
    for pattern in [pattern.strip() for pattern in patterns.split(",") if pattern.strip()] or ["*"]:
        by_name = fnmatch.filter((case.name for case in cases), pattern)
        found |= set(by_name) or {case.name for case in cases if fnmatch.fnmatchcase(case.klass, pattern)}
    return [case for case in cases if case.name in found]


def turns(cases: Sequence[Case], seeds: str, everything: Iterable[Case]) -> list[Turn]:
    """Return what is to be run.

    Args:
        seeds: "published": one seed a case; "thrice": three for those that are drawn for it; "all": both; else seeds
            with commas.
        everything: All cases of the table, of which the drawn ones are drawn.
    """
    if seeds not in ("published", "thrice", "all"):
        return [Turn(case, int(seed)) for case in cases for seed in seeds.split(",")]
    drawn = thrice(case.name for case in everything if case.group == PUBLISHED)
    found = []
    for case in cases:
        three = case.name in drawn and seeds != "published"
        count = 3 if three else 0 if seeds == "thrice" else 1
        found += [Turn(case, seed) for seed in case.seeds(count)]
    return found


def is_done(turn: Turn, lines: Iterable[Line], number: int, most_void: int = MOST_VOID) -> bool:
    """Whether a round has a run of the row as it is now that counts, or more void ones than are made again."""
    mine = [
        line
        for line in of_kind(lines, "run")
        if (line["case"], line["seed"]) == (turn.case.name, turn.seed)
        and line["round"] == number
        and line["row"] == row_digest(turn.case)
    ]
    return any(not line["void"] for line in mine) or len(mine) > most_void


def next_turn(waiting: Sequence[Turn], done: Iterable[Turn]) -> Turn:
    """Return one of the class of which the least share has run, within it by a fixed hash."""
    ran = Counter(turn.case.klass for turn in done)
    whole = ran + Counter(turn.case.klass for turn in waiting)
    return min(waiting, key=lambda turn: (ran[turn.case.klass] / whole[turn.case.klass], _hash(turn)))


def _hash(turn: Turn) -> bytes:
    return hashlib.sha256(f"{turn.case.name} {turn.seed}".encode()).digest()


def expected_seconds(turn: Turn, lines: Iterable[Line]) -> float:
    """Return how long a run will take: what others of its workload took, else of any."""
    runs = [line for line in of_kind(lines, "run") if "took_seconds" in line]
    same = [line["took_seconds"] for line in runs if line["workload"] == turn.case.workload]
    return float(statistics.median(same or [line["took_seconds"] for line in runs] or [RUN_SECONDS]))
