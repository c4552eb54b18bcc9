"""Builders of captures and trace events, and a writer of Kineto's JSON, with defaults for everything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eroica_otel.model import Capture, Events, Identity, Window


class Row(NamedTuple):
    """One trace event."""

    name: str
    start: int
    end: int
    category: str = "cpu_op"
    thread: int = 1


MAIN = ("__main__", "main", "/job/train.py", 1)
AUGMENT = ("__main__", "augment", "/job/train.py", 40)
BACKWARD = ("torch.autograd.graph", "_engine_run_backward", "/torch/autograd/graph.py", 800)
NEXT = ("torch.utils.data.dataloader", "_BaseDataLoaderIter.__next__", "/torch/utils/data/dataloader.py", 700)
HOOK = ("eroica_otel.signals.hooks", "Hooks._hook_loader.<locals>.__next__", "/eroica_otel/signals/hooks.py", 110)
WATCH = ("eroica_otel.signals.hooks", "watch", "/eroica_otel/signals/hooks.py", 80)
FETCH = ("__main__", "fetch_remote", "/job/train.py", 60)


def events(rows: Sequence[Row], collectives: Mapping[int, tuple[str, int | None]] | None = None) -> Events:
    """Return columns sorted by start; ``collectives`` is by place in ``rows``."""
    names = tuple(dict.fromkeys(row.name for row in rows))
    categories = tuple(dict.fromkeys(row.category for row in rows))
    order = sorted(range(len(rows)), key=lambda i: rows[i].start)
    ordered = [rows[i] for i in order]
    return Events(
        start_ns=np.array([row.start for row in ordered], np.int64),
        end_ns=np.array([row.end for row in ordered], np.int64),
        name=np.array([names.index(row.name) for row in ordered], np.int32),
        category=np.array([categories.index(row.category) for row in ordered], np.int32),
        thread=np.array([row.thread for row in ordered], np.int64),
        names=names,
        categories=categories,
        collectives={order.index(place): value for place, value in (collectives or {}).items()},
        total=len(rows),
    )


def identity(rank: int = 0) -> Identity:
    """Return a worker of a job of four."""
    return Identity("job", rank, "host-a", world_size=4)


def capture(
    *,
    start: int = 0,
    end: int = 100,
    iterations: Sequence[int] | None = None,
    frames: Sequence[tuple[str, str, str, int]] = (MAIN, AUGMENT, BACKWARD, NEXT, FETCH),
    stacks: Sequence[tuple[int, ...]] = ((0,), (0, 1), (0, 2), (0, 3, 4)),
    samples: Sequence[tuple[int, int]] = (),
    cpu: Sequence[int] | None = None,
    gc: Sequence[tuple[int, int]] = (),
    nic: Sequence[tuple[int, int, int]] = (),
    reason: str = "degraded",
    **more: Any,
) -> Capture:
    """Return a capture; ``samples`` are (time, stack), ``nic`` are (time, bytes sent, bytes received)."""
    link = np.array(nic, np.int64).reshape(-1, 3)
    values: dict[str, Any] = {
        "window": Window(1_700_000_000, reason, 10, 12),
        "identity": identity(),
        "realtime_offset_ns": (0, 0),
        "training_thread": 1,
        "trace": "",
        "start_ns": start,
        "end_ns": end,
        "iteration_ns": np.array([start, end] if iterations is None else iterations, np.int64),
        "frames": tuple(frames),
        "stacks": tuple(stacks),
        "stack_ns": np.array([time for time, _ in samples], np.int64),
        "stack_ids": np.array([stack for _, stack in samples], np.int32),
        "cpu_ns": np.array([0] * len(samples) if cpu is None else cpu, np.int64),
        "gc_ns": np.array(gc, np.int64).reshape(-1, 2),
        "nic_ns": link[:, 0],
        "nic_tx": link[:, 1],
        "nic_rx": link[:, 2],
    }
    return Capture(**(values | more))


def microseconds(nanoseconds: int) -> str:
    """Return the decimal text that Kineto writes."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def kineto_event(row: Row, base: int = 0, arguments: Mapping[str, object] | None = None) -> str:
    """Return one complete event, printed as Kineto prints it."""
    more = "" if arguments is None else f',\n    "args": {{\n      {json.dumps(arguments)[1:-1]}\n    }}'
    return (
        f'\n  {{\n    "ph": "X", "cat": {json.dumps(row.category)}, "name": {json.dumps(row.name)}, "pid": 7, '
        f'"tid": {row.thread},\n    "ts": {microseconds(row.start - base)}, '
        f'"dur": {microseconds(row.end - row.start)}{more}\n  }}'
    )


def kineto_text(bodies: Sequence[str], base: int = 0, header: str = "") -> str:
    """Return a whole trace file around printed events."""
    return (
        f'{{\n  "schemaVersion": 1,{header}\n  "baseTimeNanoseconds": {base},\n  "traceEvents": ['
        + ",".join(bodies)
        + '\n  ],\n  "traceName": "trace.json"\n}\n'
    )


def write_kineto(path: Path, rows: Sequence[Row], base: int = 0) -> str:
    """Write ``rows`` as a trace and return the path as text."""
    path.write_text(kineto_text([kineto_event(row, base) for row in rows], base))
    return str(path)
