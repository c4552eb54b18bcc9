"""An unmodified training: DDP on gloo where there are ranks, a DataLoader with forked workers made anew each epoch."""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.02)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    model: torch.nn.Module = torch.nn.Linear(16, 16)
    if dist.is_initialized():
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = DataLoader(
        TensorDataset(torch.randn(4 * arguments.steps, 16)), batch_size=4, num_workers=arguments.workers
    )
    steps = 0
    for _ in range(arguments.epochs):
        for (batch,) in batches:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            steps += 1
            time.sleep(arguments.pause)
    if dist.is_initialized():
        dist.destroy_process_group()
    print(f"steps {steps}", flush=True)


if __name__ == "__main__":
    main()
