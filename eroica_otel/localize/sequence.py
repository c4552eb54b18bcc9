"""Whom the collectives wait for: takes how many each rank has entered and seen complete by process group, gives the
ranks that others wait for and that wait for nobody themselves.

A collective completes when every rank of its group has entered it. So a rank that has entered more than it has seen
complete waits for those of its group that have not entered the first of these. Whether others have entered fewer of the
later ones proves nothing: nobody waits in those yet.
"""

from __future__ import annotations

from collections import Counter
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


def by_group(progress: Mapping[int, Progress]) -> list[tuple[str, dict[int, tuple[int, int | None]]]]:
    """Return process groups by name, each with (entered, completed) of its ranks in their order."""
    found: dict[str, dict[int, tuple[int, int | None]]] = {}
    for rank, each in sorted(progress.items()):
        for group, counts in each.items():
            found.setdefault(group, {})[rank] = counts
    return sorted(found.items())


def lags(progress: Mapping[int, Progress], waiting: Collection[int] = ()) -> tuple[Lag, ...]:
    """Return the ranks that are missing and wait for nobody; where each of them waits, all that wait for each other.

    Args:
        progress: By rank; a rank that is in no group is neither missing nor does it wait.
        waiting: Ranks whose stacks show that they wait: it stands for the completed count where that is unknown.
    """
    missing: dict[int, Lag] = {}
    blocked: set[int] = set()
    for group, members in by_group(progress):
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
            if waits and most > entered and (done is None or done == entered)
        ]
        if ahead:
            waiters = tuple(sorted(rank for _, who in ahead for rank in who))
            yield from (Lag(rank, group, entered, max(ahead)[0], waiters) for rank in ranks)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Ranks on which a collective has not completed that they have entered and that has completed on others.

    Attributes:
        group: Process group.
        number: The first such collective.
        ranks: Where it has not completed.
        others: Where it has.
    """

    group: str
    number: int
    ranks: tuple[int, ...]
    others: tuple[int, ...]


def unfinished(progress: Mapping[int, Progress]) -> Iterator[Unfinished]:
    """Yield by process group who has not got through a collective that others got through.

    Who has seen more complete than another has entered is in another group of the same name, as above.
    """
    for group, known in by_group(progress):
        done = {rank: completed for rank, (_, completed) in known.items() if completed is not None}
        behind = [rank for rank, completed in done.items() if completed < min(known[rank][0], max(done.values()))]
        if not behind:
            continue
        number = min(done[rank] for rank in behind) + 1
        others = tuple(rank for rank in done if rank not in behind and done[rank] >= number)
        ranks = tuple(rank for rank in behind if all(done[other] <= known[rank][0] for other in others))
        if ranks and others:
            yield Unfinished(group, number, ranks, others)


@dataclass(frozen=True, slots=True)
class Ahead:
    """Ranks that have entered another number of collectives than the many, while all wait for the same one.

    Attributes:
        group: Process group.
        number: The collective that all have entered and none has seen complete.
        ranks: The few.
        entered: Collectives of the group that the furthest of them has entered.
        others: The many.
        most: What the many have entered.
    """

    group: str
    number: int
    ranks: tuple[int, ...]
    entered: int
    others: tuple[int, ...]
    most: int


def ahead(progress: Mapping[int, Progress]) -> Ahead | None:
    """Return who did not enter as many as more than half of its group, in the first group in which all wait."""
    for group, known in by_group(progress):
        (done, *more) = {completed for _, completed in known.values()}
        if more or done is None or any(entered <= done for entered, _ in known.values()):
            continue
        counts = Counter(entered for entered, _ in known.values())
        most, ranks = counts.most_common(1)[0]
        if len(counts) > 1 and 2 * ranks > len(known):
            few = tuple(rank for rank, (entered, _) in known.items() if entered != most)
            many = tuple(rank for rank in known if rank not in few)
            return Ahead(group, done + 1, few, max(known[rank][0] for rank in few), many, most)
    return None


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
