"""Builders of reports for the tests of publish/report; every keyword has a default that makes one consistent story.

The story: in job llm-7b rank 2 on node-c spends 46 ms of every 212 ms iteration in ``augment``; its peers wait in
all_reduce.
"""

from __future__ import annotations

import math
from typing import Any

from eroica_otel.model import Detail, Finding, FunctionDetail, Report, Victims

NAN = math.nan
NODES = ("node-a", "node-b", "node-c", "node-d")


def finding(**changes: Any) -> Finding:
    """Return the story's finding."""
    values: dict[str, Any] = {
        "verdict": "culprit",
        "cause": "python_overhead",
        "domain": "code",
        "severity": "critical",
        "confidence": "high",
        "scope": "worker",
        "kind": "python",
        "function": "augment",
        "function_id": "0123456789ab",
        "stack": ("train:main:12", "train:step:30", "train:augment:41"),
        "ranks": (2,),
        "hosts": ("node-c",),
        "roles": ("all",),
        "impact_ratio": 0.217,
        "impact_seconds": 0.046,
        "expectation_distance": 0.207,
        "differential_distance": 1.0,
        "drift_distance": 0.208,
        "persistence": "once",
        "evidence": (
            "own CPU time 44 ms an iteration, its peers 0.4 ms; absent in the reference window",
            "the others wait for it: rank 2 waits 18 ms in all_reduce, ranks 0, 1, 3 wait 61 to 64 ms",
        ),
        "advice": "move the work into DataLoader workers or off the training thread",
    }
    return Finding(**values | changes)


def job_finding(**changes: Any) -> Finding:
    """Return a finding that concerns all workers alike."""
    values: dict[str, Any] = {"verdict": "job", "scope": "job", "ranks": (), "hosts": (), "roles": ()}
    return finding(**values | changes)


def function(workers: int = 4, culprits: tuple[int, ...] = (2,), **changes: Any) -> FunctionDetail:
    """Return ``augment`` over all ranks: 46 ms at the culprits, about 0.4 ms elsewhere (a fixed small ripple)."""
    seconds = tuple(0.046 if rank in culprits else 0.0004 + 0.0001 * (rank % 3) for rank in range(workers))
    values: dict[str, Any] = {
        "function_id": "0123456789ab",
        "function": "augment",
        "kind": "python",
        "seconds": seconds,
        "cpu_seconds": tuple(0.96 * value for value in seconds),
        "median": 0.0005,
        "tolerance": 0.0042,
        "reference": NAN,
    }
    return FunctionDetail(**values | changes)


def kinds(workers: int = 4, culprits: tuple[int, ...] = (2,)) -> dict[str, tuple[float, ...]]:
    """Return seconds per iteration by kind; each rank's sum is 212 ms."""
    return {
        "compute": (0.121,) * workers,
        "memory": (0.002,) * workers,
        "communication": tuple(0.018 if rank in culprits else 0.063 for rank in range(workers)),
        "host": (0.003,) * workers,
        "python": tuple(0.059 if rank in culprits else 0.014 for rank in range(workers)),
        "idle": (0.009,) * workers,
    }


def detail(workers: int = 4, culprits: tuple[int, ...] = (2,), **changes: Any) -> Detail:
    """Return the facts beside the story; each rank has a node of its own up to 4 workers, eight share one above."""
    hosts = NODES[:workers] if workers <= len(NODES) else tuple(f"node-{rank // 8:03d}" for rank in range(workers))
    values: dict[str, Any] = {
        "iteration_seconds": 0.212,
        "reference_iteration_seconds": 0.166,
        "window_seconds": 5.2,
        "iterations": 31,
        "verdict_seconds": 2.1,
        "ranks": tuple(range(workers)),
        "hosts": hosts,
        "kinds": kinds(workers, culprits),
        "functions": (function(workers, culprits),),
        "functions_seen": 42,
        "largest_difference": ("augment", 2, 0.215),
        "ruled_out": (
            "network (link rates at 96 to 99 % of the best)",
            "CPU limits (throttled 0 %)",
            "input (0.3 ms)",
        ),
    }
    return Detail(**values | changes)


def report(**changes: Any) -> Report:
    """Return the whole story."""
    values: dict[str, Any] = {
        "training_job": "llm-7b",
        "window_id": 1764430000,
        "reason": "degraded",
        "workers_seen": 4,
        "workers_expected": 4,
        "findings": (finding(),),
        "victims": (Victims(ranks=(0, 1, 3), function="all_reduce", waits_for=(2,)),),
        "detail": detail(),
    }
    return Report(**values | changes)


def quiet(**changes: Any) -> Report:
    """Return a verdict without any finding: the furthest is all_reduce of rank 1 with 1.8 % of the iteration."""
    all_reduce = function(
        4, (), function_id="aaaaaaaaaaaa", function="all_reduce", kind="communication",
        seconds=(0.061, 0.065, 0.0612, 0.0613), cpu_seconds=(NAN,) * 4, median=0.06125, tolerance=0.011, reference=0.06,
    )  # fmt: skip
    facts = detail(4, (), iteration_seconds=0.166, functions=(all_reduce,), largest_difference=("all_reduce", 1, 0.018))
    return report(**{"findings": (), "victims": (), "reason": "manual", "detail": facts} | changes)
