"""Two ranks, each a stage as Megatron-LM describes it; forked, so that torch is imported once. Not a test itself."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

RANKS = 2


def train(stop: Path, parent: int) -> None:
    """Train until ``stop`` exists, all ranks up to the same iteration, or ``parent`` is gone."""
    import eroica_otel.auto  # noqa: F401  here, because each rank is a process of its own

    dist.init_process_group("gloo")
    dist.new_group(list(range(RANKS)), group_desc="PIPELINE_MODEL_PARALLEL_GROUP")
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for (batch,) in DataLoader(TensorDataset(torch.randn(10**6, 16)), batch_size=4):
        model(batch).square().mean().backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
        time.sleep(0.02)
        optimizer.step()
        optimizer.zero_grad()
        ended = torch.tensor(float(stop.exists()))
        dist.all_reduce(ended)
        if ended or os.getppid() != parent:
            break
    dist.destroy_process_group()


def main() -> None:
    torch.set_num_threads(1)
    children, own = [], os.getpid()
    for rank in range(RANKS):
        child = os.fork()
        if not child:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}
            train(Path(sys.argv[sys.argv.index("--stop") + 1]), own)
            return
        children.append(child)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))


if __name__ == "__main__":
    main()
