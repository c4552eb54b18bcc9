"""A net of convolutions under DistributedDataParallel, its pictures from a DataLoader with processes of its own."""

from __future__ import annotations

from torch.nn.parallel import DistributedDataParallel

import eroica_otel.auto  # noqa: F401  the one line: it is imported for what it does
from bench.faults.workloads.layers import Pictures, loss_of, sgd
from bench.faults.workloads.training import Training, run


def train(training: Training) -> None:
    """Train until the board ends it."""
    model = DistributedDataParallel(Pictures(training.switches, training.said.repeats))
    optimizer = sgd(model)
    for batch in training.batches(training.loader()):
        training.update(model, optimizer, loss_of(model(batch)))


if __name__ == "__main__":
    run(train, loader_workers=2)
