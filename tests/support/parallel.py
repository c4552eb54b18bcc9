"""Loops of several ranks with torch alone; the process group exists already."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from support.measure import Job
from support.single import BATCH, data, endless, loader, loss_of, sgd, train
from support.updates import train_in_backward


def ddp(job: Job) -> None:
    model = DistributedDataParallel(nn.Linear(8, 8))
    train(job, endless(loader()), model, sgd(model))


def no_sync(job: Job) -> None:
    """Gradient accumulation, where only the fourth backward pass reduces."""
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimizer = sgd(model)
    batches = endless(loader(200))
    while not job.done:
        for micro_batch in range(4):
            batch = next(batches)
            job.work(0.005)
            if micro_batch < 3:
                with model.no_sync():
                    loss_of(model, batch).backward()
            else:
                loss_of(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        job.update()


def join(job: Job) -> None:
    """The first rank has 20 inputs more than the others."""
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimizer = sgd(model)
    more = 0 if job.rank else 20
    with Join([model]):
        for batch in endless(loader()):
            job.work()
            loss_of(model, batch).backward()
            optimizer.step()
            job.update()
            more -= job.done
            if job.done and more <= 0:
                return


def fsdp1(job: Job) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FullyShardedDataParallel(nn.Linear(8, 8), device_id=torch.device("cpu"))
    train(job, endless(loader()), model, sgd(model))


def fsdp2(job: Job) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model: Any = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    fully_shard(model, mesh=init_device_mesh("cpu", (job.world,)))
    train(job, endless(loader()), model, sgd(model))


def fsdp2_in_backward(job: Job) -> None:
    """One optimizer a parameter, each runs as soon as its gradient is reduced."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model: Any = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    fully_shard(model, mesh=init_device_mesh("cpu", (job.world,)))
    train_in_backward(job, model)


def zero(job: Job) -> None:
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=1e-3)
    train(job, endless(loader()), model, optimizer)


def post_local_sgd(job: Job) -> None:
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    model = DistributedDataParallel(nn.Linear(8, 8))
    averager = PeriodicModelAverager(period=4, warmup_steps=0)
    train(job, endless(loader()), model, PostLocalSGDOptimizer(sgd(model), averager))


class Stage(nn.Module):
    """One half of a model, with the known work in its forward pass."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.layer, self.job = nn.Linear(8, 8), job

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.job.work(0.01)
        output: torch.Tensor = self.layer(batch)
        return output


def pipeline(job: Job, schedule: str = "ScheduleGPipe", all_read: bool = False) -> None:
    """Two stages; only the first has a loader."""
    from torch.distributed import pipelining

    part = Stage(job)
    stage = pipelining.PipelineStage(part, job.rank, job.world, torch.device("cpu"))
    runs: Any = getattr(pipelining, schedule)(stage, 2, loss_fn=nn.functional.mse_loss)
    optimizer = sgd(part)
    batches, target = endless(loader()), torch.randn(BATCH, 8)
    while not job.done:
        first = job.rank == 0
        batch = next(batches) if first or all_read else None
        runs.step(*([batch] if first else []), **({} if first else {"target": target}))
        optimizer.step()
        optimizer.zero_grad()
        job.update()


def pipeline_1f1b(job: Job) -> None:
    pipeline(job, "Schedule1F1B", all_read=True)


def sampler(job: Job) -> None:
    """Each rank reads its own part."""
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler

    model = DistributedDataParallel(nn.Linear(8, 8))
    everything = data(100)
    parts: DistributedSampler[Any] = DistributedSampler(everything, dist.get_world_size(), dist.get_rank())
    train(job, endless(DataLoader(everything, batch_size=BATCH, sampler=parts)), model, sgd(model))


LOOPS: MappingProxyType[str, Callable[[Job], None]] = MappingProxyType(
    {
        loop.__name__: loop
        for loop in (
            *(ddp, no_sync, join, fsdp1, fsdp2, fsdp2_in_backward, zero, post_local_sgd),
            *(pipeline, pipeline_1f1b, sampler),
        )
    }
)
