"""What a reader of traces gives: one worker's trace as columns, whatever file it came from. No I/O.

Times are int64 nanoseconds of ONE clock, the trace's own: realtime (Unix) where the file tells it, else whatever clock
the file counts in. They are never compared with those of another worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eroica_otel.model import Capture, Events

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Steps:
    """The iterations that the trace marks itself (ProfilerStep#N), by start; shapes [n].

    Attributes:
        number: N.
        start_ns: Start.
        end_ns: End.
    """

    number: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """Python stacks that the trace carries itself; intervals of one thread may overlap, then the later start counts.

    Attributes:
        start_ns: Start, shape [n], sorted.
        end_ns: End, shape [n].
        thread: Thread, as in Events, shape [n].
        stack: Index into ``stacks``, shape [n].
        stacks: Frames by index into ``frames``, outermost first.
        frames: (module, qualified name, file, first line of the function), as kinds.Frame.
    """

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    thread: NDArray[np.int64]
    stack: NDArray[np.int32]
    stacks: tuple[tuple[int, ...], ...]
    frames: tuple[tuple[str, str, str, int], ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """How busy one resource was; a sample stands for the time from its own to the next.

    Attributes:
        time_ns: Times, strictly increasing, shape [n].
        ratio: Share of the peak in use, in [0, 1], NaN where it is not known, shape [n].
        peak_bytes: Of a link, bytes per second at its peak; NaN where it is unknown, and of everything else.
    """

    time_ns: NDArray[np.int64]
    ratio: NDArray[np.float64]
    peak_bytes: float = float("nan")


@dataclass(frozen=True, slots=True)
class Trace:
    """One worker's trace. What the file does not tell is None, "" or empty.

    Attributes:
        path: The file or folder it was read from.
        format: kineto, nsight or capture.
        events: Everything that was complete and usable, sorted by start.
        rank: Rank in the job, as the file says; None where it does not.
        world_size: Workers of the job.
        host: Name of the machine.
        backend: Backend of the process groups (nccl, gloo, ...).
        devices: Names of the accelerators of the node (not the one that this rank uses).
        groups: Process group -> ranks.
        steps: Iterations that the trace marks.
        python: Python stacks in the trace; None where it has none.
        skipped: What could not be used, or was repaired, by reason.
        gpu: Whether the process used an accelerator: kernels are in it, or calls that launch some.
        training_thread: Thread that carries the steps, else the optimizer, else most operators; None without any.
        metrics: Samples of the device by resource (sm, dram, pcie, nvlink).
        unread: Events and seconds by table of the file, of tables with events that are not read.
        notes: What a reader of the result should know.
        capture: Of our own folders: the capture with its samples; times are then monotonic.
    """

    path: str
    format: str
    events: Events
    rank: int | None
    world_size: int | None
    host: str
    backend: str
    devices: tuple[str, ...]
    groups: Mapping[str, tuple[int, ...]]
    steps: Steps
    python: PythonCalls | None
    gpu: bool
    training_thread: int | None
    skipped: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, Samples] = field(default_factory=dict)
    capture: Capture | None = None
    unread: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
