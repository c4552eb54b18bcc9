"""The training that the demo and the tests watch: DistributedDataParallel, gloo, a small transformer, generated text.

The one line that watches it is the first import. Start it with torchrun; ``--control`` is a folder in which
``fault.json`` switches a real fault on and ``stop`` holds the iteration at which all ranks end.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import socket
import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import eroica_otel.auto  # noqa: F401  the one line: it is imported for what it does
from eroica_otel.demo.device import device

VOCABULARY = 64
LENGTH = 32
WIDTH = 64


class RemoteText(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Token sequences that lie on a text server, as training data lies on a file server."""

    def __init__(self, address: str, rank: int, samples: int) -> None:
        host, port = address.rsplit(":", 1)
        self.connection = socket.create_connection((host, int(port)), timeout=30)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rank = rank
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitems__(self, indices: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        text = torch.frombuffer(bytearray(self.fetch_remote(indices)), dtype=torch.uint8)
        rows = text.view(len(indices), LENGTH + 1).long() % VOCABULARY
        return [(row[:-1], row[1:]) for row in rows]

    def fetch_remote(self, indices: list[int]) -> bytes:
        """Ask the server for the samples and wait for its answer."""
        self.connection.sendall(json.dumps([self.rank, LENGTH + 1, indices]).encode() + b"\n")
        wanted = len(indices) * (LENGTH + 1)
        answer = b""
        while len(answer) < wanted:
            part = self.connection.recv(wanted - len(answer))
            if not part:
                raise ConnectionError("the text server closed the connection")
            answer += part
        return answer


class Block(nn.Module):
    """One transformer layer whose products run on the demo's device."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(device(hidden, 1.0))
        return output


class Model(nn.Module):
    """A small transformer; ``rows`` of its embedding make gradients that a link has to carry, and no computing."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(rows, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.blocks(self.embed(tokens)))
        return logits


class Control:
    """What the folder asks this rank to do."""

    def __init__(self, folder: str, rank: int) -> None:
        self.fault = pathlib.Path(folder, "fault.json")
        self.stop = pathlib.Path(folder, "stop")
        self.rank = rank
        self.seconds: float | None = None

    def busy_seconds(self) -> float:
        """CPU time that the Python fault burns in each step on this rank, for as long as the file is there."""
        if (there := self.fault.exists()) and self.seconds is None:
            order = json.loads(self.fault.read_text())
            mine = order["fault"] == "python" and order["rank"] == self.rank
            self.seconds = float(order["seconds"]) if mine else 0.0
        return (self.seconds or 0.0) if there else 0.0

    def ended(self, iteration: int) -> bool:
        return self.stop.exists() and iteration >= int(self.stop.read_text() or iteration + 1)


def augment(tokens: torch.Tensor, busy_seconds: float) -> torch.Tensor:
    """Clean the batch up, in Python; under the fault this takes ``busy_seconds`` of CPU time."""
    begin = time.thread_time()
    checksum = 0
    while time.thread_time() - begin < busy_seconds:
        for value in range(50):
            checksum = (checksum * 31 + value) % 1_000_003
    return tokens


def train(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    torch.manual_seed(7)
    model = DistributedDataParallel(Model(arguments.rows))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    dataset = RemoteText(arguments.text, rank, arguments.batch * arguments.steps)
    control = Control(arguments.control, rank)
    for iteration, (tokens, target) in enumerate(DataLoader(dataset, batch_size=arguments.batch)):
        tokens = augment(tokens, control.busy_seconds())
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if control.ended(iteration):
            break
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True, help="HOST:PORT of the text server")
    parser.add_argument("--control", required=True, help="folder with fault.json and stop")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rows", type=int, default=VOCABULARY, help="of the embedding (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100_000)
    train(parser.parse_args())
