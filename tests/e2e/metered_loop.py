"""A training whose own meter provider exports it and our series, and that says what is left; not a test itself."""

from __future__ import annotations

import argparse
import os
import pathlib
import time

import torch
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, generate_latest, start_http_server
from torch.utils.data import DataLoader, TensorDataset

import eroica_otel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stop", type=pathlib.Path, required=True, help="end when this file appears")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    provider = MeterProvider([PrometheusMetricReader()])
    start_http_server(int(os.environ["OTEL_EXPORTER_PROMETHEUS_PORT"]), addr="127.0.0.1")
    counted = provider.get_meter("mine").create_counter("mine.steps")
    handle = eroica_otel.instrument(meter_provider=provider)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    # Forked loader workers, which must say nothing of their own.
    for (batch,) in DataLoader(TensorDataset(torch.randn(10**6, 16)), batch_size=4, num_workers=1):
        model(batch).square().mean().backward()
        optimizer.step()
        counted.add(1)
        time.sleep(0.015)
        if arguments.stop.exists():
            break
    handle.close()
    left = {
        line.split("{")[0] for line in generate_latest(REGISTRY).decode().splitlines() if line.startswith("eroica_")
    }
    print(f"left {' '.join(sorted({name.rsplit('_', 1)[0] for name in left}))}", flush=True)


if __name__ == "__main__":
    main()
