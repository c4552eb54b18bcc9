"""A folder of flight recorder dumps -> blocked windows and single calls by rank, for localize/hangflight.py.

What the recorder calls a sequence number counts collectives and transfers apart, but the status of a group holds
whichever came last. So the entries count first, and the status only in groups that have no transfers.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from eroica_otel.errors import ConfigError, TraceError
from eroica_otel.kinds import Frame, frame_identity, frame_name, function_id
from eroica_otel.localize.calls import Call
from eroica_otel.model import Identity, Pattern, WorkerWindow
from eroica_otel.offline.flightfile import Dump, Entry, read_dump
from eroica_otel.offline.load import Options, Run
from eroica_otel.offline.member import Member
from eroica_otel.offline.plainpickle import starts
from eroica_otel.offline.pool import SMALL_BYTES, Told, cores, size_of
from eroica_otel.offline.problem import Problem, with_more
from eroica_otel.offline.ranks import check_given, contested, rank_of_name, unnamed

_Counts = dict[str, tuple[int, "int | None"]]
"""Collectives entered and completed by process group."""
_UNKNOWN = (-1, -1)
_LIBRARIES = ("torch", "contextlib", "threading")
"""Modules whose frames are no place of the training's; its own frame below them is."""


@dataclass(frozen=True, slots=True)
class Flights:
    """What the dumps of one job tell: the run, as traces give one, and by rank what it has called, oldest first."""

    run: Run
    calls: Mapping[int, tuple[Call, ...]]


def read_flights(
    folder: Path,
    options: Options = Options(),  # noqa: B008 - frozen
    told: Told = lambda done, count, path, share: None,
) -> Flights:
    """Return what the dumps in a folder tell; files that cannot be used are told as problems of the run.

    Raises:
        ConfigError: the folder holds nothing that could be used, for a reason that the command line can cure.
        TraceError: none of the dumps can be read.
    """
    files, others = _files(folder)
    given = check_given(options.ranks, files)
    dumps, problems = _read(files, given, options.jobs, told)
    passed = len(files) - len(problems) - sum(len(several) for several in dumps.values())
    problems += [contested(rank, [one.path for one in several]) for rank, several in dumps.items() if len(several) > 1]
    single = {rank: several[0] for rank, several in sorted(dumps.items()) if len(several) == 1}
    if not single:
        raise _nothing(folder, problems, passed + others)
    return _flights(folder, single, problems, options, passed + others)


def _files(folder: Path) -> tuple[list[str], int]:
    """Return the files right in a folder, and how many of what else it holds is no file."""
    try:
        every = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise ConfigError(f"--flight-recorder {folder} cannot be read ({error.strerror}); give a folder") from error
    files = [str(path) for path in every if _is_file(path)]
    return files, len(every) - len(files)


