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


def accumulate(job: Job, micro_batches: int, seconds: float, batches: int) -> None:
    model = nn.Linear(8, 8)
    optimizer = sgd(model)
    for number, batch in enumerate(endless(loader(batches)), 1):
        job.work(seconds)
        loss_of(model, batch).backward()
        if number % micro_batches == 0:
            optimizer.step()
            optimizer.zero_grad()
            job.update()
            if job.done:
                return


def accumulate_4(job: Job) -> None:
    accumulate(job, 4, 0.005, 200)


def accumulate_32(job: Job) -> None:
    accumulate(job, 32, 0.001, 640)


def accumulate_uneven(job: Job) -> None:
    """62 batches an epoch: the last two of each are an accumulation that is thrown into the next one."""
    model = nn.Linear(8, 8)
    optimizer = sgd(model)
    while True:
        for number, (batch,) in enumerate(loader(402), 1):
            job.work(0.005)
            loss_of(model, batch).backward()
            if number % 4 == 0:
                optimizer.step()
                job.update()
                if job.done:
                    return


def scaled(job: Job, **options: Any) -> None:
    """Every ninth loss is infinite, so that its update is skipped."""
    model = nn.Linear(8, 8)
    optimizer = sgd(model, **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for number, batch in enumerate(endless(loader()), 1):
        job.work()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, batch)
        scaler.scale(loss * (float("inf") if number % 9 == 0 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        job.update()
        if job.done:
            return


def scaler(job: Job) -> None:
    scaled(job)


def scaler_fused(job: Job) -> None:
    scaled(job, fused=True)


def gan(job: Job, critic_updates: int = 1) -> None:
    critic, generator = nn.Linear(8, 1), nn.Linear(8, 8)
    of_critic, of_generator = sgd(critic), sgd(generator)
    for number, batch in enumerate(endless(loader()), 1):
        job.work(0.02 / critic_updates)
        (critic(generator(batch).detach()).mean() - critic(batch).mean()).backward()
        of_critic.step()
        of_critic.zero_grad()
        job.update()
        if number % critic_updates == 0:
            (-critic(generator(batch)).mean()).backward()
            of_generator.step()
            of_generator.zero_grad()
            if job.done:
                return


def gan_5(job: Job) -> None:
    gan(job, 5)


def in_backward(job: Job) -> None:
    """One optimizer a parameter, each runs as soon as its gradient is there."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

    def attach(parameter: Any) -> None:
        optimizer = torch.optim.SGD([parameter], lr=1e-3)

        def run(_: torch.Tensor) -> None:
            optimizer.step()
            optimizer.zero_grad()

        parameter.register_post_accumulate_grad_hook(run)

    for parameter in model.parameters():
        attach(parameter)
    for batch in endless(loader()):
        job.work()
        loss_of(model, batch).backward()
        job.update()
        if job.done:
            return


def lbfgs(job: Job) -> None:
    model = nn.Linear(8, 8)
    optimizer: Any = torch.optim.LBFGS(model.parameters(), lr=1e-2, max_iter=5)
    for batch in endless(loader()):

        def closure() -> float:
            job.work()
            optimizer.zero_grad()
            loss = loss_of(model, batch)  # noqa: B023
            loss.backward()
            return float(loss)

        optimizer.step(closure)
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


class Descent:
    """An optimizer that is none of torch's."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def step(self) -> None:
        with torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-1e-3)
                    parameter.grad = None


def own_step(job: Job, told: bool = False) -> None:
    model = nn.Linear(8, 8)
    optimizer = Descent(model)
    for batch in endless(loader()):
        job.work()
        loss_of(model, batch).backward()
        optimizer.step()
        if told:
            eroica_otel.step()
        job.update()
        if job.done:
            return


def own_step_told(job: Job) -> None:
    own_step(job, told=True)


LOOPS: MappingProxyType[str, Callable[[Job], None]] = MappingProxyType(
    {
        loop.__name__: loop
        for loop in (
            *(plain, fused, device, hot_loop, accumulate_4, accumulate_32, accumulate_uneven, scaler, scaler_fused),
            *(gan, gan_5, in_backward, lbfgs, iterable, watched, unwatched, workers, spawned_workers, rebuilt),
            *(validating, queued, compiled, late, own_step, own_step_told),
        )
    }
)
