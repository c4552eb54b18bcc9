"""Trace events, stack samples and collections of one window -> which function each instant is charged to.

At each instant the highest level at work is charged; several functions of that level at one instant are all on the
path, and per function the union of its intervals counts. So the charged times of functions may overlap, those of kinds
never do: kinds and idle sum to the window, exactly, in int64 nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eroica_otel import kinds
from eroica_otel.model import KINDS, Capture, Events
from eroica_otel.summarize.functions import Function, Functions
from eroica_otel.summarize.innermost import innermost
from eroica_otel.summarize.intervals import Intervals, Times, clip, join, length, merge, nothing, subtract, union
from eroica_otel.summarize.loaders import held_up
from eroica_otel.summarize.stacks import python_activity
from eroica_otel.traces import PythonCalls

CPU_ORDER = ("compute", "python", "communication", "python_wait")
"""Levels of a job without accelerator: a Python function that runs while a bucket is in flight is what costs time."""
GPU_ORDER = ("compute", "memory", "communication", "host", "python")
"""Levels of a GPU job, where the kernels say what the device does and Python in a wait frame is Python."""


@dataclass(frozen=True, slots=True)
class Charged:
    """The critical path of one window.

    Attributes:
        functions: Every function seen, by number.
        pieces: Charged stretches, per function disjoint, sorted by function and start inside a level.
        kind_ns: Charged time of each kind of model.KINDS.
        idle_ns: Time in which nothing ran.
        event_function: Function of each trace event, -1 where it is never charged; shape [events].
        unknown: Events and seconds of each category that the table of kinds does not know.
        gpu: Whether the window was charged as that of a GPU job.
        loader_ns, loader_cpu_ns: As HeldUp.time_ns and HeldUp.cpu_ns.
    """

    functions: tuple[Function, ...]
    pieces: Intervals
    kind_ns: Mapping[str, int]
    idle_ns: int
    event_function: Times
    unknown: Mapping[str, tuple[int, float]]
    gpu: bool
    loader_ns: Times
    loader_cpu_ns: Times


def charge_levels(levels: Sequence[Intervals], start: int, end: int) -> tuple[Intervals, list[int]]:
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
    return join(*pieces), charged


def charge(capture: Capture, events: Events, calls: PythonCalls | None = None, order: Sequence[str] = ()) -> Charged:
    """Charge every instant of the window.

    Args:
        calls: Stacks of the trace, for a window without samples.
        order: Levels, highest first, those of CPU_ORDER and GPU_ORDER; one that is left out is never charged. Python
            in wait frames is Python where python_wait is left out. Empty: CPU_ORDER or GPU_ORDER.
    """
    functions = Functions()
    gpu = any(kinds.is_kernel(category) for category in events.categories)
    number, nests, kind = _label(events, functions, gpu)
    levels = _trace_levels(events, number, nests, kind, gpu)
    work, wait, queue = python_activity(capture, functions, calls)
    held = held_up(capture, queue, functions)
    work = join(work, held.charged)
    order = tuple(order) or (GPU_ORDER if gpu else CPU_ORDER)
    if "python_wait" in order:
        levels |= {"python": work, "python_wait": wait}
    else:
        levels["python"] = join(work, wait)
    pieces, charged = charge_levels([levels.get(level, nothing()) for level in order], capture.start_ns, capture.end_ns)
    kind_ns = dict.fromkeys(KINDS, 0)
    for level, time in zip(order, charged, strict=True):
        kind_ns[level.removesuffix("_wait")] += time
    return Charged(
        functions=functions.all(),
        pieces=pieces,
        kind_ns=kind_ns,
        idle_ns=capture.end_ns - capture.start_ns - sum(charged),
        event_function=number,
        unknown=unknown_categories(events),
        gpu=gpu,
        loader_ns=held.time_ns,
        loader_cpu_ns=held.cpu_ns,
    )


def _label(events: Events, functions: Functions, gpu: bool) -> tuple[Times, NDArray[np.bool_], NDArray[np.int64]]:
    """Return for each event its function (-1: none), whether it nests, and its kind as index into KINDS (-1: none)."""
    pairs, place = np.unique(
        events.category.astype(np.int64) * (len(events.names) + 1) + events.name, return_inverse=True
    )
    rows: list[tuple[int, bool, int]] = []
    for category, name in zip(*(part.tolist() for part in np.divmod(pairs, len(events.names) + 1)), strict=True):
        rows.append(_row(events.categories[category], events.names[name], functions, gpu))
    table = np.array(rows, np.int64).reshape(-1, 3)[place.reshape(-1)]
    return table[:, 0], table[:, 1].astype(bool), table[:, 2]


def _row(category: str, name: str, functions: Functions, gpu: bool) -> tuple[int, bool, int]:
    label = kinds.classify_on_gpu(category, name) if gpu else kinds.classify(category, name)
    if not label.kind:
        return -1, label.nests, -1
    function = Function(label.kind, kinds.identity_name(name), kinds.short_name(category, name), label.family)
    return functions.number(function), label.nests, KINDS.index(label.kind)


def _trace_levels(
    events: Events, number: Times, nests: NDArray[np.bool_], kind: NDArray[np.int64], gpu: bool
) -> dict[str, Intervals]:
    """Return the intervals of each kind; on a CPU-only job compute is the self time of operators."""
    whole = Intervals(events.start_ns, events.end_ns, number)
    compute = KINDS.index("compute")
    levels = {
        name: whole.take((kind == index) & ~(nests & (kind == compute)))
        for index, name in enumerate(KINDS)
        if name != "python"
    }
    if not gpu:
        stacked = np.flatnonzero(nests)
        own = innermost(events.start_ns[stacked], events.end_ns[stacked], events.thread[stacked])
        event = stacked[own.function]
        operators = kind[event] == compute
        levels["compute"] = Intervals(own.start, own.end, number[event]).take(operators)
    return levels


def unknown_categories(events: Events) -> dict[str, tuple[int, float]]:
    """Return (events, seconds that they take together) of each category that the table of kinds does not know."""
    counts = np.bincount(events.category, minlength=len(events.categories))
    lengths = np.bincount(events.category, weights=events.end_ns - events.start_ns, minlength=len(events.categories))
    return {
        category: (int(count), float(length) / 1e9)
        for category, count, length in zip(events.categories, counts, lengths, strict=True)
        if not kinds.is_known(category)
    }
