"""Frozen types that cross the borders of stages. No I/O, no torch, no OpenTelemetry.

Times named ``*_ns`` are int64 nanoseconds of the host's monotonic clock (``time.perf_counter_ns``) unless a name says
``realtime``; ``*_seconds`` are float seconds. A missing measurement is None or NaN, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from eroica_otel.verdicts import Detail as Detail
from eroica_otel.verdicts import Finding as Finding
from eroica_otel.verdicts import FunctionDetail as FunctionDetail
from eroica_otel.verdicts import Report as Report
from eroica_otel.verdicts import Timeline as Timeline
from eroica_otel.verdicts import Victims as Victims

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA = 1
"""Version of the series and of the report contract."""

KINDS = ("compute", "memory", "communication", "host", "python")
"""Kinds of function, in the order in which a GPU job charges an instant (docs/how-it-works.md)."""

GPU_RESOURCES = ("sm_clock", "sm", "dram", "pcie", "nvlink")
"""What mu and sigma may measure of a GPU."""
GPU_STATES = ("gpu_slowdown", "gpu_power_cap")
"""Shares of the time in which the clocks of the GPU were held down: by heat or its power supply; by its power limit."""
HOST_RATIOS = ("process_cpu", "cgroup_cpu", "cgroup_memory", "numa_away", *GPU_STATES)
"""Shares, 0 to 1: of the cores that the process may use, of the CPU quota, of the memory limit (the highest), of the
time on another NUMA node than the usual one, and GPU_STATES."""
HOST_RATES = ("minor_faults", "major_faults", "process_disk_read", "process_disk_write", "link_down")
"""Page faults, bytes from and to disks, and how often the link of the collectives went down, a second."""
STATES = ("learning", "healthy", "degraded", "blocked", "paused", "finished", "unmatched")
REASONS = ("reference", "degraded", "blocked", "manual", "periodic")
OUTCOMES = ("sent", "failed", "skipped")
SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a worker is: the labels that stand on each of its data points, and what joins it to other exporters."""

    training_job: str
    rank: int
    host: str
    team: str = ""
    role: str = ""
    world_size: int = 1
    local_rank: int = 0
    run_id: str = ""
    restart: int = 0

    def labels(self) -> dict[str, str]:
        """Return the labels of every data point of this worker (role is "" until it is known)."""
        return {
            "training_job": self.training_job,
            "team": self.team,
            "rank": str(self.rank),
            "host": self.host,
            "role": self.role,
        }


