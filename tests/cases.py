"""Random windows for the oracle: every oddity that real ones have, at a size that can be counted by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from eroica_otel.model import Capture, Events
from eroica_otel.traces import PythonCalls, Steps, Trace
from factories_summarize import AUGMENT, BACKWARD, FETCH, HOOK, MAIN, NEXT, Row, capture, events
from naive import Call

LATEST = 52
"""Nothing happens after this nanosecond; windows end before it, so that some of it lies outside."""
GC = "garbage collection"
OURS = ("eroica_otel.plugin", "Handle._start", "/eroica_otel/plugin.py", 90)
FRAMES = (MAIN, AUGMENT, BACKWARD, NEXT, FETCH, OURS, HOOK)
STACKS = (
    (0,),
    (0, 1),
    (0, 1, 1),  # recursion
    (0, 1, 1, 1),
    (0, 2),  # waits
    (1, 2),  # waits, by another way
    (0, 3, 4),  # below the input
    (0, 6, 3, 4),  # the same, with our own hook around it
    (0, 5),  # our own frame is nobody's work: the one around it counts
    (5,),  # nothing of the training's at all
)
KIND_OF = {
    "aten::mm": "compute",
    "aten::add": "compute",
    "job::sleep": "compute",
    "autograd::engine::evaluate_function: MmBackward0": "",
    "MmBackward0": "",
    "c10d::allreduce_": "",
    "Optimizer.step#AdamW.step": "",
    "gloo:all_reduce": "communication",
    "gloo:broadcast": "communication",
    "sgemm_128x64": "compute",
    "void at::native::add_kernel<float>(int)": "compute",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL": "communication",
    "Memcpy HtoD (Pageable -> Device)": "memory",
    "Memset (Device)": "memory",
    "cudaLaunchKernel": "host",
    "cudaStreamSynchronize": "host",
}
CPU = [(name, "cpu_op") for name in list(KIND_OF)[:6]] + [("Optimizer.step#AdamW.step", "user_annotation")]
GLOO = [("gloo:all_reduce", "user_annotation"), ("gloo:broadcast", "user_annotation")]
GPU = [
    ("sgemm_128x64", "kernel"),
    ("void at::native::add_kernel<float>(int)", "kernel"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel"),
    ("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy"),
    ("Memset (Device)", "gpu_memset"),
    ("cudaLaunchKernel", "cuda_runtime"),
    ("cudaStreamSynchronize", "cuda_driver"),
]


class Case(NamedTuple):
    """One window: its rows, what the code gets of it, and process group and bytes of each collective by its place."""

    rows: list[Row]
    capture: Capture
    collectives: dict[int, tuple[str, int | None]]
    calls: tuple[Call, ...] = ()

    @property
    def window(self) -> tuple[int, int]:
        return self.capture.start_ns, self.capture.end_ns

    def trace(self) -> Trace:
        return trace_of(events(self.rows, self.collectives), self.calls)

    def samples(self) -> list[tuple[int, int]]:
        return list(zip(self.capture.stack_ns.tolist(), self.capture.stack_ids.tolist(), strict=True))


def trace_of(found: Events, calls: Sequence[Call] = ()) -> Trace:
    """Return events, and stacks in the trace, as what a reader gives."""
    none = np.zeros(0, np.int64)
    return Trace(
        path="", format="kineto", events=found, rank=0, world_size=4, host="", backend="gloo", devices=(), groups={},
        steps=Steps(none, none, none), python=_python(calls), gpu=False, training_thread=None,
    )  # fmt: skip


def _python(calls: Sequence[Call]) -> PythonCalls | None:
    if not calls:
        return None
    table = np.array([(call.start, call.end, call.thread, call.stack) for call in calls], np.int64).T
    start, end, thread, stack = table
    return PythonCalls(start, end, thread, stack.astype(np.int32), STACKS, FRAMES)


def stack_of(stack: int) -> tuple[str, bool] | None:
    """Return identity of a stack and whether it waits, by the words of docs/how-it-works.md."""
    frames = [FRAMES[place] for place in STACKS[stack] if not FRAMES[place][0].startswith("eroica_otel")]
    if not frames:
        return None
    return " > ".join(f"{module}:{name}:{line}" for module, name, _, line in frames), frames[-1] == BACKWARD


def span(rng: random.Random) -> tuple[int, int]:
    """Return a start and an end, often the same."""
    start = rng.randrange(0, LATEST - 2)
    return start, start + rng.choice((0, 1, 2, 5, 9, 18))


def nested(rng: random.Random, start: int, end: int, depth: int, thread: int) -> list[Row]:
    """Return a call tree, as a CPU thread makes it; a function may call itself."""
    name, category = rng.choice(CPU)
    rows = [Row(name, start, end, category, thread)]
    place = start
    while depth and place < end and rng.random() < 0.8:
        low = rng.randint(place, end)
        high = rng.randint(low, end)
        rows += nested(rng, low, high, depth - 1, thread)
        place = high
    return rows


def random_rows(rng: random.Random) -> list[Row]:
    """Return events by start: trees or crossing ranges on two threads, collectives, sometimes two streams of a GPU."""
    rows: list[Row] = []
    style = rng.random()
    if style < 0.5:
        for thread in (1, 2):
            bounds = [sorted(rng.sample(range(LATEST), 2)) for _ in range(rng.randrange(3))]
            rows += [row for start, end in bounds for row in nested(rng, start, end, 3, thread)]
    elif style < 0.9:
        rows += [Row(n, *span(rng), c, rng.choice((1, 2))) for n, c in rng.choices(CPU, k=rng.randrange(8))]
    rows += [Row(n, *span(rng), c, rng.choice((8, 9))) for n, c in rng.choices(GLOO, k=rng.randrange(3))]
    if rng.random() < 0.4:
        rows += [Row(n, *span(rng), c, rng.choice((20, 21))) for n, c in rng.choices(GPU, k=rng.randrange(1, 8))]
    return sorted(rows, key=lambda row: row.start)


def random_calls(rng: random.Random) -> tuple[Call, ...]:
    """Return stacks of two threads by start: they nest, call themselves again, or cross, as broken traces show."""
    found = [Call(rng.randrange(len(STACKS)), *span(rng), rng.choice((1, 1, 2))) for _ in range(rng.randrange(1, 7))]
    return tuple(sorted(found, key=lambda call: call.start))


def counter(rng: random.Random, times: Sequence[int]) -> list[int]:
    """Return a counter at ``times``: it rests, rises, bursts, and now and then steps back."""
    values, now = [], rng.randrange(100)
    for before, after in zip([0, *times], times, strict=False):
        now += rng.choice((0, 0, (after - before) // 2, after - before, -1))
        values.append(now)
    return values


def random_case(rng: random.Random) -> Case:
    """Return a window; each of its parts may be missing."""
    start, end = rng.choice(((5, 45), (0, 48), (10, 34)))
    most = rng.choice((0, 1, 3, 8, 20))
    times = sorted(rng.sample(range(LATEST), rng.randint(0, most)))
    link = sorted(rng.sample(range(LATEST), rng.choice((0, 1, 2, 6))))
    iterations = rng.choice((0, 1, 8, 16))
    borders = sorted({start, end, *rng.sample(range(start + 1, end), max(iterations - 1, 0))}) if iterations else []
    more: dict[str, Any] = {"nic_peak_bytes": rng.choice((None, 1e9, 1e9))}
    given = capture(
        start=start,
        end=end,
        iterations=borders,
        frames=FRAMES,
        stacks=STACKS,
        samples=[(time, rng.randrange(len(STACKS))) for time in times],
        cpu=counter(rng, times),
        gc=[span(rng) for _ in range(rng.choice((0, 0, 0, 1, 2)))],
        nic=list(zip(link, counter(rng, link), counter(rng, link), strict=True)),
        reason=rng.choice(("reference", "degraded")),
        **more,
    )
    rows = random_rows(rng)
    moved = [place for place, row in enumerate(rows) if KIND_OF[row.name] == "communication"]
    collectives = {place: (rng.choice("0011"), rng.choice((None, 8, 64, 64, 64))) for place in moved}
    # Beside samples they do not count; that is tried too.
    calls = random_calls(rng) if rng.random() < (0.2 if times else 0.7) else ()
    return Case(rows, given, collectives, calls)
