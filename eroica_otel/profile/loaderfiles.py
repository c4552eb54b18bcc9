"""The files that processes of the DataLoader wrote in a window -> LoaderSamples; read by the helper.

Each file was written by a process that may have been killed or may hang, so it may end anywhere: what is whole counts.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from eroica_otel.model import LoaderSamples
from eroica_otel.profile.loaders import END

PATTERN = "loader-*.jsonl"
PATIENCE_SECONDS = 2.0
"""How long after a window the helper waits for a process that lives and has not finished its file."""


FAR = 1 << 61
"""Nanoseconds (73 years) beyond which sums of times do not fit into 64 bits."""


def settled(folder: Path, saved_at: Path) -> bool:
    """Return whether every file of the window has its end, or will not get one: its process is gone, or it was waited
    for since ``saved_at`` was written.
    """
    try:
        if time.time() - saved_at.stat().st_mtime > PATIENCE_SECONDS:
            return True
        return all(_ended(path) or not _alive(path) for path in folder.glob(PATTERN))
    except OSError:
        return True


def _ended(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(END)))
        return file.read() == END


def _alive(path: Path) -> bool:
    try:
        os.kill(_process(path), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError):
        return True
    return True


def _process(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def read(folder: Path) -> tuple[LoaderSamples, ...]:
    """Return what the files of a window hold, by process; one that holds nothing is left out."""
    found = [_read(path) for path in sorted(folder.glob(PATTERN))]
    return tuple(one for one in found if one is not None and one.stack_ns.size)


def _read(path: Path) -> LoaderSamples | None:
    frames: list[tuple[str, str, str, int]] = []
    stacks: list[tuple[int, ...]] = []
    columns: dict[str, list[int]] = {name: [] for name in ("stack_ns", "stack_ids", "cpu_ns", "batch_ns")}
    process, ended = 0, False
    try:
        process = _process(path)
        for line in filter(None, path.read_text("utf-8", "replace").split("\n")):
            part: dict[str, Any] = json.loads(sendable(line))
            if "end" in part:
                ended = True
                continue
            new = {name: [int(value) for value in part[name]] for name in columns}
            frames += [(_module(str(m)), str(q), str(f), int(n)) for m, q, f, n in part["frames"]]
            stacks += [tuple(int(index) for index in stack) for stack in part["stacks"]]
            for name, values in new.items():
                columns[name] += values
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        ended = False  # cut short: the parts before it are whole
    return _checked(process, frames, stacks, columns, ended)


def sendable(text: str) -> str:
    """Return JSON without half characters (a file's name may hold bytes that are no UTF-8): nothing could send them."""
    if "\\ud" not in text:
        return text
    whole = json.dumps(json.loads(text), ensure_ascii=False)
    return whole.encode("utf-8", "replace").decode()


def _module(name: str) -> str:
    """Return the module under which the training knows it: in a spawned process the script has a name of its own."""
    return "__main__" if name == "__mp_main__" else name


def _checked(
    process: int,
    frames: list[tuple[str, str, str, int]],
    stacks: list[tuple[int, ...]],
    columns: dict[str, list[int]],
    ended: bool,
) -> LoaderSamples | None:
    """Return the samples, None where they contradict each other."""
    size = min(len(columns[name]) for name in ("stack_ns", "stack_ids", "cpu_ns"))
    try:
        times, ids, cpu = (np.array(columns[name][:size], np.int64) for name in ("stack_ns", "stack_ids", "cpu_ns"))
        batches = np.sort(np.array(columns["batch_ns"], np.int64))
    except OverflowError:
        return None
    outside = any(not 0 <= index < len(frames) for stack in stacks for index in stack)
    beyond = any((np.abs(column) > FAR).any() for column in (times, cpu, batches))
    if outside or beyond or (np.diff(times) < 0).any() or (size and not 0 <= ids.min() <= ids.max() < len(stacks)):
        return None
    return LoaderSamples(process, tuple(frames), tuple(stacks), times, ids.astype(np.int32), cpu, batches, ended)
