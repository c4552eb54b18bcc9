"""Nested events of CPU threads -> the stretches in which each is the innermost one (its self time).

Innermost is the open event that started last; of those that start together the shorter, then the later in order.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from eroica_otel.summarize.intervals import Intervals, Times, join


def innermost(start: Times, end: Times, thread: Times) -> Intervals:
    """Return the stretches [start, end) of self time; ``function`` is the index of the event.

    Events of a thread nest, as calls do: then one sort by time and one by depth give the answer. A thread whose events
    overlap otherwise (ranges that user code opens and closes out of order) goes through a slower sweep.
    """
    index = np.flatnonzero(end > start)
    order = index[np.lexsort((-end[index], start[index], thread[index]))]
    start, end, thread = start[order], end[order], thread[order]
    stretches, crossed = _by_depth(start, end, thread)
    if crossed.size:
        bad = np.isin(thread, crossed)
        stretches = stretches.take(~bad[stretches.function])
        slow = [_sweep(start, end, np.flatnonzero(thread == one)) for one in crossed]
        stretches = join(stretches, *slow)
    return Intervals(stretches.start, stretches.end, order[stretches.function])


def _by_depth(start: Times, end: Times, thread: Times) -> tuple[Intervals, Times]:
    """Return self times of events sorted by (thread, start, -end), and the threads on which events cross."""
    count = start.size
    number = np.tile(np.arange(count), 2)
    time = np.concatenate((start, end))
    opens = np.arange(2 * count) < count
    inner_first = np.where(opens, number, -number)
    order = np.lexsort((inner_first, opens, time, thread[number]))
    number, time, opens = number[order], time[order], opens[order]
    top = _open_event(number, opens)
    closes = np.flatnonzero(~opens)
    crossed = np.unique(thread[number[closes[top[closes - 1] != number[closes]]]])
    inside = np.flatnonzero((top[:-1] >= 0) & (time[1:] > time[:-1]))
    return Intervals(time[inside], time[inside + 1], top[inside]), crossed


def _open_event(number: Times, opens: NDArray[np.bool_]) -> Times:
    """Return the innermost open event after each border, -1 for none.

    After a border that leaves depth d the innermost event is the last one that opened to depth d.
    """
    depth = np.cumsum(np.where(opens, 1, -1))
    by_depth = np.argsort(depth, kind="stable")
    last = np.maximum.accumulate(np.where(opens[by_depth], np.arange(depth.size), 0))
    top = np.empty(depth.size, np.int64)
    top[by_depth] = number[by_depth[last]]
    top[depth == 0] = -1
    return top


def _sweep(start: Times, end: Times, events: Times) -> Intervals:
    """Return self times of one thread's events whatever they overlap."""
    borders = np.unique(np.concatenate((start[events], end[events]))).tolist()
    starts, ends, numbers = start[events].tolist(), end[events].tolist(), events.tolist()
    heap: list[tuple[int, int]] = []
    rows: list[tuple[int, int, int]] = []
    following = 0
    for now, after in pairwise(borders):
        while following < len(starts) and starts[following] <= now:
            heappush(heap, (-following, ends[following]))
            following += 1
        while heap and heap[0][1] <= now:
            heappop(heap)
        if heap:
            rows.append((now, after, numbers[-heap[0][0]]))
    table = np.array(rows, np.int64).reshape(-1, 3)
    return Intervals(table[:, 0], table[:, 1], table[:, 2])
