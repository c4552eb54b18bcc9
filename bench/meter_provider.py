"""What series on a meter provider of the training's cost (docs/delivery.md), for a worker that shows as many as it may.

CPU time of one thread, best of five rounds: what the helper takes to hand its points back (once a second), what the
training process takes to read them (at each collect), what the whole collect takes with OpenTelemetry's SDK, and what
one iteration takes to be recorded, which happens on the plugin's 1 Hz thread.

    python bench/meter_provider.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from eroica_otel import names
from eroica_otel.export.budget import MOST_SERIES
from eroica_otel.export.handed import read, write
from eroica_otel.export.metered import Metered
from eroica_otel.model import Identity, Point
from eroica_otel.status import POINTS_FILE

ROUNDS, CALLS = 5, 50
LABELS = Identity("llm-7b", 0, "host-0", "vision", "all", 8).labels()


def points(count: int) -> tuple[Point, ...]:
    """Return ``count`` points of three patterns' series, with names as long as they get."""
    series = (names.PATTERN_BETA, names.PATTERN_MU, names.PATTERN_SIGMA)
    return tuple(
        Point(
            series[number % 3].name,
            {**LABELS, "function_id": f"{number // 3:012x}", "function": f"{number // 3:0128}", "kind": "python",
             "family": "other", "resource": "cpu"},
            1 / (number + 3),
        )
        for number in range(count)
    )  # fmt: skip


def cpu_seconds(call: Callable[[], object]) -> float:
    """Return the CPU time of one call on this thread, the best round's mean."""
    found = []
    for _ in range(ROUNDS):
        begin = time.thread_time()
        for _ in range(CALLS):
            call()
        found.append((time.thread_time() - begin) / CALLS)
    return min(found)


def measure(folder: Path) -> dict[str, float]:
    """Return seconds of CPU by what they are for, and the bytes of the file."""
    path, shown = folder / POINTS_FILE, points(MOST_SERIES)
    reader = InMemoryMetricReader()
    metered = Metered(MeterProvider([reader], shutdown_on_exit=False))
    metered.follow(folder, lambda stage, call: call())
    hand_back = cpu_seconds(lambda: write(path, shown))
    return {
        "hand_back_seconds": hand_back,
        "read_seconds": cpu_seconds(lambda: read(path)),
        "collect_seconds": cpu_seconds(reader.get_metrics_data),
        "record_seconds": cpu_seconds(lambda: metered.record(LABELS, [(0.1, 0.2)])),
        "file_bytes": float(path.stat().st_size),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    print(f"{MOST_SERIES} series, {found['file_bytes'] / 1000:.0f} kB")
    print(f"helper hands them back  {found['hand_back_seconds'] * 1e3:.2f} ms, once a second")
    print(f"trainer reads them      {found['read_seconds'] * 1e3:.2f} ms, at each collect")
    print(f"whole collect           {found['collect_seconds'] * 1e3:.2f} ms")
    print(f"one iteration recorded  {found['record_seconds'] * 1e6:.1f} us")
    if arguments.json:
        arguments.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
