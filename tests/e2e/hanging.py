"""A training of some gloo processes that hangs in the way a file says; not a test itself.

``--control`` is a folder: ``fault-N`` holds "RANK KIND" for the N-th hang, ``release-N`` ends it, ``stop`` ends the
training at the iteration in it.
"""

from __future__ import annotations

import argparse
import ctypes
import pathlib
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

import eroica_otel.auto  # noqa: F401  the one line

HELD_SECONDS = 26


class Trouble:
    """What is to go wrong on this rank."""

    def __init__(self, folder: pathlib.Path, rank: int) -> None:
        self.folder, self.rank, self.number = folder, rank, 1

    def kind(self) -> str:
        """Return the next hang of this rank, "" while there is none."""
        path = self.folder / f"fault-{self.number}"
        if not path.exists():
            return ""
        rank, kind = path.read_text().split()
        self.number += 1
        return kind if int(rank) == self.rank else ""

    def wait(self) -> None:
        """Sleep in Python until released."""
        while not (self.folder / f"release-{self.number - 1}").exists():
            time.sleep(0.2)

    def save(self) -> None:
        """Save to a pipe that nobody reads."""
        with (self.folder / "pipe").open("wb") as file:
            torch.save(torch.zeros(1 << 20), file)


def hold() -> None:
    """Stay in C and keep the interpreter's lock; in a call that goes on after a signal, as sleep() does not."""
    ctypes.PyDLL(None).system(f"sleep {HELD_SECONDS}".encode())


def step(model: torch.nn.Module, batch: torch.Tensor, tensor_group: dist.ProcessGroup, kind: str) -> None:
    if kind != "skip":
        dist.all_reduce(batch, group=tensor_group)
    model(batch).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=pathlib.Path, required=True)
    folder = parser.parse_args().control
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tensor_group = dist.new_group(list(range(dist.get_world_size())))
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trouble, stop = Trouble(folder, rank), folder / "stop"
    for number, (batch,) in enumerate(DataLoader(TensorDataset(torch.randn(10**6, 16)), batch_size=4)):
        kind = trouble.kind()
        if kind == "sleep":
            trouble.wait()
        elif kind == "hold":
            hold()
        elif kind == "save":
            trouble.save()
        step(model, batch, tensor_group, kind)
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.05)
        if stop.exists() and number >= int(stop.read_text()):
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
