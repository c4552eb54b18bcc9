"""A trace that was read from a file -> the capture and the window that a live worker would have made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eroica_otel.errors import TraceError
from eroica_otel.model import Capture, Identity, Window, WorkerWindow
from eroica_otel.summarize.pattern import summarize
from eroica_otel.summarize.resources import HOLD
from eroica_otel.traces import Trace

_NONE = np.zeros(0, np.int64)


class Stretch(NamedTuple):
    """The part of a trace that is summarised.

    Attributes:
        start_ns: Start, clock of the trace.
        end_ns: End.
        iteration_ns: Borders of the iterations, first = start, last = end, shape [iterations + 1]; shape [1] or [0]
            where the trace marks none.
        first: Number of the first iteration, 0 where none is marked.
        note: What a reader of the result should know about the choice, "" where it is the plain one.
    """

    start_ns: int
    end_ns: int
    iteration_ns: NDArray[np.int64]
    first: int
    note: str


def stretch_of(trace: Trace) -> Stretch:
    """Return the marked iterations, from the first one's start to the last one's end, else the span of all events.

    Raises:
        TraceError: the trace has no event with a length.
    """
    steps = trace.steps
    if steps.start_ns.size:
        borders = np.append(steps.start_ns, steps.end_ns[-1])
        return Stretch(int(borders[0]), int(borders[-1]), borders, int(steps.number[0]), "")
    events = trace.events
    if not events.start_ns.size or int(events.end_ns.max()) <= int(events.start_ns[0]):
        raise TraceError(f"{trace.path}: no event with a length, nothing to summarise; profile again, with some work")
    start, end = int(events.start_ns[0]), int(events.end_ns.max())
    note = "no ProfilerStep marks an iteration: the whole span of the events counts as one window"
    return Stretch(start, end, np.zeros(0, np.int64), 0, note)


def capture_of(
    trace: Trace, identity: Identity, *, window_id: int = 0, reason: str = "manual", stretch: Stretch | None = None
) -> Capture:
    """Return a trace as the capture of one window; a capture folder keeps its own samples and borders.

    Args:
        identity: Who the worker is, as the caller decided (the trace may not tell).
        stretch: The part to take; stretch_of(trace) by default.

    Raises:
        TraceError: the trace has no event with a length.
    """
    if trace.capture is not None and stretch is None:
        return replace(trace.capture, identity=identity)
    part = stretch or stretch_of(trace)
    iterations = max(part.iteration_ns.size - 1, 0)
    return Capture(
        window=Window(window_id, reason, part.first, part.first + iterations),
        identity=identity,
        start_ns=part.start_ns,
        end_ns=part.end_ns,
        iteration_ns=part.iteration_ns,
        realtime_offset_ns=(0, 0),
        training_thread=trace.training_thread or 0,
        trace="",
        frames=(),
        stacks=(),
        stack_ns=_NONE,
        stack_ids=np.zeros(0, np.int32),
        cpu_ns=_NONE,
        gc_ns=np.zeros((0, 2), np.int64),
        nic_ns=_NONE,
        nic_tx=_NONE,
        nic_rx=_NONE,
        gpu=trace.gpu,
        end_realtime_seconds=part.end_ns / 1e9,
    )


def summarize_trace(
    trace: Trace,
    identity: Identity,
    *,
    window_id: int = 0,
    reason: str = "manual",
    stretch: Stretch | None = None,
    top: int = 50,
    hold: Mapping[str, float] = HOLD,
    order: Sequence[str] = (),
) -> WorkerWindow:
    """Return what the live system would report about this trace's window; arguments as capture_of and summarize.

    Raises:
        TraceError: as capture_of and summarize.
    """
    capture = capture_of(trace, identity, window_id=window_id, reason=reason, stretch=stretch)
    return summarize(capture, top, hold, trace, order)
