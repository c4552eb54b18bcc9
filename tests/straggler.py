"""Reader of the operation timelines of StragglerAnalysis, one row per operation of a worker: gives Traces by rank.

The job is 4 pipeline stages by 2 data-parallel ranks; a worker's number here is stage x 2 + data-parallel rank, and its
stage is the n-th of the sorted thread numbers of one process.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from eroica_otel.model import Events
from eroica_otel.traces import Steps, Trace

COMPUTE = ("forward-compute", "backward-compute", "optimizer")
STREAMS = 5
"""Threads of one worker in the timeline: compute, three of communication, others."""
COPIES = 2
"""Data-parallel ranks, the processes of the timeline."""


def stage_of(rank: int) -> int:
    """Return the pipeline stage of a rank."""
    return rank // COPIES


def read(path: Path) -> dict[int, Trace]:
    """Return the trace of each of the eight workers, all with the same 32 steps."""
    rows: list[dict[str, Any]] = [row for row in json.loads(gzip.decompress(path.read_bytes())) if row["ph"] == "X"]
    steps = _steps(rows)
    workers: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        workers[row["tid"] // STREAMS // COPIES * COPIES + row["pid"]].append(row)
    return {rank: _trace(rank, mine, steps) for rank, mine in sorted(workers.items())}


def _ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def _steps(rows: list[dict[str, Any]]) -> Steps:
    spans: dict[int, tuple[int, int]] = {}
    for row in rows:
        begin, end = _ns(row["ts"]), _ns(row["ts"] + row["dur"])
        first, last = spans.get(row["args"]["step"], (begin, end))
        spans[row["args"]["step"]] = (min(first, begin), max(last, end))
    table = np.array([(number, *spans[number]) for number in sorted(spans)], np.int64)
    return Steps(table[:, 0], table[:, 1], table[:, 2])


def _trace(rank: int, rows: list[dict[str, Any]], steps: Steps) -> Trace:
    rows.sort(key=lambda row: float(row["ts"]))
    # Names under which the table of kinds knows what moves data and what computes.
    named = [row["name"] if row["name"] in COMPUTE else f"mpi:{row['name']}" for row in rows]
    names = tuple(dict.fromkeys(named))
    start = np.array([_ns(row["ts"]) for row in rows], np.int64)
    events = Events(
        start_ns=start,
        end_ns=start + np.array([_ns(row["dur"]) for row in rows], np.int64),
        name=np.array([names.index(name) for name in named], np.int32),
        category=np.zeros(len(rows), np.int32),
        thread=np.array([row["tid"] for row in rows], np.int64),
        names=names,
        categories=("kernel",),
        collectives={},
        total=len(rows),
    )
    return Trace(
        path="timeline", format="straggler", events=events, rank=rank, world_size=8, host="", backend="nccl",
        devices=(), groups={}, steps=steps, python=None, gpu=True, training_thread=None,
    )  # fmt: skip
