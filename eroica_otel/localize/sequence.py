"""Whom the collectives wait for: takes how many each rank has entered and seen complete by process group, gives the
ranks that others wait for and that wait for nobody themselves.

A collective completes when every rank of its group has entered it. So of a rank that has entered more than it has
seen complete, those of its group that have entered fewer are missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

Progress = Mapping[str, tuple[int, "int | None"]]
"""By process group: collectives entered, and completed (None unknown)."""


@dataclass(frozen=True, slots=True)
class Lag:
    """A rank that others wait for.

    Attributes:
        rank: The rank.
        group: Process group in which it is missing.
        entered: Collectives of the group that it has entered.
        most: Collectives that the furthest of those who wait for it has entered.
        waiters: Who waits for it there.
        mutual: It waits for others that wait for it: collectives were entered in different orders.
    """

    rank: int
    group: str
    entered: int
    most: int
    waiters: tuple[int, ...]
    mutual: bool = False


def outstanding(progress: Progress) -> bool:
    """Return whether the rank has entered a collective that has not completed."""
    return any(completed is not None and entered > completed for entered, completed in progress.values())


def lags(progress: Mapping[int, Progress], waiting: Collection[int] = ()) -> tuple[Lag, ...]:
    """Return the ranks that are missing and wait for nobody; where each of them waits, all that wait for each other.

    Args:
        progress: By rank; a rank that is in no group is neither missing nor does it wait.
        waiting: Ranks whose stacks show that they wait: it stands for the completed count where that is unknown.
    """
    missing: dict[int, Lag] = {}
    blocked: set[int] = set()
    for group in sorted({group for each in progress.values() for group in each}):
        members = {rank: each[group] for rank, each in progress.items() if group in each}
        for lag in _in_group(group, members, frozenset(waiting)):
            missing.setdefault(lag.rank, lag)
            blocked.update(lag.waiters)
    first = [lag for rank, lag in sorted(missing.items()) if rank not in blocked]
    if first:
        return tuple(first)
    return tuple(
        Lag(lag.rank, lag.group, lag.entered, lag.most, lag.waiters, mutual=True) for _, lag in sorted(missing.items())
    )


def _in_group(group: str, members: Mapping[int, tuple[int, int | None]], waiting: frozenset[int]) -> Iterator[Lag]:
    """Yield who is missing in one group.

    Who has seen more complete than another has entered is in another group of the same name, or in a collective that
    completes without all: it proves nothing about that one.
    """
    kinds: dict[tuple[int, int | None, bool], list[int]] = {}
    for rank, (entered, completed) in members.items():
        waits = entered > completed if completed is not None else rank in waiting
        kinds.setdefault((entered, completed, waits), []).append(rank)
    for (entered, _, _), ranks in kinds.items():
        ahead = [
            (most, who)
            for (most, done, waits), who in kinds.items()
            if waits and most > entered and (done is None or done <= entered)
        ]
        if ahead:
            waiters = tuple(sorted(rank for _, who in ahead for rank in who))
            yield from (Lag(rank, group, entered, max(ahead)[0], waiters) for rank in ranks)


def common_collective(progress: Mapping[int, Progress]) -> tuple[str, int] | None:
    """Return group and number of the collective that ALL of these ranks have entered and none has seen complete."""
    if not progress or not all(progress.values()):
        return None
    for group in sorted(set.intersection(*(set(each) for each in progress.values()))):
        counts = {each[group] for each in progress.values()}
        if len({entered for entered, _ in counts}) == 1 and all(
            done is not None and done < entered for entered, done in counts
        ):
            return group, next(iter(counts))[0]
    return None
