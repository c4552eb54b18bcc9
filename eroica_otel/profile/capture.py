"""One window inside the training process: start, borders of iterations, stop, save. Runs on the training thread.

In the trainer nothing is parsed, compressed or walked: stop and save hold the GIL for 3 to 6 s per million events, and
that is the whole cost.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eroica_otel.errors import CaptureError
from eroica_otel.model import Capture, Identity, Window
from eroica_otel.profile import samples
from eroica_otel.profile.bell import Bell
from eroica_otel.profile.kineto import TorchProfiler
from eroica_otel.profile.stacks import StackSampler

BYTES_PER_EVENT_MEMORY = 2200
BYTES_PER_EVENT_FILE = 300


@dataclass(frozen=True, slots=True)
class Readings:
    """Cumulative readings at one border of a window; None = cannot be read, {} = no cgroup tells of throttling."""

    run_delay_ns: int | None
    throttled_ns: Mapping[str, int]


def affordable_iterations(
    events_per_iteration: float, budget_events: int, memory_bytes: int | None, disk_bytes: int | None
) -> int:
    """Return how many iterations a window may hold; 0 = not even one fits.

    A captured event takes 2.2 KB of memory until it is saved (bench/README.md) and 0.3 KB on disk; at most half of what
    is free is used.
    """
    if events_per_iteration <= 0:
        return 1_000_000
    events = float(budget_events)
    if memory_bytes is not None:
        events = min(events, memory_bytes / 2 / BYTES_PER_EVENT_MEMORY)
    if disk_bytes is not None:
        events = min(events, disk_bytes / 2 / BYTES_PER_EVENT_FILE)
    return int(events / events_per_iteration)


def realtime_offset_ns() -> int:
    """Return realtime minus monotonic; the closest of three tries, because a descheduled try is off by milliseconds."""
    tries = []
    for _ in range(3):
        before = time.perf_counter_ns()
        real = time.time_ns()
        after = time.perf_counter_ns()
        tries.append((after - before, real - (before + after) // 2))
    return min(tries)[1]


class WindowCapture:
    """Captures one window; built and driven by the plugin, every method on the training thread.

    Attributes:
        blocked_seconds: How long the training stood still for start, stop and save.
        failure: Why nothing was captured, "" while all is well.
    """

    def __init__(
        self,
        window: Window,
        identity: Identity,
        folder: Path,
        profiler: TorchProfiler | None,
        hertz: float,
        nic: Callable[[], tuple[int, int] | None] | None,
        readings: Callable[[], Readings],
        bell: Bell | None = None,
    ) -> None:
        """Args: bell: What wakes the processes of the training's DataLoader."""
        self.window = window
        self._identity = identity
        self._folder = folder
        self._profiler = profiler
        self._readings = readings
        self._hertz, self._bell = hertz, bell
        self._thread = threading.get_ident()
        self._sampler = StackSampler(self._thread, hertz, nic)
        self._borders: list[int] = []
        self._offsets = [0, 0]
        self._before = self._after = Readings(None, {})
        self._running = False
        self.blocked_seconds = 0.0
        self.failure = ""

    def start(self, iteration: int) -> None:
        """Begin at the update ``iteration``; raises CaptureError or OSError and leaves nothing running."""
        begin = time.perf_counter_ns()
        self._folder.mkdir(mode=0o700)
        self.window = replace(self.window, start=iteration)
        if self._profiler is not None:
            self._profiler.start()
        try:
            self._sampler.start()
        except RuntimeError as error:  # no further thread may be started
            if self._profiler is not None:
                self._profiler.stop()
            raise CaptureError(f"the stack sampler cannot start: {error}") from error
        if self._bell is not None:
            self._bell.ring(self.window.id, self._hertz)
        self._before = self._readings()
        self._offsets[0] = realtime_offset_ns()
        self._running = True
        self._borders.append(time.perf_counter_ns())
        self.blocked_seconds += (self._borders[0] - begin) / 1e9

    def border(self) -> None:
        """Mark the end of an iteration inside the window."""
        self._borders.append(time.perf_counter_ns())

    @property
    def here(self) -> bool:
        """Whether this is the thread that started: torch's profiler can be stopped by no other."""
        return threading.get_ident() == self._thread

    def age_seconds(self) -> float:
        """Return how long ago the window began; 0 before."""
        return (time.perf_counter_ns() - self._borders[0]) / 1e9 if self._borders else 0.0

    def abort(self, why: str) -> None:
        """Stop without a result (the user's profiler, the end of training)."""
        if self._running:
            self._running = False
            self.failure = why
            self._silence()
            self._sampler.stop()
            if self._profiler is not None and self.here:
                self._profiler.stop()

    def stop(self, facts: Mapping[str, Any]) -> Capture:
        """End at the last border, save everything, return what was captured.

        Args:
            facts: Further fields of model.Capture (nic_peak_bytes, missing, signature).

        Raises:
            CaptureError: the trace could not be written.
            OSError: the samples could not be written.
        """
        self._running = False
        self._after = self._readings()
        self._offsets[1] = realtime_offset_ns()
        self._silence()
        self._sampler.stop()
        trace = self._save_trace() if self._profiler is not None else ""
        self.blocked_seconds += (time.perf_counter_ns() - self._borders[-1]) / 1e9
        capture = self._capture(trace, facts)
        samples.write(self._folder, capture)
        return capture

    def _silence(self) -> None:
        if self._bell is not None:
            self._bell.silence(self.window.id)

    def _save_trace(self) -> str:
        assert self._profiler is not None
        result = self._profiler.stop()
        path = self._folder / samples.TRACE
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        result.save(str(path))
        if not _is_complete(path):
            raise CaptureError(
                f"the trace could not be written to {self._folder}: is the disk full? EROICA_DIR moves it"
            )
        path.chmod(0o600)  # Kineto puts a file of its own in place of ours
        return str(path)

    def _capture(self, trace: str, facts: Mapping[str, Any]) -> Capture:
        # The sampler may still be in its last round: each column is cut to the one that is written last.
        sampler, count, seen = self._sampler, len(self._sampler.stack_ns), len(self._sampler.nic_rx)
        length = (self._borders[-1] - self._borders[0]) or 1
        stack_ns = np.array(sampler.stack_ns, np.int64)[:count]
        inside = (stack_ns >= self._borders[0]) & (stack_ns <= self._borders[-1])
        return Capture(
            window=self.window,
            identity=self._identity,
            start_ns=self._borders[0],
            end_ns=self._borders[-1],
            iteration_ns=np.array(self._borders, np.int64),
            realtime_offset_ns=(self._offsets[0], self._offsets[1]),
            training_thread=threading.get_native_id(),
            trace=trace,
            frames=tuple(sampler.frames),
            stacks=tuple(sampler.stacks),
            stack_ns=stack_ns[inside],
            stack_ids=np.array(sampler.stack_ids, np.int32)[:count][inside],
            cpu_ns=np.array(sampler.cpu_ns, np.int64)[:count][inside],
            gc_ns=np.array(sampler.gc_ns, np.int64).reshape(-1, 2),
            nic_ns=np.array(sampler.nic_ns, np.int64)[:seen],
            nic_tx=np.array(sampler.nic_tx, np.int64)[:seen],
            nic_rx=np.array(sampler.nic_rx, np.int64)[:seen],
            blocked_seconds=self.blocked_seconds,
            throttled_ratio=_largest_share(self._before.throttled_ns, self._after.throttled_ns, length),
            run_delay_ratio=_share(self._before.run_delay_ns, self._after.run_delay_ns, length),
            end_realtime_seconds=time.time(),
            gpu=self._profiler is not None and self._profiler.gpu,
            **facts,
        )


def _is_complete(path: Path) -> bool:
    """Whether Kineto wrote its file to the end: it reports a full disk to nobody."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8))
        return file.read().rstrip().endswith(b"}")


def _share(before: int | None, after: int | None, length_ns: int) -> float | None:
    """Return the part of the window that a cumulative reading grew by; more than 1 on several cores is cut."""
    if before is None or after is None:
        return None
    return min(1.0, max(0, after - before) / length_ns)


def _largest_share(before: Mapping[str, int], after: Mapping[str, int], length_ns: int) -> float | None:
    """Return the largest of the shares of several readings, by name; None where none was read at both borders."""
    shares = (_share(before[name], after[name], length_ns) for name in before.keys() & after.keys())
    return max((share for share in shares if share is not None), default=None)
