"""Events -> the iterations that the trace marks, and the thread that trains."""

from __future__ import annotations

import re

import numpy as np

from eroica_otel import kinds
from eroica_otel.model import Events
from eroica_otel.summarize.intervals import Times
from eroica_otel.traces import Steps

_ON_HOST = kinds.OPERATORS | kinds.ANNOTATIONS
_STEP = re.compile(r"ProfilerStep#(\d{1,18})")


def steps_of(events: Events) -> Steps:
    """Return the ProfilerStep ranges of the host that take time, by start, without what a device repeats of them."""
    rows = _rows(events, "ProfilerStep#", _ON_HOST)
    found = [_STEP.fullmatch(events.names[number]) for number in events.name[rows].tolist()]
    good = (events.end_ns > events.start_ns)[rows].tolist()
    rows = rows[[one is not None and long for one, long in zip(found, good, strict=True)]] if found else rows
    number = np.array([int(one[1]) for one, long in zip(found, good, strict=True) if one and long], np.int64)
    whole = Steps(number, events.start_ns[rows], events.end_ns[rows])
    work = np.array([kinds.is_kernel(text) for text in events.categories], bool)
    if not work.any():
        work = np.array([text.lower() in kinds.OPERATORS for text in events.categories], bool)
    return _without_idle_ends(whole, events.start_ns[work[events.category]] if work.size else np.zeros(0, np.int64))


def _without_idle_ends(steps: Steps, work_ns: Times) -> Steps:
    """Return the steps from the first to the last one in which work begins (``work_ns``, sorted); all if none does.

    What torch's schedule leaves before and after the profiled steps is marked too, and would count as idle time.
    """
    before = np.searchsorted(work_ns, np.stack((steps.start_ns, steps.end_ns)))
    busy = np.flatnonzero(before[1] > before[0])
    if not busy.size:
        return steps
    kept = slice(int(busy[0]), int(busy[-1]) + 1)
    return Steps(steps.number[kept], steps.start_ns[kept], steps.end_ns[kept])


def training_thread(events: Events) -> int | None:
    """Return the thread of the steps, else of the optimizer, else of the input, else the busiest; None without any."""
    marks: tuple[tuple[str, frozenset[str]], ...] = (
        ("ProfilerStep#", _ON_HOST),
        ("Optimizer.step#", _ON_HOST),
        ("enumerate(DataLoader)#", _ON_HOST),
        ("", kinds.PYTHON_CALLS),
        ("", kinds.OPERATORS),
        ("", kinds.RUNTIMES),
    )
    for prefix, categories in marks:
        rows = _rows(events, prefix, categories)
        if rows.size:
            return _commonest(events.thread[rows])
    return None


def _rows(events: Events, prefix: str, categories: frozenset[str]) -> Times:
    """Return the rows whose name begins with ``prefix`` and whose category, in lower case, is one of these."""
    if not events.names:
        return np.zeros(0, np.int64)
    named = np.array([text.startswith(prefix) for text in events.names], bool)
    placed = np.array([text.lower() in categories for text in events.categories], bool)
    return np.flatnonzero(named[events.name] & placed[events.category])


def _commonest(threads: Times) -> int:
    known, count = np.unique(threads, return_counts=True)
    return int(known[np.argmax(count)])
