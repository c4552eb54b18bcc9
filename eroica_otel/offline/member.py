"""One trace file -> one Member: its window as the live system would report it, and what the file says of its worker.

This runs in a process of its own where there are several files, so what goes in and out is small and can be pickled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eroica_otel.config import WorkerConfig
from eroica_otel.errors import EroicaError, TraceError
from eroica_otel.kinds import Frame, frame_identity
from eroica_otel.model import Identity, WorkerWindow
from eroica_otel.offline.guard import watch_of
from eroica_otel.offline.problem import Problem
from eroica_otel.offline.stretches import Chosen, choose
from eroica_otel.profile import samples
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import LIMIT_BYTES, read_trace, workers_in
from eroica_otel.summarize.readers.folder import trace_of
from eroica_otel.summarize.resources import HOLD
from eroica_otel.traces import Trace

NOBODY = Identity("", -1, "")
"""Stands in a window until all files are known: only then its rank is."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be done with one file.

    Attributes:
        path: The file.
        iterations: Iterations that the trace holds, where it does not tell; 0 where nobody said.
        steps: Numbers of the steps to take, () for all that the trace marks.
        reason: Reason of the window; "reference" for the run that another is compared with.
        top: Functions kept.
        limit_bytes: Largest trace, unpacked.
        guarded: Whether to stop before memory runs out.
        beside: Files that are read at a time.
        tally, place: Where it is told how far the reading is, as guard.watch_of takes it.
    """

    path: str
    iterations: int = 0
    steps: tuple[int, ...] = ()
    reason: str = "manual"
    top: int = 50
    limit_bytes: int = LIMIT_BYTES
    guarded: bool = True
    beside: int = 1
    tally: str = ""
    place: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    """One file that was read.

    Attributes:
        path: The file.
        window: Its patterns; the identity is NOBODY.
        rank: As the trace says; None where it does not.
        world_size: As the trace says.
        host: As the trace says, "" where it does not.
        job, role: Of a capture folder, whose worker knew them; else "".
        steps: Numbers of the steps inside the window, () where the trace marks none.
        marked: What marks the iterations.
        groups: Ranks of the process groups by name.
        skipped: Events that could not be used, by reason.
        frames: Those of the window's stacks, which tell their files as far as the trace does.
        devices: Names of the accelerators.
        backend: Backend of the collectives.
        format: kineto, nsight or capture.
        notes: What a reader of the verdict should know of this file.
    """

    path: str
    window: WorkerWindow
    rank: int | None
    world_size: int | None
    host: str
    job: str
    role: str
    steps: tuple[int, ...]
    marked: str
    groups: Mapping[str, tuple[int, ...]]
    skipped: Mapping[str, int]
    frames: tuple[Frame, ...]
    devices: tuple[str, ...]
    backend: str
    format: str
    notes: tuple[str, ...] = ()


def read_member(request: Request) -> Member | Problem:
    """Read one file and summarise it; what is wrong with the file comes back as a Problem."""
    try:
        trace = _read(request)
        chosen = choose(trace, request.iterations, request.steps)
        config = WorkerConfig.from_env(os.environ)
        window = summarize_trace(
            trace, NOBODY, reason=request.reason, stretch=chosen.stretch, top=request.top,
            hold={**HOLD, **config.held_shares()}, order=config.charge_order(),
        )  # fmt: skip
    except MemoryError:
        text = f"{request.path}: memory ran out; read fewer files at a time (--jobs 1), or profile fewer iterations"
        return Problem(request.path, text)
    except (EroicaError, OSError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        return Problem(request.path, _told(request.path, str(error) or type(error).__name__))
    return _member(request, trace, chosen, window)


def workers_of(path: str) -> tuple[str, ...]:
    """Return a path for each worker in a file or capture folder; one that cannot be read is told when it is read."""
    try:
        return (path,) if os.path.isdir(path) else workers_in(path)
    except TraceError:
        return (path,)


def _read(request: Request) -> Trace:
    watch = watch_of(
        request.path,
        tally=request.tally,
        place=request.place,
        beside=request.beside,
        guarded=request.guarded,
    )
    if os.path.isdir(request.path):
        return trace_of(samples.read(Path(request.path)), request.path, watch)
    return read_trace(request.path, limit_bytes=request.limit_bytes, watch=watch)


def _told(path: str, why: str) -> str:
    return why if path in why else f"{path}: {why}"


def _member(request: Request, trace: Trace, chosen: Chosen, window: WorkerWindow) -> Member:
    return Member(
        path=request.path,
        window=window,
        rank=trace.rank,
        world_size=trace.world_size,
        host=trace.host,
        job=trace.capture.identity.training_job if trace.capture is not None else "",
        role=trace.capture.identity.role if trace.capture is not None else "",
        steps=chosen.steps,
        marked=chosen.marked,
        groups=dict(trace.groups),
        skipped=dict(trace.skipped),
        frames=_frames(trace, window),
        devices=trace.devices,
        backend=trace.backend,
        format=trace.format,
        notes=trace.notes,
    )


def _frames(trace: Trace, window: WorkerWindow) -> tuple[Frame, ...]:
    """Return the frames that the window's stacks are made of, once each."""
    used = {text for pattern in window.patterns for text in pattern.stack}
    every = [
        *(trace.python.frames if trace.python is not None else ()),
        *(trace.capture.all_frames if trace.capture is not None else ()),
    ]
    return tuple(dict.fromkeys(frame for one in every if frame_identity(frame := Frame(*one)) in used))
