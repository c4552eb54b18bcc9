"""More to do: larger batches, longer sequences, uneven experts, memory taken and given back, code compiled again,
values fetched one by one.
"""

from __future__ import annotations

import mmap
import pathlib
import random
import time
from typing import Any

import torch

from bench.faults.faults.inputs import shard_of
from bench.faults.faults.order import Order, Scene

ROW = 1024
"""Floats in a row of the table of embeddings: one page."""


def more_samples(batch: Any, order: Order, scene: Scene) -> Any:
    """Add ``value`` samples to the batch."""
    return _longer(batch, round(order.value))


def long_sequences(batch: Any, order: Order, scene: Scene) -> Any:
    """Draw the length: by chance up to ``value`` more rows, as sequences differ that nobody sorted."""
    dice = scene.kept.setdefault("dice", random.Random(scene.rank))
    return _longer(batch, round(dice.uniform(0, order.value)))


def more_work(activations: Any, order: Order, scene: Scene) -> Any:
    """Have more layers than the other stages: ``value`` seconds of CPU time in matrix products."""
    end, square = time.thread_time() + order.value, torch.ones(256, 256)
    while time.thread_time() < end:
        torch.tanh(square @ square)
    return activations


def _longer(batch: Any, count: int) -> Any:
    times = -(-count // batch.shape[0])
    return torch.cat([batch, *[batch] * times])[: batch.shape[0] + count]


def route(tokens: Any, order: Order, scene: Scene) -> Any:
    """Send ``value`` (0 to 1) of every expert's tokens to the expert ``expert``, as a router that has collapsed."""
    moved = (tokens * order.value).long()
    left = tokens - moved
    left[int(order.more["expert"])] += moved.sum()
    return left


def churn(hidden: Any, order: Order, scene: Scene) -> Any:
    """Take ``value`` MiB in pieces, touch and give them back: the C library asks the kernel each time, as an allocator
    at its limit asks the driver.
    """
    for _ in range(max(1, round(order.value / 32))):
        torch.empty(8 << 20).fill_(1.0)  # 32 MiB, above what malloc keeps
    return hidden


def look_up(hidden: Any, order: Order, scene: Scene) -> Any:
    """Look ``value`` rows of a table of embeddings up that lies in a file of 32 MiB: with too little memory its pages
    are read again and again, each when it is asked for.
    """
    if "table" not in scene.kept:
        path = shard_of(pathlib.Path(order.more["folder"]), scene.rank)
        with path.open("rb") as file:
            while file.read(1 << 20):  # into this process's share of memory
                pass
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        mapped.madvise(mmap.MADV_RANDOM)
        scene.kept["table"] = torch.frombuffer(mapped, dtype=torch.float32).view(-1, ROW)
    table = scene.kept["table"]
    torch.index_select(table, 0, torch.randint(table.shape[0], (round(order.value),)))
    return hidden


def recompile(hidden: Any, order: Order, scene: Scene) -> Any:
    """Call a compiled function with a shape that it has not seen, so that it is compiled again: ``value`` layers."""
    from torch import _dynamo  # an optimizer has imported it

    compiled = scene.kept.get("compiled")
    if compiled is None:
        _dynamo.config.recompile_limit = _dynamo.config.accumulated_recompile_limit = 1 << 20
        compiled = scene.kept["compiled"] = torch.compile(_layers, backend="eager", dynamic=False)
    size = scene.kept["size"] = scene.kept.get("size", 1) + 1
    compiled(torch.ones(size), round(order.value))
    if size % 8 == 0:
        _dynamo.reset()  # or the look at all that was compiled before takes longer and longer
    return hidden


def _layers(tensor: torch.Tensor, count: int) -> torch.Tensor:
    for _ in range(count):
        tensor = torch.tanh(tensor * 0.5 + 0.1)
    return tensor


def use_threads(batch: Any, order: Order, scene: Scene) -> Any:
    """Let operators use ``value`` threads, as where nobody set OMP_NUM_THREADS."""
    if "threads" not in scene.kept:
        scene.kept["threads"] = round(order.value)
        torch.set_num_threads(round(order.value))
    return batch


def log_metrics(model: Any, order: Order, scene: Scene) -> Any:
    """Reduce ``value`` metrics one by one and fetch each: on a GPU every ``item`` waits for the device, here (the CPU's
    analogue) every one waits for all ranks.
    """
    for _ in range(round(order.value)):
        metric = torch.ones(1)
        torch.distributed.all_reduce(metric)
        metric.item()
    return model
