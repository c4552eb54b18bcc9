"""One rank of a short real training (gloo over loopback) that takes one window beside a node agent, for test_agent.py.

    python sampled_training.py FOLDER SHARED; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say which rank of which job

It prints its process, waits for a line, trains, and prints what a summary makes of its own samples and of the agent's.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

from eroica_otel.config import WorkerConfig
from eroica_otel.fromagent import with_agent
from eroica_otel.model import Identity, Window, WorkerWindow
from eroica_otel.profile import samples
from eroica_otel.signals.hooks import Recorder
from eroica_otel.status import Status
from eroica_otel.summarize import pattern
from eroica_otel.summarize.resources import HOLD
from eroica_otel.trainer import Windows

WINDOW = Window(1_764_430_000, "manual", 20, 80)
BUSY_SECONDS = 0.02
WHOLE = {**HOLD, "nic": 1.0}


def augment() -> int:
    """Burn CPU in Python, for long enough that every 100th of a second sees some."""
    until, count = time.thread_time() + BUSY_SECONDS, 0
    while time.thread_time() < until:
        count += 1
    return count


def fetch() -> None:
    """Wait, as for a file."""
    time.sleep(BUSY_SECONDS)


def train(windows: Windows, recorder: Recorder, identity: Identity) -> None:
    gradients, weights = torch.ones(1 << 20), torch.ones(256, 256)
    for step in range(WINDOW.stop + 3):
        if step == 3:
            windows.probe(identity)
        if step == 10:
            windows.take(WINDOW, identity, 15.0)
        fetch()
        augment()
        for _ in range(20):
            weights @ weights
        torch.distributed.all_reduce(gradients)
        recorder.update(windows)


def shown(window: WorkerWindow) -> dict[str, object]:
    """Return mu, sigma and link peaks by function, of those that take 3 % of the window."""
    large = [one for one in window.patterns if one.beta > 0.03]
    return {one.function: [one.resource, one.mu, one.sigma, dict(one.peaks)] for one in large}


def main(folder: Path, shared: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    recorder, failures = Recorder(lambda: None, lambda: None), list[str]()
    options: dict[str, Any] = {"nic": "lo", "nic_mbit": 8000, "hardware_dir": shared, "directory": str(folder)}
    config = WorkerConfig.from_env({}, **options)
    windows = Windows(recorder, config, folder, {}, lambda text: None, lambda stage, why: failures.append(why))
    print(json.dumps({"pid": os.getpid(), "thread": threading.get_native_id()}), flush=True)
    sys.stdin.readline()
    identity = Identity("sampled", torch.distributed.get_rank(), "here", world_size=2)
    train(windows, recorder, identity)
    time.sleep(0.6)  # so that the agent has sampled beyond the end
    capture = samples.read(folder / f"window-{WINDOW.id}")
    found = with_agent(capture, Status(identity, os.getpid(), **windows.equipment.told()), shared)
    steps = (found.capture.nic_ns[1:] - found.capture.nic_ns[:-1]) / 1e6
    result = {
        "own": shown(pattern.summarize(capture, hold=WHOLE)),
        "agent": shown(pattern.summarize(found.capture, hold=WHOLE, device=found.shares)),
        "finer": found.capture is not capture,
        "step_ms": float(sorted(steps)[len(steps) // 2]),
        "missing": dict(found.missing),
        "throttled": capture.throttled_ratio,
        "waited": capture.run_delay_ratio,
        "failures": failures,
    }
    windows.close()
    print(json.dumps(result), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
