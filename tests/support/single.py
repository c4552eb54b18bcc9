"""Loops of one process with torch alone; each trains until its Job is done."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import eroica_otel
from support.measure import Job

BATCH = 4
EPOCH = 50
"""Batches of an epoch, so that every loop sees some ends of an epoch."""


def data(batches: int = EPOCH) -> Dataset[Any]:
    return TensorDataset(torch.randn(batches * BATCH, 8))


def loader(batches: int = EPOCH, **options: Any) -> DataLoader[Any]:
    return DataLoader(data(batches), batch_size=BATCH, **options)


def endless(source: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the batches of one epoch after the other."""
    while True:
        for item in source:
            yield item[0] if isinstance(item, (list, tuple)) else item


def sgd(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1e-3, **options)


def loss_of(model: nn.Module, batch: torch.Tensor) -> Any:  # torch's backward() has no types
    return model(batch).square().mean()


def train(job: Job, batches: Iterator[torch.Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """The plain loop: input, forward, backward, update."""
    for batch in batches:
        job.work()
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
        job.update()
        if job.done:
            return


def plain(job: Job) -> None:
    model = nn.Linear(8, 8)
    train(job, endless(loader()), model, sgd(model))


def foreach(job: Job) -> None:
    model = nn.Linear(8, 8)
    train(job, endless(loader()), model, sgd(model, foreach=True))


def fused(job: Job) -> None:
    model = nn.Linear(8, 8)
    train(job, endless(loader()), model, sgd(model, fused=True))


def device(job: Job) -> None:
    """The work is an operator, forward and backward."""
    from eroica_otel.demo.device import device as operator

    model = nn.Linear(8, 8)
    optimizer = sgd(model)
    for batch in endless(loader()):
        optimizer.zero_grad()
        hidden = model(batch)
        begin = time.perf_counter()
        work: Any = operator(hidden, 1.0).sum()
        work.backward()  # nothing else of weight
        job.credit(time.perf_counter() - begin)
        optimizer.step()
        job.update()
        if job.done:
            return


def hot_loop(job: Job) -> None:
    """Pure Python in calls of 0.4 ms."""
    model = nn.Linear(8, 8)
    optimizer = sgd(model)
    for batch in endless(loader()):
        job.burn(40, 8000)
        loss_of(model, batch).backward()
        optimizer.step()
        job.update()
        if job.done:
            return


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(EPOCH * BATCH):
            yield torch.randn(8)


def iterable(job: Job) -> None:
    model = nn.Linear(8, 8)
    train(job, endless(DataLoader(Stream(), batch_size=BATCH)), model, sgd(model))


def batches_of_my_own() -> Iterator[torch.Tensor]:
    while True:
        yield torch.randn(BATCH, 8)


def watched(job: Job) -> None:
    model = nn.Linear(8, 8)
    train(job, iter(eroica_otel.watch(batches_of_my_own())), model, sgd(model))


def unwatched(job: Job) -> None:
    model = nn.Linear(8, 8)
    train(job, batches_of_my_own(), model, sgd(model))


def workers(job: Job) -> None:
    model = nn.Linear(8, 8)
    train(job, endless(loader(num_workers=2, persistent_workers=True)), model, sgd(model))


def spawned_workers(job: Job) -> None:
    model = nn.Linear(8, 8)
    options: dict[str, Any] = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": "spawn"}
    train(job, endless(loader(**options)), model, sgd(model))


def rebuilt(job: Job) -> None:
    """A new data set and a new loader each epoch."""

    def epochs() -> Iterator[torch.Tensor]:
        while True:
            for (batch,) in loader(20):
                yield batch

    model = nn.Linear(8, 8)
    train(job, epochs(), model, sgd(model))


def validating(job: Job) -> None:
    """220 inputs of another loader after every 100 updates."""
    model = nn.Linear(8, 8)
    optimizer = sgd(model)
    for batch in endless(loader()):
        job.work()
        loss_of(model, batch).backward()
        optimizer.step()
        job.update()
        if job.done:
            return
        if job.truth.updates % 100 == 0:
            with torch.no_grad():
                for (held_out,) in loader(220):
                    loss_of(model, held_out)


def queued(job: Job) -> None:
    """A thread of the user's fetches up to four batches ahead."""
    model = nn.Linear(8, 8)
    ahead: queue.Queue[torch.Tensor] = queue.Queue(maxsize=4)

    def feed() -> None:
        for batch in endless(loader()):
            ahead.put(batch)

    threading.Thread(target=feed, daemon=True).start()
    train(job, iter(ahead.get, None), model, sgd(model))


def compiled(job: Job) -> None:
    """Forward and loss compiled; without a C++ compiler everything but the generation of code."""
    model = nn.Linear(8, 8)
    backend = "inductor" if shutil.which("g++") or shutil.which("clang++") else "aot_eager"
    optimized: Any = torch.compile(model, backend=backend)
    train(job, endless(loader()), optimized, sgd(model))


def late(job: Job) -> None:
    """The line that attaches comes after the iterator and the optimizer exist."""
    model = nn.Linear(8, 8)
    optimizer, batches = sgd(model), endless(loader())
    next(batches)
    eroica_otel.instrument()
    train(job, batches, model, optimizer)


LOOPS: MappingProxyType[str, Callable[[Job], None]] = MappingProxyType(
    {
        loop.__name__: loop
        for loop in (
            *(plain, foreach, fused, device, hot_loop, iterable, watched, unwatched, workers, spawned_workers, rebuilt),
            *(validating, queued, compiled, late),
        )
    }
)
