"""Windows of a job of any size as requests of remote write, in both layouts, by a seed; bench/backend.py sends them.

Values lie within 3 % of each function's centre; one worker in a thousand is slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eroica_otel import names
from eroica_otel.export import remotewire
from eroica_otel.export.points import window_points
from eroica_otel.export.remotewritevec import VecLayout
from eroica_otel.model import Identity, Pattern, Point, WorkerWindow
from eroica_otel.vectors import Vector

JOB = "bench"
SERIES_A_REQUEST = 20_000
VECTORS_A_REQUEST = 2_000
_SAMPLE = 18
"""Bytes of a sample in a request: tag, length, tag and float64, tag and a time of six bytes."""


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    workers: int
    functions: int
    layout: str
    server: str
    whole_loop: bool = False
    limit_seconds: int = 600


def slow_ranks(workers: int) -> set[int]:
    return set(range(7, workers, 1000))


def function_ids(functions: int) -> list[str]:
    return [f"{at:012x}" for at in range(functions)]


def template(rank: int, functions: int, window_id: int, workers: int) -> WorkerWindow:
    """Return the window of a worker that lies on every function's centre.

    A slow rank spends a fifth of it in a python function more, and waits that much less for the others.
    """
    kinds = ("compute", "communication", "python")
    share = 0.9 / functions
    betas = [share] * functions
    if rank in slow_ranks(workers):
        waiting = [at for at in range(functions) if kinds[at % 3] == "communication"]
        for at in waiting:
            betas[at] -= 0.2 / len(waiting)
        betas[2] += 0.2
    patterns = tuple(
        Pattern(name, f"kernel<{at}, float>(Tensor const&)", kinds[at % 3], "collective" if at % 3 == 1 else "other",
                "cpu" if at % 3 else "sm_clock", betas[at], 0.5, 0.1)
        for at, name in enumerate(function_ids(functions))
    )  # fmt: skip
    sums = {kind: sum(betas[at] for at in range(functions) if kinds[at % 3] == kind) for kind in kinds}
    return WorkerWindow(
        Identity(JOB, rank, f"node-{rank // 8}", "bench", "all", workers, rank % 8, "run"), window_id, "degraded", 20.0,
        100, patterns, kinds={**sums, "idle": max(0.0, 1 - sum(sums.values()))}, end_timestamp_seconds=window_id + 20.0,
        cpu_seconds=10.0, signature="bench",
    )  # fmt: skip


def noisy(window: WorkerWindow, chance: np.random.Generator) -> WorkerWindow:
    """Return the window with 3 % of noise on every number of its patterns."""
    factors = 1 + 0.03 * chance.uniform(-1, 1, (len(window.patterns), 3))
    patterns = tuple(
        replace(one, beta=one.beta * each[0], mu=0.5 * each[1], sigma=0.1 * each[2])
        for one, each in zip(window.patterns, factors.tolist(), strict=True)
    )
    return replace(window, patterns=patterns)


def points(window: WorkerWindow) -> list[Point]:
    """Return what a worker shows: its window, and what says that it lives."""
    who = window.identity
    info = dict.fromkeys(("gpu_uuid", "pci_bus_id", "nic", "k8s_pod"), "")
    info |= {"local_rank": str(who.local_rank), "run_id": who.run_id, "restart": "0", "signature": window.signature}
    return [
        *window_points(window),
        Point(names.WORLD_SIZE.name, who.labels(), float(who.world_size)),
        Point(names.WORKER_INFO.name, who.labels() | info, 1.0),
        Point(names.ITERATIONS.name, who.labels(), 600.0),
    ]


def in_labels(case: Case, window_id: int, millis: int) -> Iterator[bytes]:
    """Yield the requests of all workers in the layout of labels."""
    chance = np.random.default_rng(1)
    series: list[tuple[remotewire.Labels, int]] = []
    for rank in range(case.workers):
        for point in points(noisy(template(rank, case.functions, window_id, case.workers), chance)):
            series.append((remotewire.labels(point.name, point.labels.items()), remotewire.value_bits(point.value)))
        if len(series) >= SERIES_A_REQUEST or rank == case.workers - 1:
            yield remotewire.request(series, millis)
            series = []


def in_vectors(case: Case, window_id: int, millis: int) -> Iterator[bytes]:
    """Yield the requests of all workers in layout vec: dictionaries first, then two vectors a worker."""
    layout = VecLayout(())
    chance = np.random.default_rng(1)
    kinds = [layout.split(points(template(rank, case.functions, window_id, case.workers))) for rank in (0, 7)]
    for _, found, own in kinds:
        yield remotewire.request((), millis, layout.dictionary(found, own, 0.0))
    bad = slow_ranks(case.workers)
    for first in range(0, case.workers, VECTORS_A_REQUEST):
        body = [
            _vector(vector, rank, chance, millis, case.workers)
            for rank in range(first, min(first + VECTORS_A_REQUEST, case.workers))
            for vector in kinds[rank in bad][1]
        ]
        yield remotewire.compressed(b"".join(body))


def _vector(vector: Vector, rank: int, chance: np.random.Generator, millis: int, workers: int) -> bytes:
    """Return one series of a request; numbers of patterns have 3 % of noise and nine digits."""
    values = np.array(vector.values)
    noise = np.array([slot.name in {metric.name for metric in names.PATTERN_SERIES} for slot in vector.slots])
    values[noise] = np.round(values[noise] * (1 + 0.03 * chance.uniform(-1, 1, int(noise.sum()))), 10)
    who = template_labels(rank, workers) | {"part": vector.part, "dict": vector.dict}
    text = b"".join(
        remotewire._field(1, remotewire._field(1, key.encode()) + remotewire._field(2, value.encode()))
        for key, value in remotewire.labels(names.VECTOR.name, who.items())
    )
    return remotewire._field(1, text + _samples(values, millis))


def template_labels(rank: int, workers: int) -> dict[str, str]:
    return Identity(JOB, rank, f"node-{rank // 8}", "bench", "all", workers).labels()


def _samples(values: NDArray[np.float64], millis: int) -> bytes:
    """Return samples a millisecond apart as they stand in a request."""
    out = np.zeros((len(values), _SAMPLE), np.uint8)
    out[:, :3] = (0x12, _SAMPLE - 2, 0x09)
    out[:, 3:11] = values.view(np.uint8).reshape(-1, 8)
    out[:, 11] = 0x10
    times = millis + np.arange(len(values))
    for at in range(6):
        out[:, 12 + at] = times >> 7 * at & 127 | (128 if at < 5 else 0)
    return out.tobytes()
