"""Synchronous trainings as programs: data, tensor, pipeline and expert parallelism, and who is whose peer.

Rank = (stage x data + replica) x tensor + part. Times are those of one iteration of about a second unless told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.simulate.operations import Floats, Function, Ints, Join, Meet, Operation, Pass, Program, Spread, Work

INPUT = Function("next (loader.py:40)", "python", "input", "cpu", 0.3)
PYTHON = Function("train (train.py:12)", "python", "other", "cpu", 0.9)
LAUNCH = Function("cudaLaunchKernel", "host", "launch", "cpu", 0.95)
GEMM = Function("gemm", "compute", "gemm", "sm_clock", 0.95)
ATTENTION = Function("flash_attention", "compute", "attention", "sm_clock", 0.95)
ELEMENTWISE = Function("elementwise", "compute", "elementwise", "sm_clock", 0.95)
EXPERT = Function("grouped_gemm", "compute", "gemm", "sm_clock", 0.95)
OPTIMIZER = Function("multi_tensor_apply", "compute", "optimizer", "sm_clock", 0.95)
ALL_REDUCE = Function("AllReduce", "communication", "collective", "nic", 0.6)
TENSOR_REDUCE = Function("AllReduce (tensor)", "communication", "collective", "nvlink", 0.6)
ALL_TO_ALL = Function("AllToAll", "communication", "all_to_all", "nic", 0.6)
REDUCE = Function("Reduce", "communication", "collective", "nic", 0.6)
BROADCAST = Function("Broadcast", "communication", "collective", "nic", 0.6)
SEND_RECV = Function("SendRecv", "communication", "point_to_point", "nic", 0.4)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a job is cut; expert groups lie inside the data parallel ranks of a stage.

    Attributes:
        micro: Micro batches of the pipeline.
        node: Ranks of a host.
        central: Whether gradients go to the first rank of each data parallel group and come back from there.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    micro: int = 8
    layers: int = 4
    node: int = 8
    central: bool = False

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.data * self.tensor * self.pipeline

    @property
    def grid(self) -> Ints:
        """Ranks as [pipeline, data, tensor]."""
        return np.arange(self.size).reshape(self.pipeline, self.data, self.tensor)

    def roles(self) -> list[str]:
        """Return the role of each rank, as the plugin would call it."""
        stage, replica, _ = np.unravel_index(np.arange(self.size), self.grid.shape)
        parts = [
            ([f"pp{s}"] if self.pipeline > 1 else []) + ([f"ep{r % self.expert}"] if self.expert > 1 else [])
            for s, r in zip(stage, replica, strict=True)
        ]
        return ["-".join(part) or "all" for part in parts]

    def hosts(self) -> list[str]:
        """Return the host of each rank."""
        return [f"node-{rank // self.node:03d}" for rank in range(self.size)]

    def data_groups(self) -> Ints:
        """Return the groups that average gradients, [groups, data]."""
        return np.moveaxis(self.grid, 1, 2).reshape(-1, self.data)

    def tensor_groups(self) -> Ints:
        """Return the groups that share each layer, [groups, tensor]."""
        return self.grid.reshape(-1, self.tensor)

    def expert_groups(self) -> Ints:
        """Return the groups that exchange tokens, [groups, expert]."""
        return self.data_groups().reshape(-1, self.expert)


def program(shape: Shape, step: float = 1.0, cut: Floats | None = None) -> Program:
    """Return one iteration of about ``step`` seconds.

    Args:
        cut: Work of each stage of the pipeline relative to the others, [pipeline]; even without.
    """
    middle = _pipelined(shape, step, cut) if shape.pipeline > 1 else _layers(shape, step)
    return (*_start(shape, step), *middle, *_end(shape, step))


def _all(shape: Shape, seconds: float) -> Floats:
    return np.full(shape.size, seconds)


def _start(shape: Shape, step: float) -> Iterator[Operation]:
    yield Work(INPUT, _all(shape, 0.01 * step))
    yield Work(PYTHON, _all(shape, 0.02 * step))
    yield Work(LAUNCH, _all(shape, 0.03 * step))


def _end(shape: Shape, step: float) -> Iterator[Operation]:
    groups, transfer = shape.data_groups(), _all(shape, 0.05 * step)
    if shape.central:
        yield Spread(REDUCE, groups, transfer, gather=True)
        yield Spread(BROADCAST, groups, transfer)
    elif shape.data > 1:
        yield Join(ALL_REDUCE)
        yield Meet(ALL_REDUCE, groups, transfer)
    yield Work(OPTIMIZER, _all(shape, 0.04 * step))


def _layers(shape: Shape, step: float) -> Iterator[Operation]:
    for backward in (False, True):
        part = step / shape.layers * (2 / 3 if backward else 1 / 3)
        for _ in range(shape.layers):
            yield Work(ATTENTION, _all(shape, 0.20 * part))
            yield from _experts(shape, part) if shape.expert > 1 else (Work(GEMM, _all(shape, 0.40 * part)),)
            yield Work(ELEMENTWISE, _all(shape, 0.15 * part))
            if shape.tensor > 1:
                yield Meet(TENSOR_REDUCE, shape.tensor_groups(), _all(shape, 0.08 * part))
            if backward and shape.data > 1 and not shape.central:
                yield Meet(ALL_REDUCE, shape.data_groups(), _all(shape, 0.10 * part), overlapped=True)


def _experts(shape: Shape, part: float) -> Iterator[Operation]:
    yield Work(GEMM, _all(shape, 0.15 * part))
    yield Meet(ALL_TO_ALL, shape.expert_groups(), _all(shape, 0.05 * part))
    yield Work(EXPERT, _all(shape, 0.25 * part))
    yield Meet(ALL_TO_ALL, shape.expert_groups(), _all(shape, 0.05 * part))


def _pipelined(shape: Shape, step: float, cut: Floats | None) -> Iterator[Operation]:
    """GPipe: all micro batches forward, then all backward; a stage works on one while the next has the one before."""
    weight = np.ones(shape.pipeline) if cut is None else cut
    stages = np.arange(shape.pipeline)
    for backward in (False, True):
        part = 0.8 * step / (shape.micro + shape.pipeline - 1) * (2 / 3 if backward else 1 / 3)
        order = stages[::-1] if backward else stages
        for wave in range(shape.micro + shape.pipeline - 1):
            number = wave - np.argsort(order)  # of the micro batch, by stage
            busy = (number >= 0) & (number < shape.micro)
            yield from _stage_work(shape, np.where(busy, weight, 0.0), part)
            ahead = -1 if backward else 1
            sends = [s for s in stages if busy[s] and 0 <= s + ahead < shape.pipeline]
            if sends:
                sender, receiver = (shape.grid[[s + by for s in sends]].reshape(-1) for by in (0, ahead))
                yield Pass(SEND_RECV, sender, receiver, _all(shape, 0.002 * part))


def _stage_work(shape: Shape, weight: Floats, part: float) -> Iterator[Operation]:
    share = np.repeat(weight, shape.data * shape.tensor)
    yield Work(ATTENTION, 0.25 * part * share)
    yield Work(GEMM, 0.55 * part * share)
    yield Work(ELEMENTWISE, 0.20 * part * share)
    if shape.tensor > 1:
        groups = shape.tensor_groups()[np.repeat(weight > 0, shape.data)]
        yield Meet(TENSOR_REDUCE, groups, _all(shape, 0.05 * part))
