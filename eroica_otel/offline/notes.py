"""What a reader of a verdict on traces should know of them: takes what was found and read, gives sentences. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from eroica_otel.offline.files import Found
from eroica_otel.offline.member import Member
from eroica_otel.offline.problem import Problem
from eroica_otel.offline.stretches import SPAN, UPDATES

_NAMED = 4


def passed(found: Found, others: Sequence[Problem]) -> list[str]:
    """Say which files of a folder were not looked at, or are JSON of another kind."""
    told = (("not looked at, because its name is that of no trace", found.passed),
            ("no trace but JSON of another kind", tuple(problem.path for problem in others)))  # fmt: skip
    return [f"{what}: {_listed(names)}" for what, names in told if names]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


class Said(Protocol):
    """The part of load.Options that the notes are about."""

    @property
    def roles(self) -> Mapping[int, str]: ...
    @property
    def iterations(self) -> int: ...


def of_members(members: Mapping[int, Member], said: Said) -> list[str]:
    """Say what is odd about the traces: roles of nobody, iterations that are not marked, events that cannot be used."""
    return [*_roles(said.roles, members), *_marks(members, said.iterations), *_skipped(members), *_own(members)]


def _own(members: Mapping[int, Member]) -> list[str]:
    """Say what the readers say of their files, each sentence once."""
    said = dict.fromkeys(note for member in members.values() for note in member.notes)
    return [*said][:_NAMED]


def _roles(roles: Mapping[int, str], members: Mapping[int, Member]) -> list[str]:
    """Say which of the ranks that got a role there is no trace of: a slip of the pen would leave one without peers."""
    absent = sorted(roles.keys() - members.keys())
    return [f"--role names ranks of which there is no trace: {', '.join(map(str, absent[:8]))}"] if absent else []


def _marks(members: Mapping[int, Member], iterations: int) -> list[str]:
    marks = {member.marked for member in members.values()}
    notes = []
    if SPAN in marks and iterations:
        notes.append(f"the whole trace counts as {iterations} iterations of equal length, as --iterations says")
    elif SPAN in marks:
        notes.append(
            "no ProfilerStep and no optimizer marks the iterations, so the whole trace counts as one window: call "
            "profiler.step(), or say by --iterations N how many it holds"
        )
    if UPDATES in marks:
        notes.append("no ProfilerStep marks the iterations; they go from one optimizer update to the next")
    if len(marks) > 1:
        notes.append("the traces mark their iterations in different ways, so times per iteration may not compare")
    return notes


def _skipped(members: Mapping[int, Member]) -> list[str]:
    """Say what could not be used."""
    skipped: Counter[str] = Counter()
    for member in members.values():
        skipped.update(member.skipped)
    if not skipped:
        return []
    listed = ", ".join(f"{reason} {count:,}" for reason, count in skipped.most_common(6))
    return [f"{skipped.total():,} events could not be used, or only after a repair: {listed}"]
