"""A small training on one process for the tests of bad input; not a test itself. Prints "steps N" when it ends."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import random
import resource
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

import eroica_otel.auto  # noqa: F401  the one line


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stop", type=pathlib.Path, required=True, help="end when this file appears")
    parser.add_argument("--irregular", action="store_true", help="a random number of inputs for each update")
    parser.add_argument("--profiler", action="store_true", help="the training's own profiler runs all the time")
    parser.add_argument("--largest-file", type=int, default=0, help="bytes; a file that grows beyond fails")
    arguments = parser.parse_args()
    if arguments.largest_file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (arguments.largest_file, resource.RLIM_INFINITY))
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = DataLoader(TensorDataset(torch.randn(10**6, 16)), batch_size=4)
    dice = random.Random(1)
    own = torch.profiler.profile() if arguments.profiler else contextlib.nullcontext()
    steps = inputs = 0
    with own:
        for (batch,) in batches:
            inputs += 1
            model(batch).square().mean().backward()
            if arguments.irregular and inputs < 20 and dice.random() < 0.7:
                continue
            inputs = 0
            optimizer.step()
            steps += 1
            time.sleep(0.001 if arguments.irregular else 0.015)
            if arguments.stop.exists():
                break
    print(f"steps {steps}", flush=True)


if __name__ == "__main__":
    main()
