"""The training that the tests on several nodes watch: DistributedDataParallel over gloo, its time on the demo's device.

Start it with torchrun on each node; ``--stop`` names a file that ends all ranks at the iteration it holds. While there
is the file ``--irregular``, the rank that it holds draws more inputs than the others, in no order that can be learned.
``--meeting`` is where the launchers meet (HOST:PORT), if their own store is the job's, too.
"""

from __future__ import annotations

import argparse
import base64
import os
import pathlib
import pickle

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import eroica_otel.auto  # noqa: F401  the one line: it is imported for what it does
from eroica_otel.demo.device import device

BATCH = 8


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(device(tokens, 1.0))
        return output


def join(meeting: str) -> None:
    """Meet in the launchers' store where that is the job's, each attempt in a place of its own; else as torch has it.

    By itself torch 2.13 meets where the attempt before has left its addresses, and falls over them. The launchers of
    two nodes count restarts differently; what they agree on is the round in which they met.
    """
    if not meeting:
        dist.init_process_group("gloo")
        return
    host, port = meeting.split(":")
    launchers = dist.TCPStore(host, int(port), is_master=False)  # type: ignore[attr-defined]
    met = pickle.loads(base64.b64decode(launchers.get(f"torch.rendezvous.{os.environ['TORCHELASTIC_RUN_ID']}")))
    server = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)  # type: ignore[attr-defined]
    store = dist.PrefixStore(f"met/{met.round}", server)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))


def irregular(file: pathlib.Path) -> bool:
    """Return whether this rank's loop is to have no repetition."""
    return file.exists() and file.read_text() == os.environ["RANK"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stop", type=pathlib.Path, required=True)
    parser.add_argument("--irregular", type=pathlib.Path, required=True)
    parser.add_argument("--meeting", default="")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    join(arguments.meeting)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = DataLoader(TensorDataset(torch.randn(BATCH * 100_000, 64)), batch_size=BATCH)
    print(f"rank {os.environ['RANK']} trains, restart {os.environ['TORCHELASTIC_RESTART_COUNT']}", flush=True)
    batches = iter(data)
    for iteration, (tokens,) in enumerate(batches):
        if iteration**2 % 17 % 2 and irregular(
            arguments.irregular
        ):  # repeats after 17, and 16 is the longest iteration
            next(batches)
        optimizer.zero_grad()
        model(tokens).square().mean().backward()
        optimizer.step()
        if arguments.stop.exists() and iteration >= int(arguments.stop.read_text() or iteration + 1):
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
