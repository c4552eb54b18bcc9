"""Paths that a person gives -> files that may be traces; folders are searched, and what is left out is told."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from eroica_otel.offline.problem import Problem
from eroica_otel.profile.samples import META

ENDINGS = (".json", ".json.gz", ".sqlite")
"""What profilers write: torch.profiler, and nsys export --type sqlite."""
_REMEDIES = (
    ((".tar", ".tar.gz", ".tgz", ".tar.xz", ".zip", ".7z"), "is an archive; unpack it and give the folder"),
    ((".nsys-rep", ".qdrep"), "is a report of Nsight Systems; export it: nsys export --type sqlite FILE"),
    ((".json.zst", ".json.xz", ".json.bz2"), "is packed in a way that is not read here; unpack it or pack it by gzip"),
)
_HEAD_BYTES = 1 << 16


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
            inside, others = _search(path)
            passed += others
            new = [one for one in inside if os.path.realpath(one) not in files]
            searched.update(new)
            files.update((os.path.realpath(one), one) for one in new)
            if not inside:
                problems.append(_empty(path, len(others)))
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
    """Return whether the beginning of a file in vain looked for events and its name does not promise any."""
    if "trace" in os.path.basename(path).lower():
        return False
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
        if head[:2] == b"\x1f\x8b":
            head = zlib.decompressobj(31).decompress(head, _HEAD_BYTES)
    except (OSError, zlib.error):
        return False
    return bool(head) and b"traceEvents" not in head


def _is_capture(path: Path) -> bool:
    return (path / META).is_file()


def _is_worker(path: Path) -> bool:
    """Whether it names one worker of a file that holds several (summarize/readers/any.py)."""
    file, mark, number = str(path).rpartition("#")
    return bool(mark) and number.isdecimal() and os.path.isfile(file)


def _search(folder: Path) -> tuple[list[str], list[str]]:
    """Return traces and other files below a folder, each sorted."""
    traces: list[str] = []
    others: list[str] = []
    for path in _walk(folder):
        known = path.is_dir() or path.name.lower().endswith(ENDINGS)
        (traces if known else others).append(str(path))
    return traces, others


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder and, as one, each folder that is a capture; hidden ones are nobody's traces."""
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in [name for name in folders if _is_capture(Path(root, name))]:
            yield Path(root, name)
            folders.remove(name)
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(root, name) for name in sorted(names) if not name.startswith("."))


def _empty(folder: Path, others: int) -> Problem:
    among = f" among its {others} files" if others else ": it is empty"
    text = (
        f"{folder} holds no trace{among} (looked for {', '.join(ENDINGS)} and capture folders); give the folder that "
        "the profiler wrote into"
    )
    return Problem(str(folder), text, usage=True)


def _unusable(path: Path) -> str:
    name = path.name.lower()
    return next((remedy for endings, remedy in _REMEDIES if name.endswith(endings)), "")
