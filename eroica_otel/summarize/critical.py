"""Trace events, stack samples and collections of one window -> which function each instant is charged to.

At each instant the highest level at work is charged; several functions of that level at one instant are all on the
path, and per function the union of its intervals counts. So the charged times of functions may overlap, those of kinds
never do: kinds and idle sum to the window, exactly, in int64 nanoseconds. The window is charged block by block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eroica_otel import kinds
from eroica_otel.model import KINDS, Capture, Events
from eroica_otel.summarize.blocks import Block, Moves, Source
from eroica_otel.summarize.functions import Function, Functions
from eroica_otel.summarize.inmemory import InMemory
from eroica_otel.summarize.inmemory import unknown_categories as unknown_categories
from eroica_otel.summarize.innermost import innermost
from eroica_otel.summarize.intervals import (
    Intervals,
    Times,
    Walk,
    clip,
    join,
    length,
    merge,
    nothing,
    per_function,
    subtract,
    union,
)
from eroica_otel.summarize.loaders import held_up
from eroica_otel.summarize.spill import Spill
from eroica_otel.summarize.stacks import python_activity
from eroica_otel.summarize.stretches import Stretches
from eroica_otel.traces import PythonCalls

CPU_ORDER = ("compute", "python", "communication", "python_wait")
"""Levels of a job without accelerator: a Python function that runs while a bucket is in flight is what costs time."""
GPU_ORDER = ("compute", "memory", "communication", "host", "python")
"""Levels of a GPU job, where the kernels say what the device does and Python in a wait frame is Python."""
_COMPUTE, _COMMUNICATION = KINDS.index("compute"), KINDS.index("communication")


@dataclass(frozen=True, slots=True)
class Charged:
    """The critical path of one window.

    Attributes:
        functions: Every function seen, by number.
        parts: Charged stretches, part by part, per function disjoint.
        kind_ns: Charged time of each kind of model.KINDS.
        idle_ns: Time in which nothing ran.
        moves: Trace events that are charged as communication.
        unknown: Events and seconds of each category that the table of kinds does not know.
        events: Complete events of the trace, before any selection.
        gpu: Whether the window was charged as that of a GPU job.
        loader_ns, loader_cpu_ns: As HeldUp.time_ns and HeldUp.cpu_ns.
    """

    functions: tuple[Function, ...]
    parts: Iterable[Intervals]
    kind_ns: Mapping[str, int]
    idle_ns: int
    moves: Moves
    unknown: Mapping[str, tuple[int, float]]
    events: int
    gpu: bool
    loader_ns: Times
    loader_cpu_ns: Times

    @property
    def pieces(self) -> Intervals:
        """Charged stretches, all at once."""
        return join(nothing(), *self.parts)

    def charged_ns(self) -> NDArray[np.float64]:
        """Return the charged time of each function, shape [functions]."""
        total = np.zeros(len(self.functions))
        for pieces in self.parts:
            total += per_function(pieces, pieces.end - pieces.start, total.size)
        return total


def charge(
    capture: Capture,
    events: Events | Source,
    calls: PythonCalls | None = None,
    order: Sequence[str] = (),
    spill: Spill | None = None,
) -> Charged:
    """Charge every instant of the window.

    Args:
        calls: Stacks of the trace, for a window without samples.
        order: Levels, highest first, those of CPU_ORDER and GPU_ORDER; one that is left out is never charged. Python
            in wait frames is Python where python_wait is left out. Empty: CPU_ORDER or GPU_ORDER.
        spill: Keeps the charged stretches as long as they are needed; memory where it is left out.
    """
    source = InMemory(events) if isinstance(events, Events) else events
    functions = Functions()
    gpu = any(kinds.is_kernel(category) for category in source.categories)
    labels = _labels(source.labels, functions, gpu)
    work, wait, queue = python_activity(capture, functions, calls)
    held = held_up(capture, queue, functions)
    order = tuple(order) or (GPU_ORDER if gpu else CPU_ORDER)
    python = _python_levels(join(work, held.charged), wait, order)
    stretches = Stretches(spill or Spill())
    charged = _by_block(capture, source, labels, python, order, stretches)
    kind_ns = dict.fromkeys(KINDS, 0)
    for level, time in zip(order, charged, strict=True):
        kind_ns[level.removesuffix("_wait")] += time
    return Charged(
        functions=functions.all(),
        parts=stretches,
        kind_ns=kind_ns,
        idle_ns=capture.end_ns - capture.start_ns - sum(charged),
        moves=source.moves(np.where(labels.kind == _COMMUNICATION, labels.function, -1)),
        unknown=source.unknown(),
        events=source.total,
        gpu=gpu,
        loader_ns=held.time_ns,
        loader_cpu_ns=held.cpu_ns,
    )


def _by_block(
    capture: Capture,
    source: Source,
    labels: _Labels,
    python: Mapping[str, Walk],
    order: Sequence[str],
    stretches: Stretches,
) -> list[int]:
    """Add the charged pieces of all blocks to ``stretches``; return the charged nanoseconds of each level."""
    charged = [0] * len(order)
    for block in source.blocks(labels.wanted, capture.start_ns, capture.end_ns):
        if block.low == block.high:
            continue
        levels = _trace_levels(block, labels)
        levels |= {name: walk.within(block.low, block.high) for name, walk in python.items()}
        pieces, times = charge_levels([levels.get(level, nothing()) for level in order], block.low, block.high)
        stretches.add(pieces, block.low, block.high, block.high >= capture.end_ns)
        charged = [before + now for before, now in zip(charged, times, strict=True)]
    return charged


def charge_levels(levels: Sequence[Intervals], start: int, end: int) -> tuple[list[Intervals], list[int]]:
    """Return the charged pieces and the charged nanoseconds of each level, highest level first."""
    cover = nothing()
    pieces: list[Intervals] = []
    charged: list[int] = []
    for level in levels:
        merged = merge(clip(level, start, end))
        pieces.append(subtract(merged, cover))
        before = length(cover)
        cover = union(join(cover, merged))
        charged.append(length(cover) - before)
    return pieces, charged


class _Labels(NamedTuple):
    """What the labels of a source mean, each of shape [labels].

    Attributes:
        function: Number of the function, -1: never charged.
        nests: Whether events of it hide those around them on their thread.
        kind: Index into KINDS, -1: none.
        wanted: Whether events of it can be charged, or hide what can.
        gpu: Whether kernels tell what is computed, so that the self time of operators is not needed.
    """

    function: Times
    nests: NDArray[np.bool_]
    kind: NDArray[np.int64]
    wanted: NDArray[np.bool_]
    gpu: bool


def _labels(labels: Sequence[tuple[str, str]], functions: Functions, gpu: bool) -> _Labels:
    rows = [_row(category, name, functions, gpu) for category, name in labels]
    function, nests, kind = np.array(rows, np.int64).reshape(-1, 3).T
    nested = nests.astype(bool)
    wanted = (kind >= 0) & ~(nested & (kind == _COMPUTE)) if gpu else (kind >= 0) | nested
    return _Labels(function, nested, kind, wanted, gpu)


def _row(category: str, name: str, functions: Functions, gpu: bool) -> tuple[int, bool, int]:
    label = kinds.classify_on_gpu(category, name) if gpu else kinds.classify(category, name)
    if not label.kind:
        return -1, label.nests, -1
    function = Function(label.kind, kinds.identity_name(name), kinds.short_name(category, name), label.family)
    return functions.number(function), label.nests, KINDS.index(label.kind)


def _python_levels(work: Intervals, wait: Intervals, order: Sequence[str]) -> dict[str, Walk]:
    if "python_wait" in order:
        return {"python": Walk(work), "python_wait": Walk(wait)}
    return {"python": Walk(join(work, wait))}


def _trace_levels(block: Block, labels: _Labels) -> dict[str, Intervals]:
    """Return the intervals of each kind; on a CPU-only job compute is the self time of operators."""
    rows = block.rows
    whole, kind = Intervals(rows.start, rows.end, labels.function[rows.label]), labels.kind[rows.label]
    levels = {name: whole.take(kind == index) for index, name in enumerate(KINDS) if name != "python"}
    if not labels.gpu:
        stacked = np.flatnonzero(labels.nests[rows.label])
        own = innermost(rows.start[stacked], rows.end[stacked], rows.thread[stacked])
        event = stacked[own.function]
        levels["compute"] = Intervals(own.start, own.end, whole.function[event]).take(kind[event] == _COMPUTE)
    return levels
