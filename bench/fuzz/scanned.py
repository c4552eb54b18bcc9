"""A Kineto trace left in a file and charged block by block, as a live worker's helper does: what it gives in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from bench.fuzz.check import check_error, hold
from eroica_otel.errors import TraceError
from eroica_otel.model import Capture, Events, Identity, Window
from eroica_otel.summarize import blocks, spill
from eroica_otel.summarize.critical import Charged, charge
from eroica_otel.summarize.readers.kineto import read, scan

OFFSETS = ((0, 0), (0, 0), (7, 7), (0, 5), (3, 2000), (5, -4))
"""Realtime minus the clock of the samples, at both ends: mostly as torch writes it, else a clock that was slewed."""
COUNT, TIME = "number of events of an unknown category", "time in an unknown category"


class Way(NamedTuple):
    """How a trace is read in pieces: bytes at a time, events in a block, bytes held in memory, the clock's offset."""

    chunk_bytes: int
    block_events: int
    held_bytes: int
    offset_ns: tuple[int, int]


def way_of(number: int) -> Way:
    """Return one of many ways, the same for the same number."""
    return Way(40 + number % 700, 1 + number % 11, (0, 500, 1 << 20)[number % 3], OFFSETS[number % len(OFFSETS)])


def check_scan(path: str, way: Way) -> None:
    """Hold that both give the same critical path, or that both refuse the file."""
    try:
        events = read(path, way.offset_ns)
    except TraceError as error:
        check_error(error, path)
        events = None
    with patch.object(blocks, "BLOCK_EVENTS", way.block_events), patch.object(spill, "HELD_BYTES", way.held_bytes):
        try:
            by_blocks = _scanned(path, way, events)
        except TraceError as error:
            check_error(error, path)
            hold(events is None, "left in a file: an error where it is read in memory")
            return
    hold(events is not None, "left in a file: no error where there is one in memory")
    if events is not None and events.total:
        whole = _said(charge(_window(events), events))
        for name, value in by_blocks.items():
            alike = _alike(whole, value, way) if name == TIME else whole[name] == value
            hold(alike, f"left in a file: another {name}")


def _alike(whole: Mapping[str, Any], times: Mapping[str, float], way: Way) -> bool:
    """Return whether times of unknown categories are the same but for the clock: in a file they are the trace's own.

    No event is longer or shorter by more than what the whole trace was slewed by.
    """
    slewed = abs(way.offset_ns[1] - way.offset_ns[0]) / 1e9
    mine, counts = whole[TIME], whole[COUNT]
    return mine.keys() == times.keys() and all(
        abs(mine[key] - time) <= counts[key] * slewed + 1e-9 for key, time in times.items()
    )


def _scanned(path: str, way: Way, events: Events | None) -> Mapping[str, Any]:
    with spill.Spill(".") as kept:
        found = scan(path, way.offset_ns, kept, way.chunk_bytes)
        return _said(charge(_window(events), found, spill=kept)) if events is not None and events.total else {}


def _window(events: Events) -> Capture:
    """Return a window around all events but what begins in the first and ends in the last tenth."""
    first, last = int(events.start_ns.min()), int(events.end_ns.max())
    start, end = first + (last - first) // 10, last - (last - first) // 10
    none = np.zeros(0, np.int64)
    return Capture(
        window=Window(0, "manual", 0, 0), identity=Identity("job", 0, "node"), start_ns=start, end_ns=end,
        iteration_ns=none, realtime_offset_ns=(0, 0), training_thread=1, trace="", frames=(), stacks=(), stack_ns=none,
        stack_ids=np.zeros(0, np.int32), cpu_ns=none, gc_ns=none.reshape(0, 2), nic_ns=none, nic_tx=none, nic_rx=none,
    )  # fmt: skip


def _said(charged: Charged) -> dict[str, Any]:
    """Return what was charged, by function and not by number, which depends on the order of labels."""
    names = [(one.kind, one.identity) for one in charged.functions]
    pieces = charged.pieces
    moved = charged.moves
    return {
        "share of a kind": dict(charged.kind_ns),
        "time in which nothing ran": charged.idle_ns,
        "charged piece": sorted(
            (*names[number], start, end)
            for start, end, number in zip(*(column.tolist() for column in pieces), strict=True)
        ),
        "transfer": sorted(
            (start, end, *names[number], str(told))
            for start, end, number, told in zip(
                moved.start.tolist(), moved.end.tolist(), moved.function.tolist(), moved.told, strict=True
            )
        ),
        "number of events": charged.events,
        COUNT: {key: count for key, (count, _) in charged.unknown.items()},
        TIME: {key: time for key, (_, time) in charged.unknown.items()},
        "kind of job": charged.gpu,
    }
