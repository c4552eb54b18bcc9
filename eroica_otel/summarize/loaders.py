"""Waits for the DataLoader's processes -> the functions in those processes that hold the training up.

A wait ends when a batch is handed over; the process that handed one over last before that is the one it was for, and
the wait is charged to what that process ran meanwhile. Where no process says so (the wait is cut by the window), all
that work share each instant evenly. What no process can explain (all idle: the batch is on its way) stays with the
queue. So charged stretches never overlap: a wait is handed on, never counted twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eroica_otel.kinds import Frame
from eroica_otel.model import Capture, LoaderSamples
from eroica_otel.summarize.functions import Functions
from eroica_otel.summarize.intervals import Intervals, Reals, Times, join, merge, nothing, spread, subtract, union
from eroica_otel.summarize.loaderframes import awaits_loader, loader_stack
from eroica_otel.summarize.stacks import python_function

MOST_SHARING = 16
"""Processes among which a wait is shared when nobody knows which one it was for: those that work most."""
NOBODY = -1
LEAST_WAIT = 0.01
"""Share of a window from which on it is missed that nobody knows what the training waits for."""


class HeldUp(NamedTuple):
    """Waits as they are charged, and the CPU time of the processes that they are charged to.

    Attributes:
        charged: Disjoint stretches; together they cover the waits.
        time_ns, cpu_ns: Cumulative CPU time of the process that the instant is charged to; flat outside of waits.
    """

    charged: Intervals
    time_ns: Times
    cpu_ns: Times


def held_up(capture: Capture, waits: Intervals, functions: Functions) -> HeldUp:
    """Return ``waits`` (disjoint, the queue's own functions) handed on to the functions of the loader's processes."""
    working = [_working(one, capture.end_ns, functions) for one in capture.loaders]
    empty = np.zeros(0, np.int64)
    if not waits.start.size or not working:
        return HeldUp(waits, empty, empty)
    spans = union(waits)
    whose = _whose(spans.start, _ended_by(capture, spans.end), [one.batch_ns for one in capture.loaders])
    parts: list[tuple[int, Intervals]] = []
    for process, work in enumerate(working):
        parts.append((process, _within(work, spans.take(whose == process))))
    parts += _shared([_within(work, spans.take(whose == NOBODY)) for work in working])
    charged = join(*(part for _, part in parts))
    rest = subtract(waits, union(charged)) if charged.start.size else waits
    return HeldUp(join(charged, rest), *_cpu_time(capture.loaders, parts))


def unseen(capture: Capture) -> dict[str, str]:
    """Return why waits for the loader's processes cannot be handed on, {} where they can or are too short to matter."""
    if capture.loaders or not capture.stack_ids.size:
        return {}
    waits = [awaits_loader(Frame(*capture.frames[i]) for i in stack) for stack in capture.stacks]
    if np.array(waits)[capture.stack_ids].mean() < LEAST_WAIT:
        return {}
    return {
        "loader": "the training waits for its DataLoader's processes, which could not be sampled: they were started "
        "before eroica_otel attached, or EROICA_LOADERS=0"
    }


def _working(one: LoaderSamples, end_ns: int, functions: Functions) -> Intervals:
    """Return what a process ran, without the time in which it had no work; a sample is charged to the later stack."""
    times, ids = one.stack_ns, one.stack_ids.astype(np.int64)
    if not one.ended:  # it hangs, or was killed: who waits for it waits for this
        times, ids = np.append(times, max(end_ns, int(times[-1]))), np.append(ids, ids[-1])
    if times.size < 2:
        return nothing()
    used = np.unique(ids)
    found = [_number(tuple(Frame(*one.frames[i]) for i in one.stacks[stack]), functions) for stack in used]
    number = np.array(found, np.int64)[np.searchsorted(used, ids[1:])]
    return merge(Intervals(times[:-1], times[1:], number).take((number >= 0) & (times[1:] > times[:-1])))


def _number(stack: tuple[Frame, ...], functions: Functions) -> int:
    mine = loader_stack(stack)
    function = python_function(mine) if mine else None
    return NOBODY if function is None else functions.number(function)


def _ended_by(capture: Capture, last_seen: Times) -> Times:
    """Return when the training no longer waited: at its first sample after the one that saw it wait the last time."""
    times = capture.stack_ns
    if not times.size:
        return last_seen
    after: Times = np.append(times, capture.end_ns)[np.searchsorted(times, last_seen, side="right")]
    return np.maximum(after, last_seen)


def _whose(start: Times, end: Times, batches: list[Times]) -> Times:
    """Return for each wait the process whose batch ended it: the last one that was handed over inside it."""
    latest = np.full((len(batches), start.size), np.iinfo(np.int64).min)
    for process, ended in enumerate(batches):
        before = np.searchsorted(ended, end, side="right") - 1
        known = before >= 0
        latest[process, known] = ended[before[known]]
    whose = latest.argmax(axis=0)
    return np.where(latest.max(axis=0) > start, whose, NOBODY)


def _within(work: Intervals, spans: Intervals) -> Intervals:
    """Return the parts of ``work`` inside disjoint, sorted ``spans``."""
    if not spans.start.size:
        return nothing()
    far = np.iinfo(np.int64)
    outside_start, outside_end = np.insert(spans.end, 0, far.min), np.append(spans.start, far.max)
    outside = Intervals(outside_start, outside_end, np.zeros_like(outside_start))
    return subtract(work, outside.take(outside_end > outside_start))


def _shared(works: list[Intervals]) -> list[tuple[int, Intervals]]:
    """Return works cut so that each instant is shared evenly by those that have it."""
    busiest = sorted(range(len(works)), key=lambda at: -int((works[at].end - works[at].start).sum()))[:MOST_SHARING]
    chosen = [at for at in sorted(busiest) if works[at].start.size]
    if not chosen:
        return []
    borders = np.unique(np.concatenate([column for at in chosen for column in works[at][:2]]))
    here = np.zeros((len(chosen), borders.size - 1), bool)
    number = np.zeros(here.shape, np.int64)
    for row, at in enumerate(chosen):
        low = np.searchsorted(borders, works[at].start)
        piece, place = spread(np.searchsorted(borders, works[at].end) - low)
        here[row, low[piece] + place] = True
        number[row, low[piece] + place] = works[at].function[piece]
    turn, many = np.cumsum(here, axis=0) - 1, here.sum(axis=0)
    parts = []
    for row, at in enumerate(chosen):
        slices = np.flatnonzero(here[row])
        begin, size = borders[slices], borders[slices + 1] - borders[slices]
        start = begin + size * turn[row, slices] // many[slices]
        end = begin + size * (turn[row, slices] + 1) // many[slices]
        part = Intervals(start, end, number[row, slices])
        parts.append((at, part.take(end > start)))
    return parts


def _used(one: LoaderSamples, times: Times) -> Reals:
    """Return a process' CPU time at ``times``; from its first sample on, as float64 is good to 256 ns since 1970."""
    used: Reals = np.interp(times - one.stack_ns[0], one.stack_ns - one.stack_ns[0], one.cpu_ns)
    return used


def _cpu_time(loaders: tuple[LoaderSamples, ...], parts: list[tuple[int, Intervals]]) -> tuple[Times, Times]:
    """Return (time, cumulative CPU time) of whoever each instant is charged to."""
    start = np.concatenate([part.start for _, part in parts])
    end = np.concatenate([part.end for _, part in parts])
    used = np.concatenate([_used(loaders[at], part.end) - _used(loaders[at], part.start) for at, part in parts])
    order = np.argsort(start, kind="stable")
    total = np.cumsum(used[order])
    time = np.stack((start[order], end[order]), axis=1).reshape(-1)
    cpu = np.stack((total - used[order], total), axis=1).reshape(-1)
    return time, cpu.astype(np.int64)
