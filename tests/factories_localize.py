"""Builders of windows for the tests of localize: each rank is told what it does in milliseconds, its waiting follows.

A step lasts as long as the slowest rank's own work plus the transfer; every other rank waits longer in all_reduce.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eroica_otel.model import Collective, Identity, Pattern, WorkerWindow

ITERATIONS = 30
JOB = "llm-7b"


@dataclass(frozen=True)
class Work:
    """What one function does on one rank in one iteration.

    Attributes:
        ms: Wall milliseconds.
        on: Milliseconds of it on the CPU; None = the resource is not the CPU.
        use: Another resource with mu and sigma.
    """

    name: str
    ms: float
    on: float | None = 0.0
    kind: str = "python"
    family: str = "other"
    stack: tuple[str, ...] = ()
    noise_ms: float | None = None
    use: tuple[str, float, float] | None = None

    @property
    def id(self) -> str:
        """function_id of the function, one per stack."""
        text = f"{self.kind} {self.name} {' '.join(self.stack)}"
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def device(ms: float = 90.0, **changes: Any) -> Work:
    """Return the device operator: compute that sleeps."""
    return replace(Work("demo::device", ms, 0.0, "compute", "other"), **changes)


def matmul(ms: float = 60.0, on: float = 57.0, **changes: Any) -> Work:
    """Return an operator that keeps the CPU busy."""
    return replace(Work("aten::mm", ms, on, "compute", "gemm"), **changes)


def busy(ms: float = 60.0, on: float | None = None, **changes: Any) -> Work:
    """Return a Python function that computes."""
    return replace(
        Work("augment (train.py:41)", ms, ms if on is None else on, stack=("train:main:1", "train:augment:41")),
        **changes,
    )


def blocked_input(ms: float = 60.0, **changes: Any) -> Work:
    """Return a read inside the input call."""
    return replace(
        Work(
            "fetch_remote (train.py:52)", ms, 0.02 * ms, family="input", stack=("data:next:1", "train:fetch_remote:52")
        ),
        **changes,
    )


def ordinary() -> tuple[Work, ...]:
    """Return what every healthy rank does: 90 ms on the device, 3 ms of its loop, 0.5 ms of input."""
    return (device(), Work("train (train.py:12)", 3.0, 2.5), blocked_input(0.5, on=0.1))


@dataclass(frozen=True)
class Rank:
    """What one rank does beside ``base`` and what its node knows of it."""

    extra: tuple[Work, ...] = ()
    base: tuple[Work, ...] = field(default_factory=ordinary)
    changes: Mapping[str, Any] = field(default_factory=dict)
    peaks: Mapping[str, float] = field(default_factory=dict)
    host: str | None = None
    role: str = "all"
    link: tuple[str, float, float] | None = None
    """Resource, mu and sigma of its communication."""
    groups: tuple[Collective, ...] = ()


def rank(*extra: Work, **changes: Any) -> Rank:
    """Return a rank that does ``extra`` beside the ordinary; keywords of WorkerWindow, base, peaks, host, role,
    link and groups.
    """
    fields = ("base", "peaks", "host", "role", "link", "groups")
    own = {name: changes.pop(name) for name in fields if name in changes}
    return Rank(extra, changes=changes, **own)


def window_of(
    ranks: Sequence[Rank],
    *,
    transfer_ms: float = 20.0,
    window_id: int = 1764430000,
    reason: str = "degraded",
    iterations: int = ITERATIONS,
    wait_family: bool = False,
    longer_ms: float = 0.0,
) -> list[WorkerWindow]:
    """Return the windows of one synchronous job: whoever does less of its own waits for who does most."""
    works = [_together(one) for one in ranks]
    own = [sum(work.ms for work in each) for each in works]
    step = max(own) + transfer_ms + longer_ms
    return [
        _worker(at, one, works[at], step, len(ranks), window_id, reason, iterations, wait_family)
        for at, one in enumerate(ranks)
    ]


def _together(one: Rank) -> tuple[Work, ...]:
    """One entry per function: what a rank does twice adds up, as it does in a summary."""
    result: dict[str, Work] = {}
    for work in (*one.base, *one.extra):
        known = result.get(work.id)
        on = None if known is None or known.on is None or work.on is None else known.on + work.on
        result[work.id] = work if known is None else replace(known, ms=known.ms + work.ms, on=on)
    return tuple(work for work in result.values() if work.ms > 0)


def _worker(
    at: int,
    one: Rank,
    works: Sequence[Work],
    step: float,
    count: int,
    window_id: int,
    reason: str,
    iterations: int,
    wait_family: bool,
) -> WorkerWindow:
    waits = step - sum(work.ms for work in works)
    collective = Work("gloo:all_reduce", waits, None, "communication", "collective", noise_ms=2.0, use=one.link)
    if wait_family:
        collective = Work("_engine_run_backward", waits, 0.0, "python", "wait")
    patterns = [_pattern(work, step) for work in works]
    patterns.append(replace(_pattern(collective, step), peaks=one.peaks, collectives=one.groups))
    kinds = {
        kind: sum(p.beta for p in patterns if p.kind == kind)
        for kind in ("compute", "memory", "communication", "host", "python")
    }
    values: dict[str, Any] = {
        "identity": Identity(
            JOB, at, one.host if one.host is not None else f"node-{at}", role=one.role, world_size=count
        ),
        "window_id": window_id,
        "reason": reason,
        "seconds": step * iterations / 1000,
        "iterations": iterations,
        "patterns": tuple(sorted(patterns, key=lambda p: -p.beta)),
        "kinds": kinds | {"idle": 0.0},
        "cpu_seconds": sum(work.on or 0.0 for work in works) * iterations / 1000,
        "sampler_gap_seconds": 0.03,
        "throttled_ratio": 0.0,
        "run_delay_ratio": 0.02,
        "signature": "loop",
    }
    return WorkerWindow(**values | dict(one.changes))


def _pattern(work: Work, step: float) -> Pattern:
    measured = work.on is not None
    core = ("cpu", min((work.on or 0.0) / work.ms, 1.0), 0.1) if measured and work.ms > 0 else ("", None, None)
    resource, mu, sigma = work.use or core
    return Pattern(
        function_id=work.id,
        function=work.name,
        kind=work.kind,
        family=work.family,
        resource=resource,
        beta=work.ms / step,
        mu=mu,
        sigma=sigma,
        noise_seconds=None if work.noise_ms is None else work.noise_ms / 1000,
        stack=work.stack,
    )


def reference_of(count: int = 4, **changes: Any) -> list[WorkerWindow]:
    """Return the healthy window of ``count`` ordinary ranks, taken before the one that is judged."""
    values: dict[str, Any] = {"window_id": 1764420000, "reason": "reference"}
    return window_of([quiet() for _ in range(count)], **values | changes)


def quiet() -> Rank:
    """Return an ordinary rank whose functions carry their noise over sub-windows, as in a reference window."""
    return rank(base=tuple(replace(work, noise_ms=0.02 * work.ms) for work in ordinary()))


def one_bad(count: int, bad: int, *extra: Work) -> list[Rank]:
    """Return ``count`` ordinary ranks of which ``bad`` also does ``extra``."""
    return [rank(*extra) if at == bad else rank() for at in range(count)]


def noisy(seed: int, count: int, level: float = 1.0, **changes: Any) -> list[WorkerWindow]:
    """Return a clean window of a noisy machine.

    The noise is what was measured on shared cores: wall time of operators moves by 8 %, CPU seconds by 4 %, short
        Python functions by 15 %, a collective by tens of milliseconds; ``level`` scales everything, as a busy
        neighbour does.
    """
    random = np.random.default_rng(seed)
    ranks = [_noisy_rank(random, level) for _ in range(count)]
    values: dict[str, Any] = {"transfer_ms": float(random.uniform(15, 40)), "reason": "manual"}
    return window_of(ranks, **values | changes)


def _noisy_rank(random: np.random.Generator, level: float) -> Rank:
    def work(base: Work, share: float) -> Work:
        ms = max(base.ms * level * float(random.normal(1, share)), 0.01)
        on = (base.on or 0.0) * float(random.normal(1, 0.04)) + ms * float(random.uniform(0, 0.03))
        return replace(base, ms=ms, on=min(on, ms), noise_ms=0.5 * share * ms)

    functions = (
        work(device(80.0), 0.01),
        work(matmul(25.0, 15.0), 0.08),
        work(Work("aten::add", 8.0, 6.0, "compute", "elementwise"), 0.08),
        work(Work("train (train.py:12)", 4.0, 3.0), 0.15),
        work(Work("step (adamw.py:200)", 5.0, 3.0), 0.15),
        work(blocked_input(1.0, on=0.5), 0.25),
        work(Work("garbage collection", 0.5, 0.5, family="gc"), 0.25),
    )
    delay = float(random.uniform(0, 0.15))
    return rank(base=functions, run_delay_ratio=delay, sampler_gap_seconds=float(random.uniform(0.01, 0.3)))


def noisy_gpu(seed: int, count: int, *fault: Work, bad: int = 0, **changes: Any) -> list[WorkerWindow]:
    """Return a clean window of GPUs in pairs on nodes, whose hosts show this and that; ``bad`` does ``fault`` too."""
    random = np.random.default_rng(seed)
    ranks = [_noisy_gpu(random, at, fault if at == bad else ()) for at in range(count)]
    values: dict[str, Any] = {"transfer_ms": float(random.uniform(20, 22)), "reason": "manual"}
    return window_of(ranks, **values | changes)


def _noisy_gpu(random: np.random.Generator, at: int, fault: Sequence[Work]) -> Rank:
    def some(ms: float, share: float) -> float:
        return max(ms * float(random.normal(1, share)), 0.01)

    def use(resource: str, mu: float, spread: float) -> tuple[str, float, float]:
        return resource, float(random.normal(mu, spread)), float(random.uniform(0.05, 0.1))

    base = (
        Work("bf16_gemm", some(60, 0.01), None, "compute", "gemm", use=use("sm_clock", 0.92, 0.01)),
        Work("relu", some(8, 0.01), None, "compute", "elementwise", use=use("sm_clock", 0.92, 0.01)),
        Work("Memcpy HtoD", some(4, 0.1), None, "memory", "copy", use=use("pcie", 0.6, 0.05)),
        Work("cudaStreamSynchronize", some(2, 0.2), 1.0, "host", "sync"),
        Work("cudaMalloc", some(0.3, 0.2), 0.1, "host", "alloc"),
        Work("cudaLaunchKernel", some(3, 0.2), 2.0, "host", "launch"),
        Work("train (train.py:12)", some(4, 0.15), 3.0),
        blocked_input(some(1, 0.25), on=0.3),
        Work("save (serialization.py:900)", some(0.5, 0.3), 0.1, stack=IN_SAVE),
    )
    return rank(
        *fault, base=base, host=f"node-{at // 2}", host_use=_readings(random), link=use("nic", 0.6, 0.03),
        groups=(Collective(f"pair-{at // 2}", ITERATIONS, ITERATIONS << 20, 0.001 * some(20, 0.05)),),
    )  # fmt: skip


def _readings(random: np.random.Generator) -> dict[str, float]:
    """Return what hosts read, some of it out of the ordinary here and there."""
    return {
        "major_faults": float(random.exponential(3)), "numa_away": float(random.uniform(0, 0.3)),
        "process_disk_read": float(random.exponential(2e7)), "cgroup_cpu": float(random.uniform(0.2, 1.0)),
        "process_cpu": float(random.uniform(0.1, 1.0)), "gpu_power_cap": float(random.uniform(0, 1)),
        "gpu_slowdown": float(random.uniform(0, 0.05)), "link_down": 0.0,
    }  # fmt: skip


TRAIN = ("__main__:<module>:1", "train:main:12", "train:step:30")
IN_ALL_REDUCE = (
    *TRAIN,
    "torch.distributed.c10d_logger:wrapper:77",
    "torch.distributed.distributed_c10d:all_reduce:300",
)
IN_BACKWARD = (*TRAIN, "torch._tensor:Tensor.backward:500", "torch.autograd.graph:_engine_run_backward:820")
IN_AUGMENT = (*TRAIN, "train:augment:41")
IN_SAVE = ("__main__:<module>:1", "train:main:12", "train:save:60", "torch.serialization:save:900")


def stuck(
    rank: int, *stacks: tuple[str, ...], world: int = 4, shares: Sequence[float] = (), **changes: Any
) -> WorkerWindow:
    """Return the blocked window of one rank that was seen in ``stacks`` (all_reduce) for ``shares`` of the samples."""
    seen = stacks or (IN_ALL_REDUCE,)
    patterns = [
        Pattern(function_id=hashlib.blake2b(" ".join(stack).encode(), digest_size=6).hexdigest(),
                function=_shown(stack), kind="python", family="other", resource="", beta=share, stack=stack)
        for stack, share in zip(seen, shares or [1 / len(seen)] * len(seen), strict=True)
    ]  # fmt: skip
    values: dict[str, Any] = {
        "identity": Identity(JOB, rank, f"node-{rank}", role="all", world_size=world),
        "window_id": 1764430000, "reason": "blocked", "seconds": 10.0, "iterations": 0,
        "patterns": tuple(sorted(patterns, key=lambda p: -p.beta)), "silent_seconds": 34.0, "signature": "loop",
    }  # fmt: skip
    return WorkerWindow(**values | changes)


def _shown(stack: tuple[str, ...]) -> str:
    module, name, line = stack[-1].rsplit(":", 2)
    return f"{name} ({module.rpartition('.')[2]}.py:{line})"
