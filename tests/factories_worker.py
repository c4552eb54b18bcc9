"""Builders for the worker side: clocks, event rows, standings, captures, windows, and small real trainings."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from eroica_otel.agree.window import Standing
from eroica_otel.model import Capture, Collective, Identity, Pattern, Window, WorkerWindow
from eroica_otel.signals.hooks import Row
from eroica_otel.signals.steps import Iteration, Learner
from eroica_otel.status import Status

TOKEN_NS = 10_000_000
"""Every event of a token sequence takes the loop 10 ms ..."""
INPUT_NS = 2_000_000
"""... of which next() takes 2 ms."""
COLLECTIVE_GROUPS = ("0", "1", "2", "3")


@dataclass
class FakeClock:
    """A clock that stands still until it is told to move."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def loop(text: str) -> list[str]:
    """Return the tokens of a loop: "D0 (D0 O0)*3" -> D0 D0 O0 D0 O0 D0 O0; groups may be nested."""
    group = re.compile(r"\(([^()]*)\)\*(\d+)")
    while (match := group.search(text)) is not None:
        text = text[: match.start()] + f" {match[1]} " * int(match[2]) + text[match.end() :]
    return text.split()


@dataclass
class Rows:
    """Turns tokens into rows as Recorder writes them; Dn = input of loader n, On = update by optimizer n."""

    now_ns: int = 1_000_000_000
    steps: int = 0
    counted: str = ""
    token_ns: int = TOKEN_NS

    def of(self, tokens: Iterable[str]) -> Iterator[Row]:
        for token in tokens:
            number = int(token[1:])
            if token[0] == "D":
                yield (1000 + number, self.now_ns, self.now_ns + INPUT_NS)
            else:
                self.counted = self.counted or token
                self.steps += token == self.counted
                yield (2000 + number, ~self.steps, self.now_ns)
            self.now_ns += self.token_ns


@dataclass
class Play:
    """A learner that is fed token sequences one after the other."""

    learner: Learner = field(default_factory=Learner)
    rows: Rows = field(default_factory=Rows)

    def __call__(self, text: str) -> list[Iteration]:
        return self.learner.feed(self.rows.of(loop(text)))


def identity(rank: int = 0, **changes: Any) -> Identity:
    given: dict[str, Any] = {
        "training_job": "llm-7b", "host": "host-0", "team": "vision", "role": "all", "world_size": 4,
        "local_rank": rank, "run_id": "run-1",
    }  # fmt: skip
    return Identity(**(given | {"rank": rank} | changes))


def standing(rank: int = 0, **changes: Any) -> Standing:
    given: dict[str, Any] = {"iteration": 100, "period_seconds": 0.1, "most_iterations": 1000}
    return Standing(**(given | {"rank": rank} | changes))


def status(rank: int = 0, **changes: Any) -> Status:
    given: dict[str, Any] = {
        "pid": 1, "state": "healthy", "iterations": 600, "irregular": 2, "input_seconds": 1.5,
        "baseline_seconds": 0.1, "recent_seconds": 0.102, "ratio": 0.02, "last_update_seconds": 1_764_430_000.0,
        "window_id": 1_764_430_000, "after": (1_764_430_000, 1.01), "nic": "eth0", "signature": "1in1step-2p-10",
        "collectives": dict.fromkeys(COLLECTIVE_GROUPS, 7), "failures": {"store": 2},
        "groups": tuple((name, 4, "abcd1234") for name in COLLECTIVE_GROUPS), "windows": {"degraded skipped": 1},
    }  # fmt: skip
    return Status(**(given | {"identity": identity(rank)} | changes))


def capture(folder: Path | None = None, **changes: Any) -> Capture:
    """Return one second of two iterations, 100 samples of two stacks, and a trace where ``folder`` has one."""
    times = np.arange(100, dtype=np.int64) * 10_000_000
    given: dict[str, Any] = {
        "window": Window(1_764_430_000, "manual", 10, 12), "identity": identity(), "start_ns": 0,
        "end_ns": 1_000_000_000, "iteration_ns": np.array([0, 500_000_000, 1_000_000_000], np.int64),
        "realtime_offset_ns": (10**18, 10**18), "training_thread": 7, "trace": "",
        "frames": (("train", "main", "train.py", 1), ("data", "augment", "data.py", 5)), "stacks": ((0,), (0, 1)),
        "stack_ns": times, "stack_ids": (np.arange(100) % 2).astype(np.int32), "cpu_ns": times // 2,
        "gc_ns": np.zeros((0, 2), np.int64), "nic_ns": times, "nic_tx": times, "nic_rx": times * 2,
        "nic_peak_bytes": 1.25e9, "missing": {}, "blocked_seconds": 0.1, "end_realtime_seconds": 1_764_430_001.0,
    }  # fmt: skip
    return Capture(**(given | changes))


def pattern(number: int = 0, **changes: Any) -> Pattern:
    given: dict[str, Any] = {
        "function_id": f"{number:012x}", "function": f"function_{number}", "kind": "python", "family": "other",
        "resource": "cpu", "beta": 0.5 / (number + 1), "mu": 0.5, "sigma": 0.1, "noise_seconds": 0.001,
        "stack": ("train:main:1", f"data:function_{number}:5"),
    }  # fmt: skip
    return Pattern(**(given | changes))


def all_reduce(number: int = 900, **changes: Any) -> Pattern:
    given: dict[str, Any] = {
        "function": "all_reduce", "kind": "communication", "family": "collective", "resource": "nic", "stack": (),
        "peaks": {"nic_tx": 0.8, "nic_rx": 0.7},
        "collectives": tuple(Collective(name, 60, 4096, 0.002) for name in COLLECTIVE_GROUPS),
    }  # fmt: skip
    return pattern(number, **(given | changes))


def worker_window(patterns: tuple[Pattern, ...] | None = None, **changes: Any) -> WorkerWindow:
    """Return a window in which nothing is missing."""
    given: dict[str, Any] = {
        "identity": identity(), "window_id": 1_764_430_000, "reason": "reference", "seconds": 5.0, "iterations": 30,
        "patterns": (pattern(0), pattern(1), all_reduce()) if patterns is None else patterns, "events": 1000,
        "kinds": {"compute": 0.4, "memory": 0.0, "communication": 0.2, "host": 0.0, "python": 0.3, "idle": 0.1},
        "floor": 0.001, "dropped": 0, "blocked_seconds": 0.5, "end_timestamp_seconds": 1_764_430_005.0,
        "start_iteration": 512, "cpu_seconds": 1.5, "sampler_gap_seconds": 0.004, "throttled_ratio": 0.0,
        "run_delay_ratio": 0.01, "signature": "1in1step-2p-10", "silent_seconds": 15.0,
        "progress": dict.fromkeys(COLLECTIVE_GROUPS, (7, 6)), "unknown": {"warp_drive": (3, 0.25)},
        "host_use": {"cgroup_memory": 0.5, "major_faults": 2.0},
    }  # fmt: skip
    return WorkerWindow(**(given | changes))


class Endpoint:
    """An OTLP endpoint that answers with the status it is told."""

    def __init__(self) -> None:
        self.answer = 200
        self.bodies: list[bytes] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(endpoint.answer)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def series(self, number: int = -1) -> set[str]:
        message = ExportMetricsServiceRequest.FromString(self.bodies[number])
        return {m.name for r in message.resource_metrics for s in r.scope_metrics for m in s.metrics}
