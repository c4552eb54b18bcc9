"""Paths that a person gives -> files that may be traces; folders are searched, and what is left out is told."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from eroica_otel.offline.problem import Problem
from eroica_otel.offline.rankword import rank_by_word
from eroica_otel.profile.samples import META

ENDINGS = (".json", ".json.gz", ".sqlite")
"""What profilers write: torch.profiler, and nsys export --type sqlite."""
_REMEDIES = (
    ((".tar", ".tar.gz", ".tgz", ".tar.xz", ".zip", ".7z"), "is an archive; unpack it and give the folder"),
    ((".nsys-rep", ".qdrep"), "is a report of Nsight Systems; export it: nsys export --type sqlite FILE"),
    ((".json.zst", ".json.xz", ".json.bz2"), "is packed in a way that is not read here; unpack it or pack it by gzip"),
)
_DUMP = re.compile(r"(?:^|_)dump_\d+$|trace_rank_\d+$")
"""How files of torch's flight recorder are called by default; they have no ending."""
_WHOLE_BYTES = 64 << 20
"""Largest file, unpacked, that is looked at as a whole to tell JSON of another kind from a broken trace."""
_COUNTS = ("traceEvents", "deviceProperties", "distributedInfo")


class Found(NamedTuple):
    """Files to read in the order of their names; files of a folder that were not looked at; paths that hold nothing.

    ``searched`` are the files that came out of a folder: they may be JSON of another kind.
    """

    files: tuple[str, ...]
    searched: frozenset[str]
    passed: tuple[str, ...]
    problems: tuple[Problem, ...]


def find(paths: Iterable[str | os.PathLike[str]]) -> Found:
    """Return what the paths hold; nothing is opened, and a file that is reached twice counts once."""
    files: dict[str, str] = {}
    searched: set[str] = set()
    passed: list[str] = []
    problems: list[Problem] = []
    for path in map(Path, paths):
        if path.is_dir() and not _is_capture(path):
            closed = len(problems)
            inside, others = _search(path, problems)
            passed += others
            new = [one for one in inside if os.path.realpath(one) not in files]
            searched.update(new)
            files.update((os.path.realpath(one), one) for one in new)
            if not inside and closed == len(problems):
                problems.append(_empty(path, others))
        elif path.exists() or _is_worker(path):
            why = _unusable(path)
            if why:
                problems.append(Problem(str(path), f"{path} {why}"))
            else:
                files.setdefault(os.path.realpath(path), str(path))
        else:
            text = f"{path}: there is no such file or folder; check the path"
            problems.append(Problem(str(path), text, usage=True))
    return Found(tuple(files.values()), frozenset(searched), tuple(passed), tuple(problems))


def is_other_json(path: str) -> bool:
    """Return whether a file is whole JSON of another kind, and neither its name nor a key promises a trace.

    What is cut short, damaged or too large to be looked at is no such file: it may be the trace that is missing.
    """
    name = os.path.basename(path)
    if "trace" in name.lower() or rank_by_word(name) is not None:
        return False
    try:
        with open(path, "rb") as file:
            content = file.read(_WHOLE_BYTES + 1)
        if content[:2] == b"\x1f\x8b":
            unpacking = zlib.decompressobj(31)
            content = unpacking.decompress(content, _WHOLE_BYTES + 1)
            if not unpacking.eof:
                return False
        value = None if len(content) > _WHOLE_BYTES else msgspec.json.decode(content)
    except (OSError, zlib.error, msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return value is not None and not (isinstance(value, dict) and any(key in value for key in _COUNTS))


def _is_capture(path: Path) -> bool:
    try:
        return (path / META).is_file()
    except OSError:  # a folder that this user may not enter: whoever searches it says so
        return False


def _is_worker(path: Path) -> bool:
    """Whether it names one worker of a file that holds several (summarize/readers/any.py)."""
    file, mark, number = str(path).rpartition("#")
    return bool(mark) and number.isdecimal() and os.path.isfile(file)


def _search(folder: Path, problems: list[Problem]) -> tuple[list[str], list[str]]:
    """Return traces and other files below a folder, each sorted; folders that cannot be read go to ``problems``."""
    traces: list[str] = []
    others: list[str] = []
    for path in _walk(folder, lambda error: problems.append(_closed(error))):
        known = path.is_dir() or path.name.lower().endswith(ENDINGS)
        (traces if known else others).append(str(path))
    return traces, others


def _walk(folder: Path, closed: Callable[[OSError], None]) -> Iterator[Path]:
    """Yield the files below a folder and, as one, each folder that is a capture; hidden ones are nobody's traces.

    Links to folders are followed, each folder once.
    """
    seen = {os.path.realpath(folder)}
    for root, folders, names in os.walk(folder, onerror=closed, followlinks=True):
        folders[:] = [name for name in sorted(folders) if not _seen(os.path.join(root, name), seen)]
        for name in [name for name in folders if _is_capture(Path(root, name))]:
            yield Path(root, name)
            folders.remove(name)
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(root, name) for name in sorted(names) if not name.startswith("."))


def _seen(path: str, seen: set[str]) -> bool:
    place = os.path.realpath(path)
    known = place in seen
    seen.add(place)
    return known


def _closed(error: OSError) -> Problem:
    path = str(error.filename)
    text = f"{path}: the folder cannot be read ({error.strerror}); make it readable for this user, or leave it out"
    return Problem(path, text)


def _empty(folder: Path, others: Sequence[str]) -> Problem:
    among = f" among its {len(others)} files" if others else ": it is empty"
    remedy = "give the folder that the profiler wrote into"
    if any(_DUMP.search(os.path.basename(path)) for path in others):
        remedy += f", or for dumps of torch's flight recorder --flight-recorder {folder}"
    text = f"{folder} holds no trace{among} (looked for {', '.join(ENDINGS)} and capture folders); {remedy}"
    return Problem(str(folder), text, usage=True)


def _unusable(path: Path) -> str:
    name = path.name.lower()
    return next((remedy for endings, remedy in _REMEDIES if name.endswith(endings)), "")
