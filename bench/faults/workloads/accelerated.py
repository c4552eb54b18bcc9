"""A loop of one's own with Accelerate's prepared model, optimizer and loader."""

from __future__ import annotations

from accelerate import Accelerator

import eroica_otel.auto  # noqa: F401  the one line: it is imported for what it does
from bench.faults.workloads.layers import Transformer, loss_of, sgd
from bench.faults.workloads.training import Training, run


def train(training: Training) -> None:
    """Train until the board ends it."""
    accelerator = Accelerator(cpu=True)
    plain = Transformer(training.switches, training.said.repeats)
    model, optimizer, loader = accelerator.prepare(plain, sgd(plain), training.loader())
    for batch in training.batches(loader):
        loss = loss_of(model(batch))
        accelerator.backward(training.switches.at("loss", loss))
        training.step(model, optimizer)
        training.average(loss)
        training.sometimes(model)


if __name__ == "__main__":
    run(train)
