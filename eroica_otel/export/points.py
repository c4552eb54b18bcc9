"""WorkerWindow -> data points: the inverse of query/decode.py. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from eroica_otel import names
from eroica_otel.model import HOST_RATIOS, Pattern, Point, WorkerWindow

FUNCTIONS_WITH_STACK = 12
"""Largest Python functions whose stack is exported."""
STACK_BYTES = 1024
_UNIX_TIMES = 1e9


def stack_label(stack: tuple[str, ...], limit: int = STACK_BYTES) -> str:
    """Return the stack as "outer > ... > inner" in at most ``limit`` bytes; the innermost frames are kept."""
    kept: list[str] = []
    size = 0
    for frame in reversed(stack):
        size += len(frame.encode()) + 3
        if size > limit - 6:
            kept.append("..." if kept else "..." + frame.encode()[3 - limit :].decode(errors="ignore"))
            break
        kept.append(frame)
    return " > ".join(reversed(kept))


def exact(value: float) -> float:
    """Return the value with as many digits as every backend keeps: 9, none beyond 1e-15; milliseconds of unix times.

    VictoriaMetrics keeps decimal numbers of 12 digits or so, Prometheus all of a float64. Rounded so, what is read
    from either, or never left, is one and the same to the last bit of a float32, which has 7.2 digits.
    """
    if abs(value) >= _UNIX_TIMES:
        return round(value, 3)
    return round(float(f"{value:.9g}"), 15)


def window_points(window: WorkerWindow) -> list[Point]:
    """Return every point of one window, facts first; what was not measured is absent."""
    identity = window.identity.labels()
    return [
        Point(metric.name, identity | labels, exact(value))
        for metric, labels, value in (*_facts(window), *_patterns(window))
        if value is not None
    ]


_Row = tuple[names.Metric, dict[str, str], "float | None"]


def _facts(window: WorkerWindow) -> Iterator[_Row]:
    yield names.WINDOW_ID, {"reason": window.reason}, float(window.window_id)
    plain: tuple[tuple[names.Metric, float | None], ...] = (
        (names.WINDOW_END, window.end_timestamp_seconds),
        (names.WINDOW_SECONDS, window.seconds),
        (names.WINDOW_ITERATIONS, float(window.iterations)),
        (names.WINDOW_EVENTS, float(window.events)),
        (names.WINDOW_BLOCKED, window.blocked_seconds),
        (names.WINDOW_CPU, window.cpu_seconds),
        (names.WINDOW_GAP, window.sampler_gap_seconds),
        (names.WINDOW_THROTTLED, window.throttled_ratio),
        (names.WINDOW_RUN_DELAY, window.run_delay_ratio),
        (names.WINDOW_STOPPED, window.stopped_seconds),
        (names.WINDOW_SILENT, window.silent_seconds),
        (names.WINDOW_START, float(window.start_iteration)),
        (names.WINDOW_AFTER, window.after_ratio),
        (names.PATTERN_FLOOR, window.floor),
    )
    for metric, value in plain:
        yield metric, {}, value
    for kind, beta in window.kinds.items():
        yield names.KIND_BETA, {"kind": kind}, beta
    for resource, value in window.host_use.items():
        ratio = resource in HOST_RATIOS
        yield names.WINDOW_HOST_RATIO if ratio else names.WINDOW_HOST_RATE, {"resource": resource}, value
    for category, (_, seconds) in window.unknown.items():
        yield names.WINDOW_UNKNOWN, {"category": category}, seconds
    for group, (enqueued, completed) in window.progress.items():
        yield names.COLLECTIVE_SEQUENCE, {"group": group}, float(enqueued)
        yield names.COLLECTIVE_COMPLETED, {"group": group}, None if completed is None else float(completed)


def _patterns(window: WorkerWindow) -> Iterator[_Row]:
    for pattern in window.patterns:
        function = {"function_id": pattern.function_id, "function": pattern.function, "kind": pattern.kind}
        full = function | {"family": pattern.family, "resource": pattern.resource}
        yield names.PATTERN_BETA, full, pattern.beta
        yield names.PATTERN_MU, full, pattern.mu
        yield names.PATTERN_SIGMA, full, pattern.sigma
        yield names.PATTERN_NOISE, {"function_id": pattern.function_id}, pattern.noise_seconds
        for resource, peak in pattern.peaks.items():
            labels = {"function_id": pattern.function_id, "function": pattern.function, "resource": resource}
            yield names.PATTERN_PEAK, labels, peak
        yield from _collectives(pattern)
    yield from _stacks(window.patterns)


def _collectives(pattern: Pattern) -> Iterator[_Row]:
    for collective in pattern.collectives:
        labels = {"function_id": pattern.function_id, "group": collective.group}
        yield names.COLLECTIVE_CALLS, labels, float(collective.calls)
        yield names.COLLECTIVE_BYTES, labels, None if collective.bytes is None else float(collective.bytes)
        yield names.COLLECTIVE_FASTEST, labels, collective.fastest_seconds


def with_stack(patterns: tuple[Pattern, ...]) -> list[Pattern]:
    """Return the patterns whose stack is exported, largest first."""
    python = sorted((p for p in patterns if p.stack), key=lambda p: p.beta, reverse=True)
    return python[:FUNCTIONS_WITH_STACK]


def _stacks(patterns: tuple[Pattern, ...]) -> Iterator[_Row]:
    for pattern in with_stack(patterns):
        labels = {
            "function_id": pattern.function_id,
            "family": pattern.family,
            "stack": stack_label(pattern.stack),
        }
        yield names.FUNCTION_INFO, labels, 1.0
