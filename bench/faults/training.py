"""The training of the fault board: DistributedDataParallel over gloo, with a switch for each fault that lies in it.

Start it with torchrun on each node. ``--control`` is a folder in which ``fault.json`` ({"switch", "rank", "value"})
switches a fault on and ``stop`` holds the iteration at which all ranks end. Each rank computes for real, about 30 ms an
iteration, and spends the rest on the demo's device, which takes a fixed time for each sample.
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

WIDTH = 512
SAMPLES = 1 << 20


class Switch:
    """What the folder asks this rank to do; looked at once an iteration, which costs microseconds."""

    def __init__(self, folder: pathlib.Path, rank: int) -> None:
        self._file, self._stop, self._rank = folder / "fault.json", folder / "stop", rank
        self._order: dict[str, object] | None = None

    def value(self, switch: str) -> float:
        """Return the value of a switch on this rank, 0 while it is off."""
        if self._order is None and self._file.exists():
            self._order = json.loads(self._file.read_text())
        order = self._order or {}
        on = order.get("switch") == switch and order.get("rank") == self._rank
        return float(str(order["value"])) if on else 0.0

    def ended(self, iteration: int) -> bool:
        return self._stop.exists() and iteration >= int(self._stop.read_text() or iteration + 1)


class Remote(Dataset[torch.Tensor]):
    """Samples that lie on another machine: a request and an answer for each batch."""

    def __init__(self, address: str, rank: int) -> None:
        self._address, self._rank = address, rank
        self._connection: socket.socket | None = None

    def __len__(self) -> int:
        return SAMPLES

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        data = torch.frombuffer(bytearray(self.fetch_remote(len(indices))), dtype=torch.uint8)
        return list(data.view(len(indices), WIDTH).float() / 255)

    def fetch_remote(self, count: int) -> bytes:
        """Ask the server for ``count`` samples and wait for its answer."""
        if self._connection is None:  # in a loader's worker too
            host, port = self._address.rsplit(":", 1)
            self._connection = socket.create_connection((host, int(port)), timeout=60)
        self._connection.sendall(json.dumps([self._rank, count * WIDTH]).encode() + b"\n")
        answer = b""
        while len(answer) < count * WIDTH:
            part = self._connection.recv(1 << 16)
            if not part:
                raise ConnectionError("the server of samples closed the connection")
            answer += part
        return answer


class Model(nn.Module):
    """Two layers that compute and one that runs on the device; ``delay`` is added to its backward."""

    def __init__(self, repeats: int) -> None:
        super().__init__()
        self.first, self.last, self.repeats = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), repeats
        self.delay = 0.0

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        hidden = device(self.first(samples), 1.0)
        wide = hidden.repeat(8, 1)
        for _ in range(self.repeats):  # work that grows with the batch
            wide = torch.tanh(wide @ self.last.weight.detach())
        output: torch.Tensor = self.last(hidden + 0.01 * wide[: hidden.shape[0]].detach())
        if output.requires_grad:
            output.register_hook(self.slow_backward)  # type: ignore[no-untyped-call]
        return output

    def slow_backward(self, gradient: torch.Tensor) -> None:
        """Wait in the backward, as a hook that logs or checks over the network does."""
        if self.delay:
            time.sleep(self.delay)


def augment(samples: torch.Tensor, busy_seconds: float) -> torch.Tensor:
    """Clean the batch up, in Python; under the fault this takes ``busy_seconds`` of CPU time."""
    begin, checksum = time.thread_time(), 0
    while time.thread_time() - begin < busy_seconds:
        for value in range(50):
            checksum = (checksum * 31 + value) % 1_000_003
    return samples


def wait_for_lock(seconds: float) -> None:
    """Wait for something that does not come."""
    time.sleep(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--control", type=pathlib.Path, required=True)
    parser.add_argument("--samples", required=True, help="HOST:PORT of the server of samples")
    parser.add_argument("--loader-workers", type=int, default=0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--average-loss", action="store_true", help="over all ranks, in a group of its own")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    switch = Switch(arguments.control, rank)
    inner = Model(arguments.repeats)
    model = DistributedDataParallel(inner)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    remote = Remote(arguments.samples, rank)
    losses = torch.distributed.new_group() if arguments.average_loss else None
    batches = DataLoader(remote, batch_size=arguments.batch, num_workers=arguments.loader_workers)
    for iteration, samples in enumerate(batches):
        samples = augment(samples, switch.value("python"))
        if extra := int(switch.value("batch")):
            samples = torch.cat([samples, samples[:1].expand(extra, -1)])
        if seconds := switch.value("hang"):
            wait_for_lock(seconds)
        inner.delay = switch.value("backward")
        optimizer.zero_grad()
        loss = model(samples).square().mean()
        loss.backward()
        optimizer.step()
        if losses is not None and not switch.value("skip"):
            torch.distributed.all_reduce(loss.detach(), group=losses)
        if switch.ended(iteration):
            break
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
