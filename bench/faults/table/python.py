"""Rows: slow code of the training, on the CPU or waiting, and the garbage collector."""

from __future__ import annotations

from bench.faults.case import (
    ALL,
    FIRST,
    HALF,
    JOB,
    ONE_NODE,
    ONE_RANK,
    RANK_0,
    ROTATING,
    SILENCE,
    TWO_RANKS,
    WORKER,
    Case,
)
from bench.faults.faults import inject
from bench.faults.table.right import GIL, TWO

OVERHEAD = frozenset({"python_overhead"})
BLOCKED = frozenset({"python_blocked"})
GC = frozenset({"gc_pause"})
AUGMENT, BACKWARD = inject.switch("augment"), inject.switch("slow-backward")


def _python(name: str, workload: str, size: float, where: str = ONE_RANK, ranks: int = 2) -> Case:
    """A Python function of one rank that computes, in one of the workloads."""
    what = "one rank computes {size} an iteration in a Python function"
    return Case(
        name, "python", workload, what, AUGMENT, where, WORKER, OVERHEAD, size, "s", 2, ranks, function="augment"
    )


def _waits(name: str, workload: str, size: float) -> Case:
    """A Python function of one rank that waits in the backward, in one of the workloads."""
    what = "one rank waits {size} an iteration in a hook of the backward"
    return Case(
        name, "python", workload, what, BACKWARD, ONE_RANK, WORKER, BLOCKED, size, "s", function="slow_backward"
    )


SIZES: tuple[Case, ...] = (
    # 3 % of an iteration of 100 to 150 ms: below what may be called slow, so nobody may be named.
    Case(
        "python-3", "quiet", "ddp", "one rank computes {size} an iteration in Python, 3 %", AUGMENT, ONE_RANK,
        SILENCE, frozenset(), 0.0035, "s",
    ),
    Case(
        "backward-3", "quiet", "ddp", "one rank waits {size} an iteration in the backward, 3 %", BACKWARD, ONE_RANK,
        SILENCE, frozenset(), 0.0035, "s",
    ),
    _python("python-8", "ddp", 0.0115),
    _python("python-15", "ddp", 0.019),
    _python("python-300", "ddp", 0.4),
    _waits("backward-8", "ddp", 0.0115),
    _waits("backward-15", "ddp", 0.019),
    _waits("backward-300", "ddp", 0.4),
)  # fmt: skip
"""Of growing size; the drawn one lies within a fifth of the nominal one."""

WHERE: tuple[Case, ...] = (
    Case(
        "python-two", "python", "accelerated", "two ranks compute {size} an iteration in Python", AUGMENT, TWO_RANKS,
        WORKER, OVERHEAD, 0.06, "s", 3, 2, function="augment",
    ),
    Case(
        "python-node", "python", "ddp", "both ranks of one node compute {size} an iteration in Python", AUGMENT,
        ONE_NODE, WORKER, OVERHEAD, 0.06, "s", 3, 2, function="augment",
    ),
    Case(
        "backward-half", "python", "ddp", "half of the ranks wait {size} an iteration in the backward", BACKWARD, HALF,
        WORKER, BLOCKED, 0.06, "s", function="slow_backward",
    ),
    Case(
        "python-all", "python", "conv", "all ranks compute {size} an iteration in Python", AUGMENT, ALL, JOB, OVERHEAD,
        0.04, "s", 2, 1, function="augment",
    ),
    Case(
        "backward-all", "python", "fsdp", "all ranks wait {size} an iteration in the backward", BACKWARD, ALL, JOB,
        BLOCKED, 0.06, "s", function="slow_backward",
    ),
    # Over a window everybody loses the same, and the job loses it in every iteration.
    Case(
        "python-rotating", "python", "ddp", "in each iteration another rank computes {size} in Python",
        inject.switch("augment", rotating=True), ROTATING, JOB, OVERHEAD, 0.06, "s", function="augment",
    ),
    Case(
        "python-first", "python", "accelerated", "one rank computes {size} an iteration from the first on", AUGMENT,
        ONE_RANK, WORKER, OVERHEAD, 0.06, "s", onset=FIRST, function="augment",
    ),
    Case(
        "python-all-first", "quiet", "ddp", "all ranks compute {size} an iteration from the first on", AUGMENT, ALL,
        SILENCE, frozenset(), 0.04, "s", 2, 1, onset=FIRST,
    ),
    Case(
        "python-20-s-window", "python", "ddp", "one rank computes {size} an iteration in a Python function", AUGMENT,
        ONE_RANK, WORKER, OVERHEAD, 0.06, "s", window_seconds=20.0, function="augment",
    ),
    Case(
        "two-faults", "several", "ddp", "one rank computes {size} in Python, another's batches come as late",
        inject.both(inject.on(0, AUGMENT), inject.on(1, inject.store("samples"))), TWO_RANKS, WORKER, TWO, 0.07, "s",
        3, 2,
    ),
    Case(
        "two-faults-of-one", "several", "ddp", "one rank computes {size} in Python, and its batches come as late",
        inject.both(AUGMENT, inject.store("samples")), ONE_RANK, WORKER, TWO, 0.06, "s",
    ),
    Case(
        "two-faults-waiting", "several", "fsdp", "one rank waits {size} in the backward, another's batches are late",
        inject.both(inject.on(0, BACKWARD), inject.on(1, inject.store("samples"))), TWO_RANKS, WORKER,
        TWO | BLOCKED, 0.07, "s", 3, 2,
    ),
)  # fmt: skip
"""Of other ranks than one."""

