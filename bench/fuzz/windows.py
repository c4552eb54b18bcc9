"""A window of a worker, and all that the worker shows, from which the seeds of the network's decoders are made."""

from __future__ import annotations

from eroica_otel import names
from eroica_otel.export.points import window_points
from eroica_otel.model import Collective, Identity, Pattern, Point, WorkerWindow

WHO = Identity("job", 3, "node", "team", "all", world_size=4, local_rank=1, run_id="run")


def window(reason: str = "degraded") -> WorkerWindow:
    """Return a window with a Python function and a collective."""
    stack = ("train:main:10", "data:augment:42")
    patterns = (
        Pattern("a" * 12, "augment (data.py:42)", "python", "other", "cpu", 0.4, 0.5, 0.1, 0.01, stack=stack),
        Pattern("b" * 12, "all_reduce", "communication", "collective", "nic", 0.3, 0.2, 0.1, None, {"nic_tx": 0.8},
                (Collective("0", 60, 4096, 0.002), Collective("1", 6, None, 0.001))),
    )  # fmt: skip
    blocked = reason == "blocked"
    return WorkerWindow(
        identity=WHO, window_id=1_764_430_000, reason=reason, seconds=5.0, iterations=0 if blocked else 30,
        patterns=patterns, kinds={"python": 0.4, "communication": 0.3, "idle": 0.3}, floor=0.001, events=1000,
        end_timestamp_seconds=1_764_430_005.5, start_iteration=512, cpu_seconds=1.5, sampler_gap_seconds=0.004,
        signature="loop-1", progress={"0": (7, 6), "1": (3, None)} if blocked else {},
        silent_seconds=9.0 if blocked else None,
    )  # fmt: skip


def points_of(given: WorkerWindow) -> list[Point]:
    """Return everything that one collect of this worker holds."""
    who = given.identity.labels()
    info = dict.fromkeys(names.WORKER_INFO.labels, "") | {"local_rank": "1", "run_id": "run", "restart": "0"}
    return [
        *window_points(given),
        Point(names.WORLD_SIZE.name, who, 4.0),
        Point(names.WORKER_INFO.name, who | info | who, 1.0),
        Point(names.ITERATIONS.name, who, 600.0),
        Point(names.WORKER_STATE.name, who | {"state": "degraded"}, 1.0),
    ]
