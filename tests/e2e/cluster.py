"""The training that the tests on several nodes watch: DistributedDataParallel over gloo, its time on the demo's device.

Start it with torchrun on each node; ``--stop`` names a file that ends all ranks at the iteration it holds.
"""

from __future__ import annotations

import argparse
import os
import pathlib

import torch
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stop", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = DataLoader(TensorDataset(torch.randn(BATCH * 100_000, 64)), batch_size=BATCH)
    print(f"rank {os.environ['RANK']} trains, restart {os.environ['TORCHELASTIC_RESTART_COUNT']}", flush=True)
    for iteration, (tokens,) in enumerate(data):
        optimizer.zero_grad()
        model(tokens).square().mean().backward()
        optimizer.step()
        if arguments.stop.exists() and iteration >= int(arguments.stop.read_text() or iteration + 1):
            break
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
