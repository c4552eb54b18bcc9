"""Single collectives that a flight recorder kept: takes those of each rank, gives what does not fit together. Pure.

The live windows tell how many collectives a rank has entered; a recorder tells which they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from eroica_otel.localize.sequence import Progress, by_group

_ONE_SIDED = frozenset(
    {"broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "gather", "scatter", "send", "recv", "coalesced"}
)
"""What may end on some ranks before all have taken part; the others end nowhere before."""
_EQUAL = frozenset({"all_reduce", "allreduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base"})
"""What needs as many values from each rank; others may be uneven (all_to_all), or only the root names sizes."""


@dataclass(frozen=True, slots=True)
class Call:
    """One collective or transfer that a rank has entered.

    Attributes:
        group: Process group.
        number: Of the collective in its group, from 1; of a transfer that of the collective before it.
        name: What it is, without the backend ("all_reduce").
        values: Values in all input tensors, None unknown.
        types: Types of the input tensors, "" unknown.
        done: Whether it has completed.
        transfer: (sender, receiver) as ranks of the job; None of a collective.
    """

    group: str
    number: int
    name: str
    values: int | None = None
    types: str = ""
    done: bool = False
    transfer: tuple[int, int] | None = None


Calls = Mapping[int, Sequence[Call]]
"""By rank, in the order of the calls."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A collective that is not the same one on all ranks: what it is (most ranks first), and on which ranks."""

    group: str
    number: int
    sides: tuple[tuple[str, tuple[int, ...]], ...]


def differences(calls: Calls) -> list[Difference]:
    """Return of each process group the first collective that has not ended and differs between ranks."""
    found: list[Difference] = []
    numbered: dict[tuple[str, int], dict[int, Call]] = {}
    for rank, mine in calls.items():
        for call in mine:
            if call.transfer is None:
                numbered.setdefault((call.group, call.number), {}).setdefault(rank, call)
    for (group, number), by_rank in sorted(numbered.items()):
        if all(call.done for call in by_rank.values()) or any(one.group == group for one in found):
            continue
        if sides := _sides(by_rank):
            found.append(Difference(group, number, sides))
    return found


def _sides(by_rank: Mapping[int, Call]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    kinds: dict[tuple[str, int | None, str], list[int]] = {}
    for rank, call in sorted(by_rank.items()):
        equal = call.name in _EQUAL
        kinds.setdefault((call.name, call.values if equal else None, call.types if equal else ""), []).append(rank)
    names = Counter(name for name, _, _ in kinds)
    if len(kinds) < 2 or not (len(names) > 1 or _apart(list(kinds))):
        return ()
    ordered = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[1]))
    return tuple((_said(*kind, several=names[kind[0]] > 1), tuple(ranks)) for kind, ranks in ordered)


def _apart(kinds: Sequence[tuple[str, int | None, str]]) -> bool:
    """Whether sizes or types that are known on both sides differ."""
    sizes = {values for _, values, _ in kinds if values is not None}
    types = {types for _, _, types in kinds if types}
    return len(sizes) > 1 or len(types) > 1


def _said(name: str, values: int | None, types: str, *, several: bool) -> str:
    if not several or values is None:
        return name
    return f"{name} of {values:,} values{f' ({types})' if types else ''}"


def call_of(calls: Calls, group: str, number: int) -> Call | None:
    """Return a collective as the first rank that kept it tells it."""
    return next(
        (
            call
            for _, mine in sorted(calls.items())
            for call in mine
            if call.transfer is None and (call.group, call.number) == (group, number)
        ),
        None,
    )


def ends_everywhere(call: Call | None) -> bool:
    """Return whether a collective is of a kind that completes on no rank before all have taken part."""
    return call is not None and call.name not in _ONE_SIDED


def pending(calls: Sequence[Call]) -> Call | None:
    """Return the first call that has not ended."""
    return next((call for call in calls if not call.done), None)


ARROW = " -> "
"""Stands in the name under which transfers between two ranks are counted, beside process groups."""


def transfers(calls: Calls) -> dict[int, Progress]:
    """Return by rank the transfers between two ranks that have not ended, as if each pair were a group of its own.

    Both sides count, so that who has not begun its side of one is behind there.
    """
    open_: dict[tuple[str, tuple[int, int]], dict[int, int]] = {}
    for rank, mine in calls.items():
        for call in mine:
            if call.transfer is not None and not call.done and rank in call.transfer:
                sides = open_.setdefault((call.group, call.transfer), dict.fromkeys(call.transfer, 0))
                sides[rank] += 1
    found: dict[int, dict[str, tuple[int, int | None]]] = {rank: {} for rank in calls}
    for (group, (sender, receiver)), counts in sorted(open_.items()):
        for rank, count in counts.items():
            if rank in found:
                found[rank][f"{group}: {sender}{ARROW}{receiver}"] = (count, 0)
    return dict(found)


def groups_of(progress: Mapping[int, Progress]) -> Iterator[tuple[str, dict[int, tuple[int, int | None]]]]:
    """Yield each process group in which something has not ended, with the progress of its ranks."""
    for group, members in by_group(progress):
        if any(done is not None and done < entered for entered, done in members.values()):
            yield group, members
