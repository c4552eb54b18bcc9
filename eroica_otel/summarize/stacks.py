"""Stack samples (or stacks in a trace) and collections -> intervals of Python functions on the training thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eroica_otel import kinds
from eroica_otel.kinds import Frame
from eroica_otel.model import Capture
from eroica_otel.summarize.functions import Function, Functions
from eroica_otel.summarize.innermost import innermost
from eroica_otel.summarize.intervals import Intervals, Times, clip, join, nothing, subtract, union
from eroica_otel.summarize.loaderframes import awaits_loader
from eroica_otel.traces import PythonCalls

INPUT_FRAME = Frame("eroica_otel", "watch", "eroica_otel", 0)
"""Stands for our own frame around an input: a name of ours that changes with no version."""


class PythonActivity(NamedTuple):
    """Python at work, in a wait frame, and in the queue of the DataLoader's processes; collections count as work."""

    work: Intervals
    wait: Intervals
    queue: Intervals


def sample_intervals(capture: Capture) -> tuple[Times, Times, Times]:
    """Return (start, end, stack) of what each sample stands for.

    A sample weighs the time since the one before and is charged to the LATER stack: the sampler gets the GIL when a
    Python loop lets it go, so the stack it sees is the one that ran meanwhile. The first begins at the window's start;
    the time after the last sample goes to the last stack.
    """
    times = capture.stack_ns
    if not times.size:
        return times, times, times
    ids = capture.stack_ids.astype(np.int64)
    end = np.append(times, max(capture.end_ns, int(times[-1])))
    start = np.insert(times, 0, min(capture.start_ns, int(times[0])))
    return start, end, np.append(ids, ids[-1])


def visible(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return the stack without frames of this package; one that marks an input stays, under INPUT_FRAME.

    It goes too where the next frame says the same (the DataLoader's own).
    """
    kept: list[Frame] = []
    for place, frame in enumerate(stack):
        if not kinds.is_own(frame):
            kept.append(frame)
        elif kinds.is_input(frame) and not (place + 1 < len(stack) and kinds.is_input(stack[place + 1])):
            kept.append(INPUT_FRAME)
    return tuple(kept)


def python_function(stack: tuple[Frame, ...]) -> Function | None:
    """Return the function a stack (outermost first) is charged to; None where no frame of the training is left.

    The innermost frame gives the name; the whole stack is the identity, so a helper that is slow from one caller only
    stays apart.
    """
    frames = visible(stack)
    if not frames:
        return None
    identity = tuple(kinds.frame_identity(frame) for frame in frames)
    name = "input (eroica_otel.watch)" if frames[-1] == INPUT_FRAME else kinds.frame_name(frames[-1])
    return Function("python", " > ".join(identity), name, kinds.python_family(stack), identity)


def python_activity(capture: Capture, functions: Functions, calls: PythonCalls | None = None) -> PythonActivity:
    """Return the window's Python intervals; collections are cut out of the stacks that they interrupt.

    Args:
        calls: Stacks that the trace carries itself; they count where the window has no samples.
    """
    garbage = _collections(capture, functions)
    frames, stacks = capture.frames, capture.stacks
    if capture.stack_ns.size or calls is None:
        start, end, stack = sample_intervals(capture)
    else:
        frames, stacks = calls.frames, calls.stacks
        own = innermost(calls.start_ns, calls.end_ns, calls.thread)
        start, end, stack = own.start, own.end, calls.stack[own.function].astype(np.int64)
    if not start.size:
        return PythonActivity(garbage, nothing(), nothing())
    used = np.unique(stack)
    seen = [tuple(Frame(*frames[i]) for i in stacks[s]) for s in used]
    found = [python_function(one) for one in seen]
    number = np.array([-1 if one is None else functions.number(one) for one in found], np.int64)
    waits = np.array([one is not None and one.family == "wait" for one in found])
    queues = np.array([awaits_loader(one) for one in seen])
    place = np.searchsorted(used, stack)
    keep = number[place] >= 0
    whole = Intervals(start[keep], end[keep], number[place][keep])
    waits, queues = waits[place][keep], queues[place][keep]
    work, wait, queue = [
        subtract(clip(whole.take(chosen), capture.start_ns, capture.end_ns), union(garbage))
        for chosen in (~waits & ~queues, waits, queues)
    ]
    return PythonActivity(join(work, garbage), wait, queue)


def _collections(capture: Capture, functions: Functions) -> Intervals:
    if not capture.gc_ns.size:
        return nothing()
    number = functions.number(Function("python", kinds.GC_FUNCTION, kinds.GC_FUNCTION, "gc", (kinds.GC_FUNCTION,)))
    spans = capture.gc_ns.astype(np.int64).reshape(-1, 2)
    whole = Intervals(spans[:, 0], spans[:, 1], np.full(len(spans), number, np.int64))
    return clip(whole, capture.start_ns, capture.end_ns)
