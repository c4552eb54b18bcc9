"""Python in a trace -> intervals with stacks, as the live sampler would have seen them.

Three sources, the best one there is: python_function events (each names its caller), the "Call stack" that torch of
2021 put on operators, and the range that torch puts around the input call.
"""

from __future__ import annotations

import re

import numpy as np

from eroica_otel.kinds import Frame
from eroica_otel.model import Events
from eroica_otel.summarize.intervals import Times
from eroica_otel.summarize.readers.columns import Joined
from eroica_otel.traces import PythonCalls

_CALL = re.compile(r"(?P<file>.+?)\((?P<line>\d{1,9})\): (?P<function>.+)", re.DOTALL)
_INSTALLED = re.compile(r"(?:site|dist)-packages/|/lib/python\d[.\d]*/")
DEEPEST = 512
"""Frames of a stack that are kept, from the outside in: what is called beyond counts as its caller."""
_INPUT = "enumerate(DataLoader)#"
_INPUT_MODULE = "torch.utils.data.dataloader"
_INPUT_FILE = "torch/utils/data/dataloader.py"


class _Stacks:
    """Numbers stacks and their frames."""

    def __init__(self) -> None:
        self._frames: dict[Frame, int] = {}
        self._children: dict[tuple[int, int], int] = {}
        self.all: list[tuple[int, ...]] = []

    def below(self, stack: int, frame: Frame) -> int:
        """Return the stack that calls ``frame`` from ``stack`` (-1: from nowhere); at most DEEPEST frames."""
        if stack >= 0 and len(self.all[stack]) >= DEEPEST:
            return stack
        number = self._frames.setdefault(frame, len(self._frames))
        key = (stack, number)
        if key not in self._children:
            self._children[key] = len(self.all)
            self.all.append((*(self.all[stack] if stack >= 0 else ()), number))
        return self._children[key]

    def calls(self, rows: list[tuple[int, int]], events: Events) -> PythonCalls | None:
        """Return (row, stack) pairs as calls, by start; None without any."""
        if not rows:
            return None
        table = np.array(sorted(rows), np.int64)
        row = table[:, 0]
        return PythonCalls(
            start_ns=events.start_ns[row],
            end_ns=events.end_ns[row],
            thread=events.thread[row],
            stack=table[:, 1].astype(np.int32),
            stacks=tuple(self.all),
            frames=tuple(self._frames),
        )


def python_calls(columns: Joined, events: Events, thread: int | None) -> PythonCalls | None:
    """Return the Python of the training thread, None where the trace has none."""
    stacks = _Stacks()
    if columns.python.size:
        table = columns.python[events.thread[columns.python[:, 0]] == thread]
        return stacks.calls(_of_calls(table, events, stacks), events)
    operators = np.array(["::" in name for name in events.names], bool)
    row = columns.stacks[:, 0]
    table = columns.stacks[(events.thread[row] == thread) & operators[events.name[row]]] if row.size else columns.stacks
    return stacks.calls(_of_texts(table, columns.texts, stacks) + _of_inputs(events, thread, stacks), events)


def frame_of(text: str) -> Frame | None:
    """Return the frame that a trace writes as ``file(line): function``; None for C functions and modules."""
    found = _CALL.fullmatch(text)
    if found is None:
        return None
    file, line = found["file"].replace("\\", "/"), int(found["line"])
    path = _inside(file)
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".").strip(".")
    return Frame(module, found["function"], file, line)


def _inside(file: str) -> str:
    """Return the path inside of what is installed; of another absolute path the name."""
    ends = {found[0].startswith("/"): found.end() for found in _INSTALLED.finditer(file)}
    if ends:
        return file[ends.get(False, ends.get(True)) :]
    return file.rpartition("/")[2] if file.startswith("/") else file


def _of_calls(table: Times, events: Events, stacks: _Stacks) -> list[tuple[int, int]]:
    """Return (row, stack) of python_function events; C functions and modules count as their caller, as in samples."""
    frames = [frame_of(name) for name in events.names]
    parents = _parents(table)
    names = events.name[table[:, 0]].tolist()
    known: list[int | None] = [None] * len(names)
    for place in range(len(names)):
        path, at = [], place
        while at >= 0 and known[at] is None:
            known[at] = -1  # a chain that leads back to itself ends here
            path.append(at)
            at = parents[at]
        stack = -1 if at < 0 else known[at]
        for call in reversed(path):
            frame = frames[names[call]]
            stack = stack if frame is None else stacks.below(-1 if stack is None else stack, frame)
            known[call] = stack
    rows = table[:, 0].tolist()
    return [(rows[i], stack) for i, stack in enumerate(known) if stack is not None and frames[names[i]] is not None]


def _parents(table: Times) -> list[int]:
    """Return the place of each call's caller in the table, -1 where it is not in it."""
    order = np.argsort(table[:, 1], kind="stable")
    ids = table[order, 1]
    place = np.minimum(np.searchsorted(ids, table[:, 2]), max(ids.size - 1, 0))
    found = (table[:, 2] >= 0) & (ids[place] == table[:, 2]) if ids.size else np.zeros(0, bool)
    return np.where(found, order[place], -1).tolist() if ids.size else []


def _of_texts(table: Times, texts: list[str], stacks: _Stacks) -> list[tuple[int, int]]:
    """Return (row, stack) of operators with a call stack, innermost frame first in the text; ranges are no operators.

    Its lines are those of the calls, not where functions begin, so they are left out.
    """
    known: dict[int, int] = {}
    for number in np.unique(table[:, 1]).tolist():
        stack = -1
        for call in reversed(texts[number].split(";")):
            frame = frame_of(call.strip())
            stack = stack if frame is None else stacks.below(stack, frame._replace(line=0))
        known[number] = stack
    return [(row, known[text]) for row, text in table.tolist() if known[text] >= 0]


def _of_inputs(events: Events, thread: int | None, stacks: _Stacks) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number, name in enumerate(events.names):
        if name.startswith(_INPUT):
            stack = stacks.below(-1, Frame(_INPUT_MODULE, name.removeprefix(_INPUT), _INPUT_FILE, 0))
            rows = np.flatnonzero((events.name == number) & (events.thread == thread))
            found += [(row, stack) for row in rows.tolist()]
    return found
