"""Which part of a trace is summarised, and where its iterations begin: takes a Trace, gives a stretch.

In this order: the steps that torch.profiler marks (ProfilerStep#N), the optimizer's updates, the whole trace.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eroica_otel.errors import TraceError
from eroica_otel.summarize.offline import Stretch, stretch_of
from eroica_otel.traces import Trace

STEPS, UPDATES, SPAN, CAPTURE = "steps", "updates", "span", "capture"
_UPDATE = re.compile(r"Optimizer\.step#")


class Chosen(NamedTuple):
    """What is summarised.

    Attributes:
        stretch: The part; None where the trace is a capture of ours, which knows its own borders.
        steps: Numbers of the steps inside, () where the trace marks none.
        marked: STEPS, UPDATES, SPAN or CAPTURE.
    """

    stretch: Stretch | None
    steps: tuple[int, ...]
    marked: str


def choose(trace: Trace, iterations: int = 0, steps: Collection[int] = ()) -> Chosen:
    """Return the part of a trace that counts.

    Args:
        iterations: How many iterations a trace without steps holds; 0 where nobody said, then its updates count.
        steps: Numbers of the steps to take; () for all.

    Raises:
        TraceError: the trace has no event with a length, or none of these steps.
    """
    if trace.capture is not None:
        return Chosen(None, (), CAPTURE)
    if trace.steps.start_ns.size:
        return _steps(trace, steps)
    updates = _updates(trace)
    if updates.size >= 2 and not iterations:
        note = "no ProfilerStep marks an iteration: it goes from one optimizer update to the next"
        return Chosen(Stretch(int(updates[0]), int(updates[-1]), updates, 0, note), (), UPDATES)
    whole = stretch_of(trace)
    return Chosen(_even(whole, iterations), (), SPAN)


def _steps(trace: Trace, wanted: Collection[int]) -> Chosen:
    whole = stretch_of(trace)
    marked = trace.steps
    if not wanted:
        return Chosen(whole, tuple(marked.number.tolist()), STEPS)
    inside = np.flatnonzero(np.isin(marked.number, np.array(sorted(wanted), np.int64)))
    if not inside.size:
        raise TraceError(f"{trace.path}: none of the steps {min(wanted)} to {max(wanted)} is in it")
    borders = np.append(marked.start_ns[inside], marked.end_ns[inside[-1]])
    stretch = Stretch(int(borders[0]), int(borders[-1]), borders, int(marked.number[inside[0]]), whole.note)
    return Chosen(stretch, tuple(marked.number[inside].tolist()), STEPS)


def _updates(trace: Trace) -> NDArray[np.int64]:
    """Return the ends of the updates of the optimizer that comes first; a second one (GAN) is in the same iteration."""
    events = trace.events
    names = [at for at, name in enumerate(events.names) if _UPDATE.match(name)]
    found = np.flatnonzero(np.isin(events.name, names))
    if not found.size:
        return np.zeros(0, np.int64)
    first = events.name[found[0]]
    mine = found[(events.name[found] == first) & (events.thread[found] == events.thread[found[0]])]
    return np.unique(events.end_ns[mine])


def _even(whole: Stretch, iterations: int) -> Stretch:
    """Cut the span into iterations of equal length where their number was told; their borders are not known."""
    borders = np.linspace(whole.start_ns, whole.end_ns, max(iterations, 1) + 1).astype(np.int64)
    borders[0], borders[-1] = whole.start_ns, whole.end_ns
    return Stretch(whole.start_ns, whole.end_ns, borders, 0, whole.note)