class Point(NamedTuple):
    """One data point as Prometheus would show it: series name, labels, value."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Window:
    """One agreed profile: all workers, the same iterations.

    Attributes:
        id: Unix seconds of the decision.
        start: Number of the first iteration inside; 0 for a blocked window, which goes by wall clock.
        stop: Number of the first iteration after (exclusive); 0 for a blocked window.
    """

    id: int
    reason: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Collective:
    """What one collective function moved inside the window, per process group.

    Attributes:
        group: Name of the process group, "" when it cannot be known.
        bytes: Bytes of this worker's input over all calls, None when the trace does not tell.
        fastest_seconds: 5th percentile of the duration of a call.
    """

    group: str
    calls: int
    bytes: int | None
    fastest_seconds: float


@dataclass(frozen=True, slots=True)
class Pattern:
    """(beta, mu, sigma) of one function at one worker in one window.

    Attributes:
        function_id: 12 hex digits of kind and identity, equal on all workers that run the same function.
        function: Short name, at most 128 characters.
        kind: One of KINDS.
        family: Group inside the kind (gemm, collective, input, wait, gc, ...).
        resource: What mu and sigma measure ("cpu", "nic", ...), "" where nothing was measured.
        beta: Share of the window charged to the function, in [0, 1].
        mu: Mean use of the resource while critical, in [0, 1]; None without samples.
        sigma: Standard deviation of the same; None without samples.
        noise_seconds: Standard deviation of its seconds per iteration over sub-windows (reference windows only).
        peaks: 90th percentile of the rate of links (nic_tx, nic_rx, nvlink), communication only.
        collectives: Per process group, communication only.
        stack: Frames outermost first as "module:qualname:firstline", python only.
    """

    function_id: str
    function: str
    kind: str
    family: str
    resource: str
    beta: float
    mu: float | None = None
    sigma: float | None = None
    noise_seconds: float | None = None
    peaks: Mapping[str, float] = field(default_factory=dict)
    collectives: tuple[Collective, ...] = ()
    stack: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerWindow:
    """Everything one worker reports about one window; the unit that travels to the localizer.

    Attributes:
        window_id: Unix seconds of the decision.
        iterations: Whole iterations inside; 0 for a blocked window, which has python patterns alone.
        events: Trace events captured.
        blocked_seconds: How long training stood still for stop and save.
        end_timestamp_seconds: Unix time of the end, by the worker's own clock (to show, never to compare).
        start_iteration: First iteration that was really profiled (a late worker starts later).
        cpu_seconds: CPU time of the training thread in the window.
        sampler_gap_seconds: Longest gap between two stack samples.
        throttled_ratio: Share of the window in which the cgroup was throttled; None when unreadable.
        run_delay_ratio: Share of the window in which the training thread waited for a core; None when unreadable.
        stopped_seconds: Time the process was in state T during the window.
        after_ratio: Iteration time after the window over the time before; None until it is known.
        kinds: Charged share by kind, and "idle"; sums to 1.
        floor: Smallest beta that was kept; a function that is absent had a share in [0, floor].
        dropped: Functions that were cut by the budget.
        patterns: By beta, largest first.
        signature: Key of the learned loop (docs/method.md, Gamma), equal on workers of one job and over restarts.
        progress: Collectives by process group as (enqueued, completed) at the end of a blocked window; completed is
            None where torch does not tell.
        silent_seconds: Time since the training's last event at the end of a blocked window; None for other reasons.
        unknown: Events (None where they are not told) and their seconds by category of the trace that the table of
            kinds does not know, and so charges to nothing; few, the longest first.
        host_use: What the process and its cgroup used, by HOST_RATIOS and HOST_RATES; what is not known is absent.
        timeline: Of a trace alone, for a picture: as Timeline.shares. It does not travel.
    """

    identity: Identity
    window_id: int
    reason: str
    seconds: float
    iterations: int
    patterns: tuple[Pattern, ...]
    kinds: Mapping[str, float] = field(default_factory=dict)
    floor: float = 0.0
    dropped: int = 0
    events: int = 0
    blocked_seconds: float = 0.0
    end_timestamp_seconds: float = 0.0
    start_iteration: int = 0
    cpu_seconds: float | None = None
    sampler_gap_seconds: float | None = None
    throttled_ratio: float | None = None
    run_delay_ratio: float | None = None
    stopped_seconds: float = 0.0
    after_ratio: float | None = None
    signature: str = ""
    progress: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    silent_seconds: float | None = None
    unknown: Mapping[str, tuple[int | None, float]] = field(default_factory=dict)
    host_use: Mapping[str, float] = field(default_factory=dict)
    timeline: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoaderSamples:
    """Stack samples of one process of the rank's DataLoader; arrays as in Capture.

    Attributes:
        process: Its number.
        batch_ns: When it handed over a batch, sorted.
        ended: Whether its file was written to the end; else it was killed or hangs, and its last stack holds on.
    """

    process: int
    frames: tuple[tuple[str, str, str, int], ...]
    stacks: tuple[tuple[int, ...], ...]
    stack_ns: NDArray[np.int64]
    stack_ids: NDArray[np.int32]
    cpu_ns: NDArray[np.int64]
    batch_ns: NDArray[np.int64]
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Capture:
    """Raw material of one window on one worker, as it comes out of the training process.

    Arrays are one-dimensional and sorted by time. ``stack_ids[i]`` is the stack seen at ``stack_ns[i]``; it indexes
    ``stacks``, whose items index ``frames`` (outermost first). ``cpu_ns`` is the cumulative CPU time of the training
    thread at ``stack_ns``. ``nic_tx``/``nic_rx`` are cumulative bytes at ``nic_ns``.

    Attributes:
        window: What was agreed.
        start_ns: Start of the profiled stretch.
        end_ns: End of the profiled stretch.
        iteration_ns: Borders of the iterations inside, first = start, last = end; shape [iterations + 1].
        realtime_offset_ns: realtime minus monotonic, at start and at end; traces carry realtime.
        training_thread: Native id of the thread that trains.
        trace: Path of the Kineto trace, "" in mode ``stacks``.
        frames: (module, qualified name, file, first line of the function).
        gc_ns: Start and end of each garbage collection of the process; shape [n, 2].
        nic_peak_bytes: Link speed in bytes per second, None when unknown.
        missing: Resources that could not be sampled, with the reason.
        gpu: Whether the process used a GPU and its kernels were to be captured.
        progress, silent_seconds: As WorkerWindow, of a blocked window.
        loaders: The processes of the rank's DataLoader that were sampled.
    """

    window: Window
    identity: Identity
    start_ns: int
    end_ns: int
    iteration_ns: NDArray[np.int64]
    realtime_offset_ns: tuple[int, int]
    training_thread: int
    trace: str
    frames: tuple[tuple[str, str, str, int], ...]
    stacks: tuple[tuple[int, ...], ...]
    stack_ns: NDArray[np.int64]
    stack_ids: NDArray[np.int32]
    cpu_ns: NDArray[np.int64]
    gc_ns: NDArray[np.int64]
    nic_ns: NDArray[np.int64]
    nic_tx: NDArray[np.int64]
    nic_rx: NDArray[np.int64]
    nic_peak_bytes: float | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    blocked_seconds: float = 0.0
    throttled_ratio: float | None = None
    run_delay_ratio: float | None = None
    stopped_seconds: float = 0.0
    end_realtime_seconds: float = 0.0
    signature: str = ""
    gpu: bool = False
    progress: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    silent_seconds: float | None = None
    loaders: tuple[LoaderSamples, ...] = ()

    @property
    def all_frames(self) -> tuple[tuple[str, str, str, int], ...]:
        """Frames of every stack in it, those of the loader's processes too."""
        return sum((one.frames for one in self.loaders), self.frames)


@dataclass(frozen=True, slots=True)
class Events:
    """Trace events of one process as columns, all of shape [n], sorted by start.

    Attributes:
        start_ns: Start, monotonic nanoseconds.
        end_ns: End, monotonic nanoseconds.
        name: Index into ``names``.
        category: Index into ``categories``.
        thread: Thread or stream id.
        names: Distinct event names.
        categories: Distinct categories.
        collectives: Per event index of a collective: (process group, bytes or None).
        total: Complete ("X") events read, before any selection.
    """

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    name: NDArray[np.int32]
    category: NDArray[np.int32]
    thread: NDArray[np.int64]
    names: tuple[str, ...]
    categories: tuple[str, ...]
    collectives: Mapping[int, tuple[str, int | None]]
    total: int
