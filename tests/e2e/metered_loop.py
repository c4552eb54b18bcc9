"""Two trainings in turn, whose own meter provider exports them and our series; not a test itself.

Prints "left ..." with the series of ours that the page still shows between them, and "last ..." with the state that the
provider's last collect tells, at the end of the process.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import time
from collections.abc import Callable

import torch
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricsData, PeriodicExportingMetricReader
from prometheus_client import REGISTRY, generate_latest, start_http_server
from torch.utils.data import DataLoader, TensorDataset

import eroica_otel

NEVER_MS = 1e9


def shown() -> set[str]:
    """Return the names of our series that the page shows, without the last word of each."""
    lines = generate_latest(REGISTRY).decode().splitlines()
    return {line.split("{")[0].rsplit("_", 1)[0] for line in lines if line.startswith("eroica_")}


def last(data: MetricsData) -> str:
    """Return the state that a collect tells, as a line."""
    metrics = [metric for of in data.resource_metrics for scope in of.scope_metrics for metric in scope.metrics]
    points = [point for metric in metrics if metric.name == "eroica.worker_state" for point in metric.data.data_points]
    return f"last {' '.join(str((one.attributes or {})['state']) for one in points if getattr(one, 'value', 0))}\n"


def train(ended: Callable[[], bool], update: Callable[[], None]) -> None:
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    # Forked loader workers, which must say nothing of their own.
    for number, (batch,) in enumerate(DataLoader(TensorDataset(torch.randn(10**6, 16)), batch_size=4, num_workers=1)):
        model(batch).square().mean().backward()
        optimizer.step()
        update()
        time.sleep(0.015)
        if number % 20 == 0 and ended():
            return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stop", type=pathlib.Path, required=True, help="the first training ends when this appears")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    at_end = PeriodicExportingMetricReader(ConsoleMetricExporter(formatter=last), NEVER_MS)
    provider = MeterProvider([PrometheusMetricReader(), at_end])
    start_http_server(int(os.environ["OTEL_EXPORTER_PROMETHEUS_PORT"]), addr="127.0.0.1")
    counted = provider.get_meter("mine").create_counter("mine.steps")
    handle = eroica_otel.instrument(meter_provider=provider)
    train(arguments.stop.exists, lambda: counted.add(1))
    handle.close()
    print(f"left {' '.join(sorted(shown()))}", flush=True)
    eroica_otel.instrument(meter_provider=provider)
    train(lambda: "eroica_worker" in shown(), lambda: counted.add(1))


if __name__ == "__main__":
    main()
