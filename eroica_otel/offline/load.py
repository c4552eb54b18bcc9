"""Paths -> the workers of one run: finds files, reads them, settles ranks, takes the iterations that all have."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eroica_otel.errors import ConfigError, TraceError
from eroica_otel.model import Identity, WorkerWindow
from eroica_otel.offline.files import find, is_other_json
from eroica_otel.offline.member import Member, Request, workers_of
from eroica_otel.offline.notes import of_members, passed
from eroica_otel.offline.pool import Told, read_all
from eroica_otel.offline.problem import Problem, with_more
from eroica_otel.offline.ranks import assign, check_given
from eroica_otel.offline.stretches import STEPS
from eroica_otel.summarize.readers.any import LIMIT_BYTES

_APART = "the traces have no step in common, so they are of different iterations: findings have low confidence"
_EPOCH_FROM = 1_262_304_000
"""2010 in Unix seconds: an earlier time is no time of day but a clock that counts from somewhere else."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a person said about a run.

    Attributes:
        job: Name of the training job, "" for that of the folder or file.
        ranks: Rank by file.
        roles: Role by rank.
        iterations: Iterations in each trace that does not tell.
        top: Functions kept of each worker.
        limit_bytes: Largest trace, unpacked.
        guarded: Whether to stop before memory runs out.
        jobs: Files read at a time, 0 for as many as there are cores.
    """

    job: str = ""
    ranks: Mapping[str, int] = field(default_factory=dict)
    roles: Mapping[int, str] = field(default_factory=dict)
    iterations: int = 0
    top: int = 50
    limit_bytes: int = LIMIT_BYTES
    guarded: bool = True
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """The workers of one run.

    Attributes:
        windows: Their windows by rank.
        members: Where each came from, by rank.
        expected: Workers that the job had.
        problems: What could not be used.
        notes: What a reader of the verdict should know.
        apart: Whether the traces have no step in common, so that different iterations are compared.
        paths: Where a person said that they are.
    """

    windows: tuple[WorkerWindow, ...]
    members: Mapping[int, Member]
    expected: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    apart: bool = False
    paths: tuple[str, ...] = ()


def load(
    paths: Sequence[str | os.PathLike[str]],
    options: Options = Options(),
    *,
    reason: str = "manual",
    told: Told = lambda done, count, path, share: None,
) -> Run:
    """Return the workers of one run.

    Args:
        reason: Reason of the windows; "reference" for the run that another is compared with.

    Raises:
        ConfigError: the paths hold no trace that could be used, for a reason that the command line can cure.
        TraceError: none of the traces can be read.
    """
    found = find(paths)
    files = [worker for path in found.files for worker in workers_of(path)]
    given = check_given(options.ranks, files)
    first = Request("", options.iterations, (), reason, options.top, options.limit_bytes, options.guarded)
    requests = [replace(first, path=path) for path in files]
    outcomes = read_all(requests, options.jobs, told)
    read = [outcome for outcome in outcomes if isinstance(outcome, Member)]
    failed = [outcome for outcome in outcomes if isinstance(outcome, Problem)]
    others = [one for one in failed if one.path in found.searched and is_other_json(one.path)]
    assigned = assign(read, given)
    problems = (*found.problems, *(one for one in failed if one not in others), *assigned.problems)
    _check_any(assigned.members, problems, others)
    members, again, notes = _in_common(assigned.members, requests, options.jobs, told)
    problems = (*problems, *again)
    _check_any(members, problems, others)
    return Run(
        windows=_windows(members, options, _job(options, members, paths)),
        members=members,
        expected=_expected(members),
        problems=problems,
        notes=(*passed(found, others), *assigned.notes, *notes, *of_members(members, options)),
        apart=notes == [_APART],
        paths=tuple(os.fspath(path) for path in paths),
    )


def _check_any(members: Mapping[int, Member], problems: Sequence[Problem], others: Sequence[Problem]) -> None:
    """Refuse to go on with nothing; the first problem tells, the number of the others follows."""
    if members:
        return
    every = [*problems, *others]
    if not every:
        raise ConfigError("there is no trace; give the files or the folder that the profiler wrote")
    kind = ConfigError if all(problem.usage for problem in problems) and problems else TraceError
    raise kind(with_more(every))


def _in_common(
    members: Mapping[int, Member], requests: Sequence[Request], jobs: int, told: Told
) -> tuple[Mapping[int, Member], list[Problem], list[str]]:
    """Read those again that hold steps which others lack, so that all are compared over the same iterations.

    One that cannot be read again is left out: what was read of it at first is of other iterations.
    """
    steps = {rank: set(member.steps) for rank, member in members.items() if member.marked == STEPS}
    common = in_common(list(steps.values()))
    longer = [rank for rank, mine in steps.items() if common and mine != set(common)]
    if not longer:
        return members, [], [_APART] if steps and not common else []
    by_path = {request.path: request for request in requests}
    again = [replace(by_path[members[rank].path], steps=common) for rank in longer]
    renewed = dict(members)
    lost = []
    for rank, outcome in zip(longer, read_all(again, jobs, told), strict=True):
        if isinstance(outcome, Member):
            renewed[rank] = outcome
        else:
            del renewed[rank]
            lost.append(outcome)
    which = f"{common[0]} to {common[-1]}" if len(common) > 1 else str(common[0])
    note = f"the traces hold different steps; those that all of them have are compared ({which})"
    return renewed, lost, [note]


def in_common(steps: Sequence[Collection[int]]) -> tuple[int, ...]:
    """Return the longest row of steps that all have, the first one of equal ones; () where they have none in common.

    A row ends where some have a step that others lack: over the time of that step they would be compared too.
    """
    rows: list[list[int]] = [[]]
    for step in sorted({step for mine in steps for step in mine}):
        if all(step in mine for mine in steps):
            rows[-1].append(step)
        else:
            rows.append([])
    longest: list[int] = max(rows, key=len)
    return tuple(longest)


def _windows(members: Mapping[int, Member], options: Options, job: str) -> tuple[WorkerWindow, ...]:
    window_id = _window_id(members)
    world = _expected(members)
    return tuple(
        replace(
            member.window,
            identity=Identity(job, rank, member.host, role=options.roles.get(rank, member.role), world_size=world),
            window_id=window_id,
        )
        for rank, member in members.items()
    )


def _expected(members: Mapping[int, Member]) -> int:
    """Return the workers of the job: what the traces say; where they do not, up to the highest rank that was found."""
    world = max(member.world_size or 0 for member in members.values())
    return max(len(members), world or max(members) + 1)


def _window_id(members: Mapping[int, Member]) -> int:
    """Return the second at which the first window ended, where the traces tell the time of day; else now."""
    ends = [member.window.end_timestamp_seconds for member in members.values()]
    now = time.time()
    return int(min(ends)) if all(_EPOCH_FROM < end < now for end in ends) else int(now)


def _job(options: Options, members: Mapping[int, Member], paths: Sequence[str | os.PathLike[str]]) -> str:
    """Return the job's name: the one given, else the captures', else that of the first path without its endings."""
    name = os.path.basename(os.path.abspath(paths[0])) if paths else ""
    known = next((member.job for member in members.values() if member.job), "")
    return options.job or known or name.split(".")[0] or "traces"
