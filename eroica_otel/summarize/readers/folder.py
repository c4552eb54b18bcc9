"""A captured window of our own (its samples were read already) -> Trace, on the monotonic clock of the samples."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from eroica_otel import kinds
from eroica_otel.errors import TraceError, one_line
from eroica_otel.model import Capture, Events
from eroica_otel.summarize.readers import steps
from eroica_otel.summarize.readers.kineto import read
from eroica_otel.summarize.readers.watch import NOBODY, Watch
from eroica_otel.traces import Trace

TRACE = "trace.json"


def trace_of(capture: Capture, folder: str, watch: Watch = NOBODY) -> Trace:
    """Return a capture and the trace that lies beside it, if there is one; ``folder`` may have been moved since.

    Args:
        watch: Is told how far the reading of the trace is; what it raises ends it.

    Raises:
        TraceError: the trace is not there, or cannot be read.
    """
    beside = Path(folder) / TRACE
    path = str(beside) if beside.exists() else capture.trace
    if path and not os.path.isfile(path):  # a pipe would be read for ever
        raise TraceError(
            f"{folder}: its trace is neither in it nor at {one_line(path, 200)}; copy it into the folder as {TRACE}"
        )
    events = read(path, capture.realtime_offset_ns, watch=watch) if capture.trace else no_events()
    who = capture.identity
    return Trace(
        path=folder,
        format="capture",
        events=events,
        rank=who.rank,
        world_size=who.world_size,
        host=who.host,
        backend="",
        devices=(),
        groups={},
        steps=steps.steps_of(events),
        python=None,
        gpu=capture.gpu or any(kinds.is_kernel(category) for category in events.categories),
        training_thread=capture.training_thread,
        capture=capture,
    )


def no_events() -> Events:
    """Return the events of a capture that has no trace."""
    times, numbers = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return Events(times, times, numbers, numbers, times, (), (), {}, 0)
