"""A layer of experts, one for each rank: tokens go to their expert and come back (all-to-all)."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import eroica_otel.auto  # noqa: F401  the one line: it is imported for what it does
from bench.faults.faults.switches import Switches
from bench.faults.workloads.layers import Middle, loss_of, sgd
from bench.faults.workloads.remote import WIDTH
from bench.faults.workloads.training import Training, run
from eroica_otel.demo.device import device


class Exchange(torch.autograd.Function):
    """Sends rows to their experts, and the gradients back."""

    @staticmethod
    def forward(
        context: torch.autograd.function.FunctionCtx, rows: torch.Tensor, sent: list[int], received: list[int]
    ) -> torch.Tensor:
        context.splits = sent, received  # type: ignore[attr-defined]
        return exchanged(rows, sent, received)

    @staticmethod
    def backward(
        context: torch.autograd.function.FunctionCtx, gradient: torch.Tensor
    ) -> tuple[torch.Tensor, None, None]:
        sent, received = context.splits  # type: ignore[attr-defined]
        return exchanged(gradient.contiguous(), received, sent), None, None


def exchanged(rows: torch.Tensor, sent: list[int], received: list[int]) -> torch.Tensor:
    """Return the rows [sum of received, ...] that the other ranks have for this one."""
    arrived = rows.new_empty(sum(received), *rows.shape[1:])
    dist.all_to_all_single(arrived, rows, received, sent)
    return arrived


class Experts(nn.Module):
    """Reads [batch, WIDTH]; two tokens of each sample for each expert, unless the switches say otherwise."""

    def __init__(self, switches: Switches, repeats: int, world: int) -> None:
        super().__init__()
        self.switches, self.world = switches, world
        self.first, self.expert, self.last = nn.Linear(WIDTH, 64), nn.Linear(64, 64), nn.Linear(64, WIDTH)
        self.middle = Middle(switches, repeats, 0.6)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        hidden = self.middle(self.first(batch))
        tokens = hidden.repeat(self.world, 1)
        sent = self.switches.at("experts", torch.full((self.world,), len(batch)))
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        theirs = Exchange.apply(tokens, sent.tolist(), received.tolist())  # type: ignore[no-untyped-call]
        done = Exchange.apply(  # type: ignore[no-untyped-call]
            device(torch.relu(self.expert(theirs)), 0.4 / self.world), received.tolist(), sent.tolist()
        )
        output: torch.Tensor = self.last(done.view(self.world, len(batch), -1).mean(0))
        return output


def train(training: Training) -> None:
    """Train until the board ends it."""
    inner = Experts(training.switches, training.said.repeats, training.world)
    own = [f"expert.{name}" for name, _ in inner.expert.named_parameters()]  # each rank's, so it must not be averaged
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(inner, own)  # type: ignore[no-untyped-call]
    model = DistributedDataParallel(inner)
    optimizer = sgd(model)
    for batch in training.batches(training.loader()):
        training.update(model, optimizer, loss_of(model(batch)))


if __name__ == "__main__":
    run(train)
