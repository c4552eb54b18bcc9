"""Capture of one window on one worker -> WorkerWindow: the pattern of each function, and the facts of the window.

What the numbers say downstream: seconds per iteration of a function = beta x window / iterations, CPU seconds per
iteration = that x mu of ``cpu``. See HOLD for what this asks of mu.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from eroica_otel import kinds
from eroica_otel.errors import TraceError
from eroica_otel.model import Capture, Pattern, WorkerWindow
from eroica_otel.summarize.blocks import Moves, Source
from eroica_otel.summarize.critical import Charged, charge
from eroica_otel.summarize.devices import joined, measure_device
from eroica_otel.summarize.inmemory import InMemory
from eroica_otel.summarize.intervals import Intervals, Reals
from eroica_otel.summarize.noise import LEAST_BETA, MOST_FUNCTIONS, noise_seconds
from eroica_otel.summarize.readers.folder import no_events
from eroica_otel.summarize.readers.kineto import scan
from eroica_otel.summarize.resources import HOLD, NOT_MEASURED, measure, on_one_clock
from eroica_otel.summarize.spill import Spill
from eroica_otel.summarize.timeline import timeline
from eroica_otel.summarize.transfers import collective_calls, link_peaks
from eroica_otel.summarize.uncharged import reported
from eroica_otel.traces import Samples, Trace

NANOSECONDS = 1e9
_PASSED_ON = (
    "blocked_seconds", "throttled_ratio", "run_delay_ratio", "stopped_seconds", "signature", "progress",
    "silent_seconds",
)  # fmt: skip
"""Facts of the capture that the window reports as they are."""


def summarize(
    capture: Capture,
    top: int = 50,
    hold: Mapping[str, float] = HOLD,
    trace: Trace | None = None,
    order: Sequence[str] = (),
    failed: Callable[[str, str], None] = lambda stage, why: None,
    device: Mapping[str, Samples] | None = None,
) -> WorkerWindow:
    """Return everything this worker reports about the window; a reference window also carries noise levels.

    Args:
        trace: The trace where it was read already (summarize/offline.py); else capture.trace is read, in memory that
            does not grow with it: beside it a file without a name takes what is needed again.
        top: Functions kept, by beta. ``floor`` is the smallest kept beta: an absent function had a share in [0, floor].
        hold: Per resource, the share of its use that the part behind mu and sigma holds (0 to 1; 1: the whole piece).
        order: As of charge().
        failed: Told the stage and the reason where something failed without which the window stands.
        device: Samples of the device that are not in the trace, on the capture's clock; as Trace.metrics.

    Raises:
        TraceError: the trace cannot be read, or holds no kernel although the process used a GPU: patterns of such a
            window would say that the GPU did nothing.
        OSError: what was needed again cannot be read.
    """
    if trace is not None:
        return _window(capture, _charge(capture, InMemory(trace.events), trace, order), top, hold, trace, trace.metrics)
    spill = Spill(os.path.dirname(capture.trace))
    try:
        with spill:
            found = scan(capture.trace, capture.realtime_offset_ns, spill) if capture.trace else InMemory(no_events())
            metrics = device if device is not None and on_one_clock(capture) else {}
            return _window(capture, _charge(capture, found, None, order, spill), top, hold, None, metrics)
    finally:
        if spill.problem:
            failed("summarize", spill.problem)


def _window(
    capture: Capture,
    charged: Charged,
    top: int,
    hold: Mapping[str, float],
    trace: Trace | None,
    metrics: Mapping[str, Samples],
) -> WorkerWindow:
    beta = charged.charged_ns() / max(capture.end_ns - capture.start_ns, 1)
    kept = _largest(beta, top)
    return WorkerWindow(
        identity=capture.identity,
        window_id=capture.window.id,
        reason=capture.window.reason,
        seconds=(capture.end_ns - capture.start_ns) / NANOSECONDS,
        iterations=max(capture.iteration_ns.size - 1, 0),
        patterns=_patterns(capture, charged, beta, kept, hold, metrics),
        kinds=_kinds(capture, charged),
        floor=float(beta[kept[-1]]) if kept else 0.0,
        dropped=int(np.count_nonzero(beta > 0)) - len(kept),
        events=charged.events,
        start_iteration=capture.window.start,
        cpu_seconds=_cpu_seconds(capture),
        sampler_gap_seconds=_longest_gap(capture),
        end_timestamp_seconds=capture.end_realtime_seconds,
        timeline=timeline(charged, capture.start_ns, capture.end_ns) if trace is not None else {},
        unknown=reported({**charged.unknown, **(trace.unread if trace is not None else {})}),
        **{name: getattr(capture, name) for name in _PASSED_ON},
    )


def _largest(beta: Reals, top: int) -> list[int]:
    found = np.flatnonzero(beta > 0)
    kept: list[int] = found[np.argsort(-beta[found], kind="stable")][: max(top, 0)].tolist()
    return kept


def _charge(
    capture: Capture, source: Source, trace: Trace | None, order: Sequence[str], spill: Spill | None = None
) -> Charged:
    charged = charge(capture, source, trace.python if trace is not None else None, order, spill)
    if not capture.gpu or charged.gpu:
        return charged
    why = "no GPU kernel was captured"
    if kinds.ranged(source.categories):
        remedy = "CUPTI's range profiler ran them apart from each other, so that no time is true; leave it out"
    else:
        remedy = "does another profiler hold the GPU (Nsight, DCGM profiling metrics)? end it"
    if trace is not None:
        raise TraceError(f"{trace.path}: {why}, though the trace launches some: {remedy}, and profile again")
    raise TraceError(f"{why}: {remedy}, or set EROICA_CAPTURE=stacks")


def _kinds(capture: Capture, charged: Charged) -> dict[str, float]:
    window = max(capture.end_ns - capture.start_ns, 1)
    return {kind: time / window for kind, time in (*charged.kind_ns.items(), ("idle", charged.idle_ns))}


def _patterns(
    capture: Capture,
    charged: Charged,
    beta: Reals,
    kept: list[int],
    hold: Mapping[str, float],
    metrics: Mapping[str, Samples],
) -> tuple[Pattern, ...]:
    resources = joined(measure_device(charged, metrics, hold) if metrics else {}, measure(capture, charged, hold))
    calls = collective_calls(charged.moves, capture.start_ns, capture.end_ns)
    noise: Mapping[int, float] = {}
    if capture.window.reason == "reference":
        loud = [number for number in kept if beta[number] >= LEAST_BETA][:MOST_FUNCTIONS]
        noise = noise_seconds(charged.parts, loud, capture.iteration_ns)
    patterns = []
    for number in kept:
        function = charged.functions[number]
        use = resources.get(number, NOT_MEASURED)
        patterns.append(
            Pattern(
                function_id=function.id,
                function=function.name,
                kind=function.kind,
                family=function.family,
                resource=use.resource,
                beta=float(beta[number]),
                mu=use.mu,
                sigma=use.sigma,
                noise_seconds=noise.get(number),
                peaks=link_peaks(capture, _whole_time(charged.moves, number), metrics) if number in calls else {},
                collectives=calls.get(number, ()),
                stack=function.stack,
            )
        )
    return tuple(patterns)


def _whole_time(moves: Moves, number: int) -> Intervals:
    mine = moves.function == number
    return Intervals(moves.start[mine], moves.end[mine], moves.function[mine])


def _cpu_seconds(capture: Capture) -> float | None:
    """Return the CPU time between the first and the last sample; None below two samples."""
    if capture.cpu_ns.size < 2:
        return None
    return float(capture.cpu_ns[-1] - capture.cpu_ns[0]) / NANOSECONDS


def _longest_gap(capture: Capture) -> float | None:
    """Return the longest time without a stack sample, borders of the window included; None without samples."""
    if not capture.stack_ns.size:
        return None
    inside = np.clip(capture.stack_ns, capture.start_ns, capture.end_ns)
    return float(np.diff(inside, prepend=capture.start_ns, append=capture.end_ns).max()) / NANOSECONDS
