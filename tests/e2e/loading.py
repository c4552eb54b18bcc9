"""A training whose DataLoader is too slow, for the test of its processes; not a test itself.

Prints "waited N" when it ends: the share of its iterations for which it waited for a batch.
"""

from __future__ import annotations

import argparse
import pathlib
import time

import torch
from torch.utils.data import DataLoader, Dataset, Subset

import eroica_otel.auto  # noqa: F401  the one line

DECODE_SECONDS, READ_SECONDS, UPDATE_SECONDS = 0.00125, 0.00375, 0.005
BATCH, SAMPLES = 8, 800
"""A batch has so many samples that whatever part of its making the training waits for has both in their shares."""


class Remote(Dataset[torch.Tensor]):
    """Samples of which each is read and decoded; both take a fixed time, whatever else the machine does.

    While the file ``hang`` is there a read does not end.
    """

    def __init__(self, hang: pathlib.Path) -> None:
        self._hang = hang

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        self.read()
        return self.decode(index)

    def read(self) -> None:
        while self._hang.exists():
            time.sleep(READ_SECONDS)
        time.sleep(READ_SECONDS)

    def decode(self, index: int) -> torch.Tensor:
        time.sleep(DECODE_SECONDS)
        return torch.full((16,), float(index))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stop", type=pathlib.Path, required=True, help="end when this file appears")
    parser.add_argument("--hang", type=pathlib.Path, default=pathlib.Path("/nowhere"), help="see Remote")
    parser.add_argument("--method", default="fork")
    parser.add_argument("--persistent", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = Subset(Remote(arguments.hang), range(SAMPLES))
    batches = DataLoader(
        data,
        batch_size=BATCH,
        num_workers=2,
        multiprocessing_context=arguments.method,
        persistent_workers=arguments.persistent,
    )
    waited = whole = 0.0
    while not arguments.stop.exists():
        asked = time.perf_counter()
        for number, batch in enumerate(batches):
            got = time.perf_counter()
            model(batch).square().mean().backward()
            optimizer.step()
            time.sleep(UPDATE_SECONDS)
            done = time.perf_counter()
            if number:  # the first waits for the processes to start
                waited, whole = waited + got - asked, whole + done - asked
            asked = done
    print(f"waited {waited / whole:.3f}", flush=True)


if __name__ == "__main__":
    main()
