"""What has run: one JSON line for each run, appended and on the disk before the next one begins.

A line has "kind" ("run", "effect", "clean" or "peer"), when and with which commit it was made; page.py and choose.py
say what they read of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.faults.case import Case
from bench.repeat_demo import commit

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("results.jsonl")
NOT_OF_A_RUN = frozenset({"fault", "what", "source", "changed", "explanation"})
"""Fields of a row that may change without making its runs worthless."""
BEHIND_AN_EFFECT = ("workloads/*.py", "faults/*.py", "board.py", "servers.py", "cgroups.py", "effect.py", "case.py")
"""Files that decide what a fault does to the iteration time."""

Line = Mapping[str, Any]


def read(path: Path = RESULTS) -> list[Line]:
    """Return all lines; one that was cut off by the end of a process is left out."""
    if not path.exists():
        return []
    return [line for text in path.read_text("utf-8").split("\n") for line in _parsed(text)]


def _parsed(text: str) -> list[Line]:
    try:
        return [json.loads(text)] if text else []
    except json.JSONDecodeError:
        return []


def append(path: Path, line: Mapping[str, Any]) -> Line:
    """Write a line with when and with what it was made; return it as it can be read again."""
    whole = {**line, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **_made_with()}
    text = json.dumps(whole)
    with path.open("a+b") as file:
        file.seek(0, os.SEEK_END)
        if file.tell() and not _ends_a_line(path):
            file.write(b"\n")  # behind one that was cut off
        file.write(text.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    found: Line = json.loads(text)
    return found


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _made_with() -> dict[str, Any]:
    return {"commit": commit(ROOT), "cores": os.cpu_count(), "torch": metadata.version("torch")}


def row_digest(case: Case) -> str:
    """Return what tells whether a run was one of this row as it is now."""
    said = [(one.name, _plain(getattr(case, one.name))) for one in fields(case) if one.name not in NOT_OF_A_RUN]
    return hashlib.sha256(repr(said).encode()).hexdigest()[:12]


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


def code_digest(folder: Path = RESULTS.parent) -> str:
    """Return what tells whether an effect was measured with the workloads and faults as they are now."""
    summed = hashlib.sha256()
    for file in sorted({file for pattern in BEHIND_AN_EFFECT for file in folder.glob(pattern)}):
        summed.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return summed.hexdigest()[:12]


def of_kind(lines: Iterable[Line], kind: str) -> Iterator[Line]:
    """Yield the lines of a kind."""
    return (line for line in lines if line["kind"] == kind)


def current_round(lines: Iterable[Line]) -> int:
    """Return the number of the round that runs; 1 at first."""
    return max((int(line.get("round", 1)) for line in lines), default=1)
