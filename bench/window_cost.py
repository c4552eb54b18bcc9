"""What one window costs in one mode, on a GPU (called by gpu_check.sh) or on the CPU. Prints one JSON object.

    python bench/window_cost.py [--mode light|exact] [--device cuda|cpu] [--iterations 100]

How the time for which training stands still grows with the number of events: bench/blocked.py, by the same training.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from eroica_otel import kinds
from eroica_otel.model import Capture, Events, Identity, Window
from eroica_otel.profile.capture import Readings, WindowCapture
from eroica_otel.profile.kineto import TorchProfiler, UserProfiler
from eroica_otel.summarize.pattern import summarize
from eroica_otel.summarize.readers.kineto import read

WIDTH, LAYERS, BATCH, LENGTH = 512, 8, 16, 256
SMALL = 8
"""Without a GPU everything is this many times smaller: that run only shows that the script still works."""

State = tuple[torch.nn.Module, torch.optim.Optimizer, torch.Tensor]


def training(device: str) -> State:
    """Return a small transformer with its optimizer and one batch, on the device."""
    by = 1 if device == "cuda" else SMALL
    layer = torch.nn.TransformerEncoderLayer(WIDTH // by, 8, 4 * WIDTH // by, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, max(1, LAYERS // by)).to(device)
    batch = torch.randn(BATCH // by, LENGTH // by, WIDTH // by, device=device)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4), batch


def run(iterations: int, state: State) -> float:
    """Return the median seconds of an iteration, the device's work included."""
    model, optimizer, batch = state
    seconds = []
    for _ in range(iterations):
        begin = time.perf_counter()
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if batch.is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def window_of(profiler: TorchProfiler, iterations: int, folder: Path) -> WindowCapture:
    """Return a window as the plugin makes it, not started, that writes to ``folder``."""
    window, who = Window(1, "manual", 0, iterations), Identity("window_cost", 0, "localhost")
    return WindowCapture(window, who, folder, profiler, 1000.0, None, lambda: Readings(None, {}))


def fill(window: WindowCapture, state: State, iterations: int) -> float:
    """Start the window and train inside; return the median seconds of an iteration."""
    window.start(0)
    inside = []
    for _ in range(iterations):
        inside.append(run(1, state))
        window.border()
    return statistics.median(inside)


def capture_window(mode: str, state: State, iterations: int, folder: Path) -> tuple[Capture, float]:
    """Return what a window of ``mode`` captured, and the median seconds of an iteration inside."""
    user = UserProfiler(torch, lambda: None)
    window = window_of(TorchProfiler(torch, mode, user), iterations, folder / "window-1")
    inside = fill(window, state, iterations)
    captured = window.stop({})
    user.close()
    return captured, inside


def kernels(events: Events) -> int:
    """Return how many GPU kernels were captured."""
    counts = Counter(events.category.tolist())
    return sum(count for index, count in counts.items() if kinds.is_kernel(events.categories[index]))


def main() -> int:
    """Print the figures of one mode; 1 when no kernel was captured on a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=("light", "exact"), default="light")
    there = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cuda", "cpu"), default=there)
    parser.add_argument("--iterations", type=int, default=100, help="before and after; inside twice as many")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # on shared cores more threads wait for one another, and times mean nothing
    state = training(arguments.device)
    run(30, state)
    before = run(arguments.iterations, state)
    with tempfile.TemporaryDirectory() as folder:
        captured, inside = capture_window(arguments.mode, state, 2 * arguments.iterations, Path(folder))
        after = run(arguments.iterations, state)
        events = read(captured.trace, captured.realtime_offset_ns)
        window = summarize(captured)
    found = kernels(events)
    figures = {
        "mode": arguments.mode,
        "gpu": torch.cuda.get_device_name() if arguments.device == "cuda" else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "kernels": found,
        "events": events.total,
        "events_per_second": round(events.total / window.seconds),
        "blocked_seconds": round(captured.blocked_seconds, 3),
        "blocked_seconds_per_million_events": round(captured.blocked_seconds / max(events.total, 1) * 1e6, 2),
        "iteration_ms": {"before": before * 1e3, "in": inside * 1e3, "after": after * 1e3},
        "iteration_ratio": {"in": inside / before, "after": after / before},
        "cupti_left_behind": after / before > 1.05 if arguments.device == "cuda" else None,
        "kinds": {kind: round(share, 4) for kind, share in window.kinds.items()},
        "largest": [(pattern.function, pattern.kind, round(pattern.beta, 4)) for pattern in window.patterns[:8]],
    }
    print(json.dumps(figures), flush=True)
    return int(found == 0 and arguments.device == "cuda")


if __name__ == "__main__":
    raise SystemExit(main())
