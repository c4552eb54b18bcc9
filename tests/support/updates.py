"""Loops of one process with torch alone, whose update is not a plain one: accumulated, scaled, several, elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.distributed import optim

import eroica_otel
from support.measure import Job
from support.single import endless, loader, loss_of, sgd, train


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
        job.work(0.02 if critic_updates == 1 else 0.01)  # shorter waits are seen too long: docs/method.md
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
    train_in_backward(job, model)


def train_in_backward(job: Job, model: nn.Module) -> None:
    """Train ``model`` so, which may be sharded."""

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


def applied_in_backward(job: Job) -> None:
    """The same by torch's own function for it."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    apply: Any = optim._apply_optimizer_in_backward  # type: ignore[attr-defined]  # without types
    apply(torch.optim.SGD, model.parameters(), {"lr": 1e-3})
    for batch in endless(loader()):
        job.work()
        loss_of(model, batch).backward()
        job.update()
        if job.done:
            return


class Clipping(torch.optim.Optimizer):
    """An optimizer of the user's around one of torch's: its update is the inner one's and some work of its own."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        super().__init__(inner.param_groups, {})

    def step(self, closure: Any = None) -> Any:
        parameters = [one for group in self.param_groups for one in group["params"]]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        return self.inner.step(closure)


def wrapped(job: Job) -> None:
    model = nn.Linear(8, 8)
    train(job, endless(loader()), model, Clipping(sgd(model)))


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


def compiled_step(job: Job) -> None:
    """The update compiled; without a C++ compiler everything but the generation of code."""
    model = nn.Linear(8, 8)
    optimizer = sgd(model)
    backend = "inductor" if shutil.which("g++") or shutil.which("clang++") else "aot_eager"
    update: Any = torch.compile(optimizer.step, backend=backend)
    for batch in endless(loader()):
        job.work()
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        update()
        job.update()
        if job.done:
            return


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
            *(accumulate_4, accumulate_32, accumulate_uneven, scaler, scaler_fused, gan, gan_5),
            *(in_backward, applied_in_backward, wrapped, lbfgs, compiled_step, own_step, own_step_told),
        )
    }
)
