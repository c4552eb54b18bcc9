"""A model whose parameters are sharded over all ranks (fully_shard)."""

from __future__ import annotations

from typing import Any

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import eroica_otel.auto  # noqa: F401  the one line: it is imported for what it does
from bench.faults.workloads.layers import Perceptron, loss_of, sgd
from bench.faults.workloads.training import Training, run


def train(training: Training) -> None:
    """Train until the board ends it."""
    model: Any = Perceptron(training.switches, training.said.repeats)
    mesh = init_device_mesh("cpu", (training.world,))
    for part in (model.first, model.last, model):
        fully_shard(part, mesh=mesh)
    optimizer = sgd(model)
    for batch in training.batches(training.loader()):
        training.update(model, optimizer, loss_of(model(batch)))


if __name__ == "__main__":
    run(train)
