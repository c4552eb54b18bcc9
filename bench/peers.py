"""What watching costs always, next to a peer: the same small training watched by nobody, by eroica_otel, by TraceML.

Three processes train the same loop and take turns, block by block in random order; compared is the CPU time of the
training thread per step. Needs TraceML (``pip install traceml-ai``) beside eroica_otel; its own aggregator process is
not counted, nor is our helper.

    python bench/peers.py [--rounds 20] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS = 100
WARM_UP = 300
START_SECONDS = 120.0


def train(name: str, address: str) -> None:
    """Run a block for each line that comes over the socket and answer with microseconds per step."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    step: Any = contextlib.nullcontext
    if name == "eroica_otel":
        import eroica_otel

        eroica_otel.instrument(directory=str(Path(address).parent / "workers"), reference=False, degraded_ratio=10)
    elif name == "traceml":
        import traceml_ai

        traceml_ai.init(mode="auto")
        step = traceml_ai.trace_step
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = iter(DataLoader(TensorDataset(torch.randn(8 * 200_000, 64)), batch_size=8))

    def block(steps: int) -> float:
        begin = time.thread_time_ns()
        for _ in range(steps):
            (batch,) = next(batches)
            with step(model) if name == "traceml" else step():
                optimizer.zero_grad()
                model(batch).square().mean().backward()
                optimizer.step()
        return (time.thread_time_ns() - begin) / steps / 1000

    block(WARM_UP)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rw") as stream:
            print(name, file=stream, flush=True)
            for _ in stream:
                print(block(STEPS), file=stream, flush=True)


def command(name: str, address: str) -> list[str]:
    """Return how the training is started."""
    script = [__file__, "--train", name, "--address", address]
    if name != "traceml":
        return [sys.executable, *script]
    program = Path(sys.executable).with_name("traceml")
    return [str(program), "run", *script[:1], "--mode", "summary", "--args", *script[1:]]


def measure(rounds: int) -> dict[str, list[float]]:
    """Return microseconds per step of each block by who watched, in rounds that belong together."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        address = str(Path(folder) / "socket")
        server.bind(address)
        server.listen()
        server.settimeout(START_SECONDS)
        names = ("none", "eroica_otel", "traceml")
        environment = os.environ | {"OTEL_METRICS_EXPORTER": "none"}
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes = [subprocess.Popen(command(name, address), env=environment, cwd=folder, **quiet) for name in names]
        try:
            streams = {}
            for _ in names:
                connection, _ = server.accept()
                stream = connection.makefile("rw")
                streams[stream.readline().strip()] = stream
            blocks: dict[str, list[float]] = {name: [] for name in names}
            for _ in range(rounds):
                for name in random.sample(names, len(names)):
                    print("go", file=streams[name], flush=True)
                    blocks[name].append(float(streams[name].readline()))
            return blocks
        finally:
            for process in processes:
                process.terminate()
                process.wait()


def main() -> int:
    """Print the figures; 1 when a peer is cheaper, 3 when TraceML is not installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", default="", help="file for every block")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--address", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train, arguments.address)
        return 0
    if shutil.which("traceml", path=str(Path(sys.executable).parent)) is None:
        print("TraceML is not installed here: pip install traceml-ai")
        return 3
    blocks = measure(arguments.rounds)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(blocks))
    added = {}
    for name, values in blocks.items():
        differences = [value - base for value, base in zip(values, blocks["none"], strict=True)]
        added[name] = statistics.median(differences)
        quarters = statistics.quantiles(differences, n=4)
        spread = f"(half of the rounds {quarters[0]:.0f} to {quarters[2]:.0f})"
        print(f"{name:12s} {statistics.median(values):7.1f} us a step; adds {added[name]:6.1f} us {spread}")
    print(
        f"TraceML {importlib.metadata.version('traceml-ai')}, torch {importlib.metadata.version('torch')}, "
        f"Python {platform.python_version()}"
    )
    return int(added["eroica_otel"] > added["traceml"])


if __name__ == "__main__":
    raise SystemExit(main())
