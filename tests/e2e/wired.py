"""The training of test_links.py: DistributedDataParallel over gloo with some real computing and 4 MB of gradients.

Start it with torchrun on each node; ``--stop`` names a file that ends all ranks at the iteration it holds.
"""

from __future__ import annotations

import argparse
import pathlib

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import eroica_otel.auto  # noqa: F401  the one line: it is imported for what it does

WIDTH = 1024
ITERATIONS = 100_000


class Model(nn.Module):
    """Products of large matrices, of which only one layer's weights, 4 MB, are trained."""

    fixed: torch.Tensor

    def __init__(self, repeats: int) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("fixed", torch.randn(WIDTH, WIDTH))
        self.repeats = repeats

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.first(batch)
        with torch.no_grad():
            for _ in range(self.repeats):
                hidden @ self.fixed
        return hidden


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stop", type=pathlib.Path, required=True)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    model = DistributedDataParallel(Model(arguments.repeats))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    # A data set that costs no memory: all items are one.
    data = DataLoader(TensorDataset(torch.randn(1, WIDTH).expand(64 * ITERATIONS, WIDTH)), batch_size=64)
    for iteration, (batch,) in enumerate(data):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        if arguments.stop.exists() and iteration >= int(arguments.stop.read_text() or iteration + 1):
            break
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
