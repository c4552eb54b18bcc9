"""A training of some gloo processes that hangs in the way a file says; not a test itself.

``--control`` is a folder: ``fault-N`` holds "RANK KIND" for the N-th hang, ``release-N`` ends it, ``stop`` ends the
training at the iteration in it, and what a rank that died left; while there is ``export`` the first rank exports after
that. ``--pause-seconds`` is how long a pause is believed.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import json
import os
import pathlib
import pdb
import signal
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

import eroica_otel.auto  # noqa: F401  the one line
from eroica_otel.detect import blocked

HELD_SECONDS = 26


class Trouble:
    """What is to go wrong on this rank."""

    def __init__(self, folder: pathlib.Path, rank: int) -> None:
        self.folder, self.rank = folder, rank
        self.number = 1 + len([path for path in folder.glob("fault-*") if not path.suffix])  # those before a restart

    def kind(self) -> str:
        """Return the next hang of this rank, "" while there is none."""
        path = self.folder / f"fault-{self.number}"
        if not path.exists():
            return ""
        rank, kind = path.read_text().split()
        self.number += 1
        return kind if int(rank) == self.rank else ""

    def cause(self, kind: str) -> None:
        """Hang in that way; do nothing where there is none, or it is to be in the collectives."""
        ways = {"sleep": self.wait, "hold": hold, "save": self.save, "die": self.die}
        (ways | {"debug": self.debug, "evaluate": self.evaluate}).get(kind, lambda: None)()

    def released(self) -> bool:
        return (self.folder / f"release-{self.number - 1}").exists()

    def wait(self) -> None:
        """Sleep in Python until released."""
        while not self.released():
            time.sleep(0.2)

    def make_up(self, batch: torch.Tensor, group: dist.ProcessGroup) -> None:
        """Take part in the collective that was left out, once released."""
        self.wait()
        dist.all_reduce(batch, group=group)

    def die(self) -> None:
        """Die without a word to the peers: a child keeps the connections open, as a loader's worker may."""
        if os.fork() == 0:
            while not (self.folder / "stop").exists():
                time.sleep(0.2)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    def save(self) -> None:
        """Save to a pipe that nobody reads."""
        with (self.folder / "pipe").open("wb") as file:
            torch.save(torch.zeros(1 << 20), file)

    def debug(self) -> None:
        """Stand in a debugger whose terminal nobody answers."""
        with (self.folder / "terminal").open() as terminal:
            pdb.Pdb(stdin=terminal, stdout=io.StringIO(), nosigint=True).set_trace()

    def evaluate(self) -> None:
        """Evaluate in a loop of one's own until released."""
        for (batch,) in DataLoader(TensorDataset(torch.randn(10**5, 16)), batch_size=4):
            batch.square().mean()
            time.sleep(0.05)
            if self.released():
                return

    def export(self, model: torch.nn.Module) -> None:
        """Write the weights as text, again and again for as long as it is wanted."""
        while (self.folder / "export").exists():
            weights = {name: value.tolist() for name, value in model.state_dict().items()}
            (self.folder / "exported").write_text(json.dumps(weights))


def hold() -> None:
    """Stay in C and keep the interpreter's lock; in a call that goes on after a signal, as sleep() does not."""
    ctypes.PyDLL(None).system(f"sleep {HELD_SECONDS}".encode())


def join() -> None:
    """Meet in the launcher's store, each attempt in a place of its own.

    By itself torch 2.13 meets where the attempt before has left its addresses, and falls over them.
    """
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    server = dist.TCPStore(address, port, is_master=False)  # type: ignore[attr-defined]
    store = dist.PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], server)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))


def step(model: torch.nn.Module, batch: torch.Tensor) -> None:
    model(batch).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=pathlib.Path, required=True)
    parser.add_argument("--pause-seconds", type=float, default=blocked.PAUSE_SECONDS)
    arguments = parser.parse_args()
    folder, blocked.PAUSE_SECONDS = arguments.control, arguments.pause_seconds
    torch.set_num_threads(1)
    join()
    rank = dist.get_rank()
    tensor_group = dist.new_group(list(range(dist.get_world_size())))
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trouble, stop = Trouble(folder, rank), folder / "stop"
    for number, (batch,) in enumerate(DataLoader(TensorDataset(torch.randn(10**6, 16)), batch_size=4)):
        kind = trouble.kind()
        trouble.cause(kind)
        if kind == "skip":
            threading.Thread(target=trouble.make_up, args=(batch.clone(), tensor_group), daemon=True).start()
        else:
            dist.all_reduce(batch, group=tensor_group)
        step(model, batch)
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.05)
        if stop.exists() and number >= int(stop.read_text()):
            break
    if rank == 0:
        trouble.export(model)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