CODE: tuple[Case, ...] = (
    Case(
        "forward", "python", "fsdp", "one rank waits {size} in the forward for a service",
        inject.switch("slow-forward"), ONE_RANK, WORKER, BLOCKED, 0.07, "s", function="slow_forward",
    ),
    Case(
        "clip-gradients", "python", "accelerated", "one rank looks at its gradients in Python, {size} an iteration",
        inject.switch("clip-gradients"), ONE_RANK, WORKER, OVERHEAD, 0.06, "s", function="clip_gradients",
    ),
    Case(
        "read-status", "python", "lightning_", "one rank calls a program in the loop and waits {size} for it",
        inject.switch("read-status"), ONE_RANK, WORKER, BLOCKED, 0.06, "s",
    ),
    Case(
        "write-log", "python", "experts", "rank 0 writes a log that takes its lines slowly, {size} an iteration",
        inject.switch("write-log"), RANK_0, WORKER, BLOCKED, 0.06, "s",
    ),
    Case(
        "print-progress", "python", "hf", "one rank prints under a lock that its progress bar holds {size} at a time",
        inject.switch("print-progress"), ONE_RANK, WORKER, BLOCKED, 0.12, "s", function="print_progress",
    ),
    Case(
        "short-waits", "python", "accumulate", "one rank waits {size} an iteration in many short pieces",
        inject.switch("short-waits"), ONE_RANK, WORKER, BLOCKED, 0.06, "s", function="short_waits",
    ),
    Case(
        "asynchronous-save", "python", "ddp", "a thread of rank 0 pickles in Python and wants the interpreter, too",
        inject.switch("prepare-upload"), RANK_0, WORKER, GIL, nodes=2, ranks=1, source="pytorch/pytorch#147039",
    ),
    Case(
        "gc-one", "gc", "ddp", "one rank collects a large heap in every iteration, {size} each",
        inject.switch("collect-garbage"), ONE_RANK, WORKER, GC, 0.06, "s",
    ),
    Case(
        "gc-unsynchronised", "gc", "ddp", "each rank collects a heap ({size}) every 8th iteration, each in another",
        inject.switch("collect-garbage", every=8, stagger=2), ALL, JOB, GC, 0.25, "s",
        source="pytorch/torchtitan#148",
    ),
    Case(
        "gc-everywhere", "gc", "fsdp", "all ranks collect a large heap in every iteration, {size} each",
        inject.switch("collect-garbage"), ALL, JOB, GC, 0.04, "s", 2, 1,
    ),
    Case(
        "gc-rare", "gc", "experts", "one rank collects a very large heap every 20th iteration, {size} each",
        inject.switch("collect-garbage", every=20), ONE_RANK, WORKER, GC, 0.5, "s",
        source="marin-community/marin#9224",
    ),
)  # fmt: skip
"""Of other code."""

CASES: tuple[Case, ...] = (
    _python("python", "ddp", 0.06),
    _python("python-fsdp", "fsdp", 0.06),
    _python("python-accumulate", "accumulate", 0.1),
    _python("python-experts", "experts", 0.06),
    _python("python-conv", "conv", 0.06),
    _python("python-hf", "hf", 0.06),
    _python("python-accelerated", "accelerated", 0.06),
    _python("python-lightning", "lightning_", 0.06),
    _python("python-8-ranks", "ddp", 0.06, ranks=4),
    _waits("backward", "ddp", 0.07),
    Case(
        "backward-200", "python", "ddp", "one rank waits {size} an iteration in a hook of the backward", BACKWARD,
        ONE_RANK, WORKER, BLOCKED, 0.2, "s", 2, 1, function="slow_backward", source="traceopt-ai/traceml#252",
    ),
    _waits("backward-fsdp", "fsdp", 0.07),
    _waits("backward-accumulate", "accumulate", 0.05),
    _waits("backward-lightning", "lightning_", 0.07),
    *SIZES,
    *WHERE,
    *CODE,
)  # fmt: skip