def _is_file(path: Path) -> bool:
    """Whether it is a file, or a link that leads nowhere: a pipe would be read for ever."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return True


def _read(
    files: Sequence[str], given: Mapping[str, int], jobs: int, told: Told
) -> tuple[dict[int, list[Dump]], list[Problem]]:
    dumps: dict[int, list[Dump]] = {}
    problems: list[Problem] = []
    for at, (path, dump) in enumerate(zip(files, _outcomes(files, jobs), strict=True), 1):
        told(at, len(files), path, at / len(files))
        rank = given.get(path, rank_of_name(path))
        if isinstance(dump, str):
            if rank is not None or _claims(path):
                problems.append(Problem(path, dump))
        elif rank is None:
            problems.append(unnamed(path))
        else:
            dumps.setdefault(rank, []).append(dump)
    return dumps, problems


def _outcomes(files: Sequence[str], jobs: int) -> Iterator[Dump | str]:
    """Yield what each file holds, or what is wrong with it; many or large ones are read by several processes."""
    count = min(jobs or cores(), len(files))
    if count < 2 or (not jobs and sum(map(size_of, files)) <= SMALL_BYTES):
        yield from map(_outcome, files)
        return
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as made:
        try:
            yield from made.map(_outcome, files, chunksize=4)
        except BrokenProcessPool as error:
            raise TraceError(
                f"{os.path.dirname(files[0])}: a process that read dumps was ended from outside; did memory run out? "
                "read one at a time (--jobs 1)"
            ) from error


def _outcome(path: str) -> Dump | str:
    try:
        return read_dump(path)
    except TraceError as error:
        return str(error)


def _claims(path: str) -> bool:
    """Whether a file that cannot be read promises to be a dump although its name tells no rank."""
    try:
        with Path(path).open("rb") as file:
            return starts(file.read(2))
    except OSError:
        return True


def _nothing(folder: Path, problems: Sequence[Problem], others: int) -> ConfigError | TraceError:
    if not problems:
        among = f" among its {others} files and folders" if others else ": it is empty"
        return ConfigError(
            f"--flight-recorder {folder} holds no dump{among}; give the folder that TORCH_FR_DUMP_TEMP_FILE points into"
        )
    kind = ConfigError if all(problem.usage for problem in problems) else TraceError
    return kind(with_more(problems))


def _flights(
    folder: Path, dumps: Mapping[int, Dump], problems: Sequence[Problem], options: Options, others: int
) -> Flights:
    members = {name: ranks for dump in dumps.values() for name, ranks in dump.members.items()}
    expected = max((rank + 1 for ranks in (*members.values(), tuple(dumps)) for rank in ranks), default=1)
    calls = {rank: tuple(_calls(dump, members)) for rank, dump in dumps.items()}
    progress = _progress(dumps, calls)
    times = [dump.last_seconds for dump in dumps.values() if math.isfinite(dump.last_seconds)]
    window_id = int(max(times)) if times else int(time.time())
    job = options.job or os.path.basename(os.path.abspath(folder)) or "dumps"
    windows, sources = [], {}
    for rank, dump in dumps.items():
        entry, frames = _place(dump, calls[rank])
        identity = Identity(job, rank, "", role=options.roles.get(rank, ""), world_size=expected)
        window = WorkerWindow(identity, window_id, "blocked", 0.0, 0, _patterns(entry, frames), progress=progress[rank])
        windows.append(window)
        sources[rank] = _member(dump, window, rank, expected, frames)
    run = Run(tuple(windows), sources, expected, tuple(problems), tuple(_notes(dumps, others)))
    return Flights(run, calls)


def _member(dump: Dump, window: WorkerWindow, rank: int, expected: int, frames: tuple[Frame, ...]) -> Member:
    return Member(
        dump.path, window, rank, expected, host="", job="", role="", steps=(), marked="", groups=dump.members,
        skipped={}, frames=frames, devices=(), backend="", format="flight recorder",
    )  # fmt: skip


def _notes(dumps: Mapping[int, Dump], others: int) -> Iterator[str]:
    odd = sum(dump.odd for dump in dumps.values())
    if odd:
        yield f"{odd:,} entries of the dumps tell no number or no name, and are left out"
    if others:
        what = "file or folder" if others == 1 else "files and folders"
        yield f"{others:,} other {what} beside the dumps not looked at"


def label(group: tuple[str, str]) -> str:
    """Return how a process group is called in the report: its description and its name, which alone is unique."""
    name, description = group
    return name if description in ("", "undefined", "default_pg") else f"{description} ({name})"


def _calls(dump: Dump, members: Mapping[str, tuple[int, ...]]) -> list[Call]:
    """Return the calls of one rank, oldest first.

    What a later call of the same group has passed by has ended too: a transfer that others were joined with keeps the
    state in which it was begun.
    """
    ended: set[tuple[tuple[str, str], bool]] = set()
    found: list[Call] = []
    for entry in reversed(dump.entries):
        kind = (entry.group, entry.transfer)
        if entry.done:
            ended.update({kind, (entry.group, True)} if entry.name == "coalesced" else {kind})
        ends = _ends(entry, members) if entry.transfer else None
        done = entry.done or kind in ended
        found.append(Call(label(entry.group), entry.number, entry.name, entry.values, entry.types, done, ends))
    return found[::-1]


def _ends(entry: Entry, members: Mapping[str, tuple[int, ...]]) -> tuple[int, int]:
    """Return sender and receiver as ranks of the job."""
    ranks = members.get(entry.group[0], ())
    if entry.ends is None or max(entry.ends) >= (len(ranks) or math.inf):
        return _UNKNOWN
    if not ranks:
        return entry.ends if entry.group[1] == "default_pg" else _UNKNOWN
    return ranks[entry.ends[0]], ranks[entry.ends[1]]


def _progress(dumps: Mapping[int, Dump], calls: Mapping[int, Sequence[Call]]) -> dict[int, _Counts]:
    """Return collectives entered and completed by rank and process group."""
    blurred = {
        entry.group for dump in dumps.values() for entry in dump.entries if entry.transfer or entry.backend == "gloo"
    }
    result: dict[int, _Counts] = {}
    for rank, dump in dumps.items():
        mine: _Counts = {label(group): status for group, status in _stated(dump) if group not in blurred}
        grouped: dict[str, list[Call]] = {}
        for call in calls[rank]:
            grouped.setdefault(call.group, []).append(call)
        for group, here in grouped.items():
            entered = max(call.number for call in here)
            open_ = [call.number for call in here if call.transfer is None and not call.done]
            mine[group] = (entered, min(open_) - 1 if open_ else entered)
        result[rank] = mine
    _complete(dumps, result)
    return result


def _complete(dumps: Mapping[int, Dump], progress: Mapping[int, _Counts]) -> None:
    """Add ranks of a group that kept nothing of it: what the others wait for they have not entered.

    A dump holds everything that has not ended, so a collective that is not in it either has, and then has on nobody
    that still waits for it, or was never entered.
    """
    waiting: dict[str, int] = {}
    for each in progress.values():
        for group, (entered, done) in each.items():
            if done is not None and entered > done:
                waiting[group] = max(waiting.get(group, 0), done)
    everyones = {
        label(entry.group) for dump in dumps.values() for entry in dump.entries if entry.group[1] == "default_pg"
    }
    for rank, dump in dumps.items():
        own = {label((name, dump.described[name])) for name in dump.members}
        for group in sorted((own | everyones) & waiting.keys() - progress[rank].keys()):
            progress[rank][group] = (waiting[group], waiting[group])


def _stated(dump: Dump) -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
    """Yield the status of each process group that can be told which one it is.

    The recorder numbers the groups of a process in the order in which they were made, and so are their names where
    they are numbers; entries tell both and must agree.
    """
    told = {entry.local: entry.group for entry in dump.entries if entry.local >= 0}
    if all(name.isdecimal() and len(name) < 10 for name in dump.described) and len(dump.described) == len(dump.status):
        names = sorted(dump.described, key=int)
        guessed = {at: (name, dump.described[name]) for at, name in zip(sorted(dump.status), names, strict=True)}
        if all(guessed.get(local, group) == group for local, group in told.items()):
            told = guessed | told
    yield from ((told[local], status) for local, status in dump.status.items() if local in told)


def _place(dump: Dump, calls: Sequence[Call]) -> tuple[Entry | None, tuple[Frame, ...]]:
    """Return what the rank waits in, and the stack from which it was called, else from which it called last."""
    entry = next((one for one, call in zip(dump.entries, calls, strict=True) if not call.done), None)
    last = entry or (dump.entries[-1] if dump.entries else None)
    frames = last.frames if last is not None else ()
    own = [at for at, frame in enumerate(frames) if frame.module.partition(".")[0] not in _LIBRARIES]
    return entry, frames[: own[-1] + 1] if own else frames


def _patterns(entry: Entry | None, frames: tuple[Frame, ...]) -> tuple[Pattern, ...]:
    """Return what stands for where a rank waits, or where it was seen last; () unknown."""
    if not frames and entry is None:
        return ()
    name = f"{entry.backend}:{entry.name}".lstrip(":") if entry is not None else ""
    name = frame_name(frames[-1]) if frames else name
    family = "wait" if entry is not None else "other"
    stack = tuple(map(frame_identity, frames))
    return (Pattern(function_id("python", name), name, "python", family, "", 1.0, stack=stack),)
