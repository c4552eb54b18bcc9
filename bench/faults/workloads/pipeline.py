"""A pipeline of one stage for each node, as often as a node has ranks: 2 x 2 on two nodes with two ranks each."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining

import eroica_otel.auto  # noqa: F401  the one line: it is imported for what it does
from bench.faults.faults.switches import Switches
from bench.faults.workloads.layers import Middle, sgd
from bench.faults.workloads.remote import WIDTH
from bench.faults.workloads.training import Training, run

MICRO_BATCHES = 2


class Stage(nn.Module):
    """Reads and returns [micro-batch, WIDTH]."""

    def __init__(self, switches: Switches, repeats: int) -> None:
        super().__init__()
        self.switches = switches
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.middle = Middle(switches, repeats, 0.7)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        hidden = self.switches.at("micro", self.switches.at("stage", batch))
        output: torch.Tensor = self.last(torch.relu(self.middle(self.first(hidden))))
        return output


def groups(world: int, local: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    """Return this rank's pipeline and the group of its stage; every rank makes all of them."""
    rank, mine = dist.get_rank(), []
    pipelines = [list(range(first, world, local)) for first in range(local)]
    stages = [list(range(first, first + local)) for first in range(0, world, local)]
    for members in (*pipelines, *stages):
        group = dist.new_group(members)
        if rank in members:
            mine.append(group)
    return mine[0], mine[1]


def train(training: Training) -> None:
    """Train until the board ends it."""
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    count, number = training.world // local, training.rank // local
    pipeline, stage_group = groups(training.world, local)
    part = Stage(training.switches, training.said.repeats)
    stage = pipelining.PipelineStage(part, number, count, torch.device("cpu"), group=pipeline)
    schedule: Any = pipelining.ScheduleGPipe(stage, MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
    optimizer, target = sgd(part), torch.zeros(training.said.batch, WIDTH)
    for batch in training.batches(training.loader()):  # all stages read, as with labels for the last
        first, last = number == 0, number == count - 1
        schedule.step(*([batch] if first else []), **({"target": target} if last else {}))
        for parameter in part.parameters():
            dist.all_reduce(parameter.grad, group=stage_group)
        training.step(part, optimizer)
        training.sometimes(part)


if __name__ == "__main__":
    run(train)
