"""Builders of small Kineto traces for tests of the offline commands: what a rank does in each step, in microseconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

GEMM = "ampere_sgemm_128x64_tn"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
INPUT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
TRAINING, STREAM = 77, 7
START_US = 1_700_000_000_000_000
"""2023-11-14 22:13:20 UTC."""


def event(name: str, category: str, start_us: int, length_us: int, tid: int = STREAM, **more: Any) -> dict[str, Any]:
    """Return one complete event."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": start_us, "dur": length_us, **more}


def kineto(
    rank: int | None = 0,
    world: int | None = None,
    *,
    steps: Sequence[int] = (5, 6, 7),
    step_us: int = 1000,
    work: Mapping[str, int] | None = None,
    wait_us: int = 0,
    input_us: int = 0,
    marks: str = "steps",
    start_us: int = START_US,
    extra: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return a trace.

    Args:
        rank: In distributedInfo; None leaves distributedInfo out.
        steps: Numbers of the steps, one after the other.
        work: Kernels of a step by name, one after the other from the end of the input on; a GEMM of 300 by default.
        wait_us: Length of the all-reduce after them, 0 for none.
        input_us: Length of the input at the step's start, 0 for none.
        marks: "steps" for ProfilerStep#N, "updates" for an optimizer's updates at the end of each, "none".
        extra: Further events.
    """
    events: list[Mapping[str, Any]] = []
    for place, number in enumerate(steps):
        begin = start_us + place * step_us
        if marks == "steps":
            events.append(event(f"ProfilerStep#{number}", "user_annotation", begin, step_us, TRAINING))
        if input_us:
            events.append(event(INPUT, "user_annotation", begin, input_us, TRAINING))
        at = begin + input_us
        for name, length in (work if work is not None else {GEMM: 300}).items():
            events.append(event(name, "kernel", at, length))
            at += length
        if wait_us:
            events.append(event(ALL_REDUCE, "kernel", at, wait_us))
        if marks == "updates":
            update = event("Optimizer.step#SGD.step", "user_annotation", begin + step_us - 10, 10, TRAINING)
            events.append(update)
    info = {} if rank is None else {"distributedInfo": _info(rank, world)}
    return {"schemaVersion": 1, **info, "traceEvents": [*events, *extra]}


def _info(rank: int, world: int | None) -> dict[str, Any]:
    return {"backend": "nccl", "rank": rank, **({} if world is None else {"world_size": world})}


def write(path: Path, trace: Mapping[str, Any] | None = None, **changes: Any) -> Path:
    """Write a trace (``kineto(**changes)`` where none is given) and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kineto(**changes) if trace is None else trace))
    return path


def late_rank(
    folder: Path, count: int = 4, late: int = 2, steps: Sequence[int] = tuple(range(20)), extra_us: int = 400
) -> list[Path]:
    """Write the traces of ``count`` ranks of which one computes for ``extra_us`` more, for which the others wait."""
    return [
        write(
            folder / f"rank{rank}.json", rank=rank, world=count, steps=steps, step_us=1500,
            work={GEMM: 500 + (extra_us if rank == late else 0)}, wait_us=100 + (0 if rank == late else extra_us),
        )
        for rank in range(count)
    ]  # fmt: skip
