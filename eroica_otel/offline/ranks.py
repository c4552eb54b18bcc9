"""Which rank each file is of: what a person said, else what the trace says, else what the name of the file says."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from eroica_otel.errors import ConfigError
from eroica_otel.offline.member import Member
from eroica_otel.offline.problem import Problem
from eroica_otel.offline.rankword import ENDING, rank_by_word

_PROCESS = re.compile(r"_\d+\.\d{10,}$")
"""How torch names a file by itself: host_PID.TIME; that number is no rank."""
_WORKER = re.compile(r"#(\d{1,6})$")
"""One of several workers in a file (summarize/readers/any.py); that number is a place in the file, and no rank."""
_NUMBER = re.compile(r"(?:^|(?<=[-_.]))(\d{1,6})(?=$|[-_.])")


class Assigned(NamedTuple):
    """Members by rank, what is wrong with the others, and what a reader should know."""

    members: Mapping[int, Member]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def assign(members: Sequence[Member], given: Mapping[str, int]) -> Assigned:
    """Return which rank each file is of; two files of one rank are both left out: nobody can say which is right.

    Args:
        given: Rank by file, as ``check_given`` returned it.
    """
    problems: list[Problem] = []
    claims: dict[int, list[Member]] = {}
    for member in members:
        rank = given.get(member.path)
        rank = rank if rank is not None else _told(member, alone=len(members) == 1)
        if rank is None:
            problems.append(unnamed(member.path))
        else:
            claims.setdefault(rank, []).append(member)
    problems += [
        contested(rank, [one.path for one in several]) for rank, several in sorted(claims.items()) if len(several) > 1
    ]
    single = {rank: several[0] for rank, several in sorted(claims.items()) if len(several) == 1}
    told = (*_disagreements(single, given), *_by_device(single, given))
    guessed = _by_number(single, given) if len(members) > 1 else []
    return Assigned(single, tuple(problems), (*told, *guessed))


def check_given(given: Mapping[str, int], files: Sequence[str]) -> dict[str, int]:
    """Return the ranks that a person gave by the file that each is about.

    Raises:
        ConfigError: a name fits no file, or several.
    """
    result: dict[str, int] = {}
    for name, rank in given.items():
        fitting = [path for path in files if fits(path, name)]
        if len(fitting) != 1:
            which = f"fits {len(fitting)} files ({', '.join(fitting[:3])}); give more of the path" if fitting else (
                "fits none of the files; give the name or the path of one"
            )  # fmt: skip
            raise ConfigError(f"--rank {name}={rank} {which}")
        result[fitting[0]] = rank
    return result


def rank_of_name(path: str) -> int | None:
    """Return the rank in the name of a file: rank0, rank-0, rank_0, worker0, trace_0, trace.3; None without one."""
    name = os.path.basename(os.path.normpath(path))
    if _WORKER.search(name):
        return None
    if (rank := rank_by_word(path)) is not None:
        return rank
    stem = ENDING.sub("", name)
    if _PROCESS.search(stem):
        return None
    numbers = _NUMBER.findall(stem)
    return int(numbers[-1]) if numbers else None


def _told(member: Member, *, alone: bool) -> int | None:
    if member.rank is not None:
        return member.rank
    # Of a single file a number alone is rather a version or a date.
    named = rank_by_word(member.path) if alone else rank_of_name(member.path)
    return 0 if named is None and alone else named


def fits(path: str, name: str) -> bool:
    """Return whether a person means this file by ``name``: its path, or the end of it."""
    return path == name or Path(path).parts[-len(Path(name).parts) :] == Path(name).parts


def unnamed(path: str) -> Problem:
    """Return what is wrong with a file whose rank nobody tells."""
    text = f"{path}: neither the trace nor its name tells the rank; give --rank {os.path.basename(path)}=N"
    return Problem(path, text, usage=True)


def contested(rank: int, paths: Sequence[str]) -> Problem:
    """Return what is wrong with files that are all of one rank."""
    listed = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    text = (
        f"rank {rank} is claimed by {len(paths)} files, so none of them is used: {listed}; leave one, or give "
        f"--rank {os.path.basename(paths[-1])}=N"
    )
    return Problem(paths[0], text, usage=True)


def _disagreements(members: Mapping[int, Member], given: Mapping[str, int]) -> list[str]:
    """Say where a name promises another rank than the trace has; only where a word says that it means a rank."""
    found = []
    for rank, member in members.items():
        named = rank_by_word(member.path)
        if named is not None and named != rank and member.path not in given:
            found.append(f"{member.path} is of rank {rank}, as it says itself, whatever its name says")
    return found[:4]


def _by_number(members: Mapping[int, Member], given: Mapping[str, int]) -> list[str]:
    """Say of which file the rank is but a number in its name, unless ranks are as a job counts them, 0, 1, 2 ...

    The number may be that of a step or a day.
    """
    if list(members) == list(range(len(members))):
        return []
    guessed = [
        f"{os.path.basename(member.path)} as rank {rank}"
        for rank, member in members.items()
        if member.rank is None and member.path not in given and rank_by_word(member.path) is None
    ]
    if not guessed:
        return []
    more = f" and {len(guessed) - 3} more" if len(guessed) > 3 else ""
    return [
        f"ranks by the last number in the name: {', '.join(guessed[:3])}{more}; give --rank FILE=N where it is none"
    ]


def _by_device(members: Mapping[int, Member], given: Mapping[str, int]) -> list[str]:
    """Say of which files the ranks are those of the devices: that is how most jobs are launched, and no file tells."""
    guessed = [member.path for _, member in sorted(members.items()) if _WORKER.search(member.path)
               and member.path not in given]  # fmt: skip
    first = {_WORKER.sub("", os.path.basename(path)): os.path.basename(path) for path in reversed(guessed)}
    return [f"{name}: ranks by the order of the devices; give --rank {worker}=N where they are others"
            for name, worker in first.items()][:4]  # fmt: skip
