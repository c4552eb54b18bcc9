"""Gradients of four micro-batches for each update: the ranks speak in the fourth alone."""

from __future__ import annotations

from contextlib import nullcontext

from torch.nn.parallel import DistributedDataParallel

import eroica_otel.auto  # noqa: F401  the one line: it is imported for what it does
from bench.faults.workloads.layers import Perceptron, loss_of, sgd
from bench.faults.workloads.training import Training, run

MICRO_BATCHES = 4


def train(training: Training) -> None:
    """Train until the board ends it."""
    model = DistributedDataParallel(Perceptron(training.switches, training.said.repeats))
    optimizer = sgd(model)
    for number, batch in enumerate(training.batches(training.loader(), MICRO_BATCHES), 1):
        is_last = number % MICRO_BATCHES == 0
        with nullcontext() if is_last else model.no_sync():
            loss = loss_of(model(training.switches.at("micro", batch))) / MICRO_BATCHES
            training.backward(loss)
        if is_last:
            training.step(model, optimizer)
            training.average(loss)
            training.sometimes(model)


if __name__ == "__main__":
    run(train, batch=2)
