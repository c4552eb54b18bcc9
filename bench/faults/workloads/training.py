"""What all trainings of the board share: options, meeting, the switches' points, and what the board sees of them.

A rank writes ``ready-RANK`` into the control folder and waits for ``go``; then it appends the Unix time (float64) of
each iteration's begin to ``times-RANK``. The board ends it with a signal. Each rank computes for real, 10 to 25 ms an
iteration, and spends the rest on the demo's device, which takes a fixed time for each sample.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

from bench.faults.faults.switches import Switches
from bench.faults.workloads.remote import Remote

TICK_SECONDS = 0.02


def options(arguments: list[str] | None = None, **defaults: Any) -> argparse.Namespace:
    """Read the options; ``defaults`` are the workload's own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=pathlib.Path, required=True)
    parser.add_argument("--samples", required=True, help="tcp://HOST:PORT of the server of samples")
    parser.add_argument("--objects", required=True, help="http://HOST:PORT of the object store")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--source", choices=("samples", "objects", "memory"), default="samples")
    parser.add_argument("--loader-workers", type=int, default=0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=0, help="matrix products of the CPU for each batch")
    parser.add_argument("--average-loss", action="store_true", help="over all ranks, in a group of its own")
    parser.add_argument("--epoch", type=int, default=0, help="batches of an epoch; 0 = one that does not end")
    parser.add_argument("--validate-every", type=int, default=0)
    parser.add_argument("--checkpoint-every", type=int, default=0)
    parser.add_argument("--checkpoint-rank", type=int, default=-1, help="the only one that saves; -1 = all do")
    parser.set_defaults(**defaults)
    return parser.parse_args(arguments)


class Training:
    """One rank.

    Attributes:
        said: The options.
        rank, world: Its number and how many there are.
        switches: The faults that lie in the training.
        iteration: Number of the iteration that runs; 0 before the first.
    """

    def __init__(self, said: argparse.Namespace) -> None:
        torch.set_num_threads(1)
        if not dist.is_initialized():
            dist.init_process_group("gloo")
        self.said, self.rank, self.world = said, dist.get_rank(), dist.get_world_size()
        torch.manual_seed(said.seed)
        self.switches = Switches(said.control, self.rank)
        self._losses = dist.new_group() if said.average_loss or said.epoch else None
        self.iteration = 0
        self._times = os.open(said.control / f"times-{self.rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def data(self, samples: int = 1 << 20) -> Remote:
        """Return the samples of the source that the options name."""
        source = {"samples": self.said.samples, "objects": self.said.objects, "memory": ""}[self.said.source]
        return Remote(source, self.rank, self.switches, samples)

    def loader(self) -> DataLoader[torch.Tensor]:
        """Return a loader of batches [--batch, WIDTH] with --loader-workers processes."""
        data, workers = self.data(), self.said.loader_workers
        order = RandomSampler(data, replacement=True, num_samples=len(data))  # made number by number, not all at first
        stay = workers > 0 and not self.said.epoch  # with epochs they are started anew, as is usual
        return DataLoader(data, self.said.batch, sampler=order, num_workers=workers, persistent_workers=stay)

    def wait_for_go(self) -> None:
        """Say that this rank stands before its first iteration, and wait until the board lets all go."""
        part = self.said.control / f"ready-{self.rank}.part"
        part.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        os.replace(part, self.said.control / f"ready-{self.rank}")
        while not (self.said.control / "go").exists():
            time.sleep(TICK_SECONDS)

    def begin(self) -> None:
        """Note the begin of the next iteration."""
        self.iteration += 1
        self.switches.begin(self.iteration)
        os.write(self._times, struct.pack("<d", time.time()))

    def batches(self, loader: Iterable[torch.Tensor], micro_batches: int = 1) -> Iterator[torch.Tensor]:
        """Yield batches without end; each ``micro_batches``-th begins an iteration. Waits for the board first."""
        self.wait_for_go()
        while True:
            count = self.switches.at("epoch", self.said.epoch)
            for number, batch in enumerate(itertools.islice(loader, count or None)):
                if number % micro_batches == 0:
                    self.begin()
                yield self.switches.at("batch", batch)
            if self._losses is not None:
                dist.barrier(self._losses)  # as an epoch's metrics are brought together

    def update(self, model: nn.Module, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
        """Go back through the model, step, and do what comes after a step."""
        self.backward(loss)
        self.step(model, optimizer)
        self.average(loss)
        self.sometimes(model)

    def backward(self, loss: torch.Tensor) -> None:
        """Go back from the loss."""
        self.switches.at("loss", loss).backward()

    def step(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Update the parameters."""
        self.switches.at("before_step", model)
        optimizer.step()
        optimizer.zero_grad()
        self.switches.at("after_step", model)

    def average(self, loss: torch.Tensor) -> None:
        """Bring the loss of all ranks together, where --average-loss asks for it."""
        if self.said.average_loss and self.switches.at("collective", True):
            dist.all_reduce(loss.detach().clone(), group=self._losses)

    def sometimes(self, model: nn.Module) -> None:
        """Save and validate where it is due."""
        if self._due(self.said.checkpoint_every) and self.said.checkpoint_rank in (-1, self.rank):
            self.switches.at("checkpoint", lambda: self.save_checkpoint(model))()
        if self._due(self.said.validate_every):
            self.validate(model, self.switches.at("validation", 20))

    def _due(self, every: int) -> bool:
        return bool(every) and self.iteration % every == 0

    def save_checkpoint(self, model: nn.Module) -> None:
        """Write the model and make sure that it is on the disk."""
        with (self.said.control.parent / f"checkpoint-{self.rank}").open("wb") as file:
            torch.save(model.state_dict(), file)
            file.flush()
            os.fsync(file.fileno())

    def validate(self, model: nn.Module, batches: int) -> None:
        """Look at ``batches`` batches of another loader without learning from them."""
        loader = DataLoader(self.data(batches * self.said.batch), self.said.batch)
        with torch.no_grad():
            for batch in loader:
                model(batch)


Loop = Callable[[Training], None]


def run(loop: Loop, **defaults: Any) -> None:
    """Read the options, meet the others and train."""
    loop(Training(options(None, **defaults)))
