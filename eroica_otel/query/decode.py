"""Data points of one worker -> WorkerWindow: the inverse of export/points.py. Pure.

Whoever can deliver is not thereby trusted: every count and every list has a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from eroica_otel import names
from eroica_otel.errors import QueryError
from eroica_otel.model import (
    HOST_RATES,
    HOST_RATIOS,
    KINDS,
    REASONS,
    Collective,
    Identity,
    Pattern,
    Point,
    WorkerWindow,
)

_BETA = names.PATTERN_BETA.name
_BY_FUNCTION = {metric.name for metric in (names.PATTERN_MU, names.PATTERN_SIGMA, names.PATTERN_NOISE)}
_BY_GROUP = {metric.name for metric in (names.COLLECTIVE_CALLS, names.COLLECTIVE_BYTES, names.COLLECTIVE_FASTEST)}
_PROGRESS = {metric.name for metric in (names.COLLECTIVE_SEQUENCE, names.COLLECTIVE_COMPLETED)}
_HOST = {
    metric.name: resources
    for metric, resources in ((names.WINDOW_HOST_RATIO, HOST_RATIOS), (names.WINDOW_HOST_RATE, HOST_RATES))
}
_AMOUNTS = {names.WINDOW_UNKNOWN.name, *_HOST}
_KINDS = (*KINDS, "idle")
WORKERS_MOST = 2**21
"""Largest world size, and bound of a rank: twice the largest job that is planned for."""
WINDOW_MOST = 2**32
"""Bound of a window id, which is unix seconds."""
PATTERNS_MOST = 1024
"""Patterns of a window that are kept, the largest: twice what a worker can be told to export."""
_GROUPS_MOST = 64
_RESOURCES_MOST = 8
_CATEGORIES_MOST = 8
_LARGEST_COUNT = 2**53


@dataclass(slots=True)
class _Sheet:
    """Points of one worker, sorted by what they say."""

    labels: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    plain: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, float] = field(default_factory=dict)
    functions: list[tuple[Mapping[str, str], float]] = field(default_factory=list)
    values: dict[tuple[str, str], float] = field(default_factory=dict)
    peaks: dict[str, dict[str, float]] = field(default_factory=dict)
    groups: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)
    progress: dict[str, dict[str, float]] = field(default_factory=dict)
    unknown: dict[str, tuple[int | None, float]] = field(default_factory=dict)
    host_use: dict[str, float] = field(default_factory=dict)


def decode(points: Iterable[Point]) -> WorkerWindow | None:
    """Return the window that the points of ONE worker describe; None when they hold no window id.

    Points that are not finite count as not measured. ``dropped`` is only what is cut here: what the worker cut travels
    as a counter over all windows.

    Raises:
        QueryError: a count is no whole number that fits, the reason is none, or the window's length is missing.
    """
    sheet = _sort(points)
    if names.WINDOW_ID.name not in sheet.plain:
        return None
    _check(sheet)
    plain, (patterns, cut) = sheet.plain, _patterns(sheet)
    return WorkerWindow(
        identity=_identity(sheet),
        window_id=_count(plain, names.WINDOW_ID, most=WINDOW_MOST),
        reason=sheet.reason,
        seconds=plain[names.WINDOW_SECONDS.name],
        iterations=_count(plain, names.WINDOW_ITERATIONS),
        patterns=patterns,
        kinds=sheet.kinds,
        floor=max(plain.get(names.PATTERN_FLOOR.name, 0.0), patterns[-1].beta if cut else 0.0),
        dropped=cut,
        events=_count(plain, names.WINDOW_EVENTS),
        blocked_seconds=plain.get(names.WINDOW_BLOCKED.name, 0.0),
        end_timestamp_seconds=plain.get(names.WINDOW_END.name, 0.0),
        start_iteration=_count(plain, names.WINDOW_START),
        cpu_seconds=plain.get(names.WINDOW_CPU.name),
        sampler_gap_seconds=plain.get(names.WINDOW_GAP.name),
        throttled_ratio=plain.get(names.WINDOW_THROTTLED.name),
        run_delay_ratio=plain.get(names.WINDOW_RUN_DELAY.name),
        stopped_seconds=plain.get(names.WINDOW_STOPPED.name, 0.0),
        after_ratio=plain.get(names.WINDOW_AFTER.name),
        signature=sheet.info.get("signature", ""),
        progress=_progress(sheet) if sheet.reason == "blocked" else {},
        silent_seconds=plain.get(names.WINDOW_SILENT.name),
        unknown=sheet.unknown,
        host_use=sheet.host_use,
    )


def _check(sheet: _Sheet) -> None:
    if names.WINDOW_SECONDS.name not in sheet.plain:
        window_id = f"{sheet.plain[names.WINDOW_ID.name]:.0f}"
        raise QueryError(f"window {window_id} has no {names.WINDOW_SECONDS.name}; the worker's version is too old")
    if sheet.reason not in REASONS:
        raise QueryError(f"label reason={sheet.reason!r} is not one of {', '.join(REASONS)}; is the version the same?")


def identity(points: Iterable[Point]) -> Identity:
    """Return who sent the points of one worker, with or without a window in them.

    Raises:
        QueryError: a count is not a whole number that fits.
    """
    return _identity(_sort(points))


def _sort(points: Iterable[Point]) -> _Sheet:
    sheet = _Sheet()
    for point in points:
        if not math.isfinite(point.value):
            continue
        sheet.labels = sheet.labels or point.labels
        _place(sheet, point.name, point.labels, point.value)
    return sheet


def _place(sheet: _Sheet, name: str, labels: Mapping[str, str], value: float) -> None:
    function_id = labels.get("function_id", "")
    if name == _BETA:
        sheet.functions.append((labels, value))
    elif name in _BY_FUNCTION:
        sheet.values[name, function_id] = value
    elif name in _BY_GROUP:
        groups = sheet.groups.setdefault(function_id, {})
        if labels.get("group", "") in groups or len(groups) < _GROUPS_MOST:
            groups.setdefault(labels.get("group", ""), {})[name] = value
    elif name == names.PATTERN_PEAK.name:
        peaks = sheet.peaks.setdefault(function_id, {})
        if len(peaks) < _RESOURCES_MOST:
            peaks[labels.get("resource", "")] = value
    elif name == names.FUNCTION_INFO.name:
        sheet.stacks[function_id] = tuple(labels.get("stack", "").split(" > "))
    else:
        _place_fact(sheet, name, labels, value)


def _place_fact(sheet: _Sheet, name: str, labels: Mapping[str, str], value: float) -> None:
    if name == names.KIND_BETA.name:
        if labels.get("kind", "") in _KINDS:
            sheet.kinds[labels["kind"]] = value
    elif name == names.WORKER_INFO.name:
        sheet.info = labels
    elif name in _PROGRESS:
        if labels.get("group", "") in sheet.progress or len(sheet.progress) < _GROUPS_MOST:
            sheet.progress.setdefault(labels.get("group", ""), {})[name] = value
    elif name in _AMOUNTS:
        if value >= 0:
            _place_amount(sheet, name, labels, value)
    elif name == names.WINDOW_ID.name:
        # A worker shows one window; should an SDK still hold the previous one, the newer counts.
        if value >= sheet.plain.get(name, value):
            sheet.plain[name], sheet.reason, sheet.labels = value, labels.get("reason", ""), labels
    else:
        sheet.plain[name] = value


def _place_amount(sheet: _Sheet, name: str, labels: Mapping[str, str], value: float) -> None:
    resource = labels.get("resource", "")
    if resource in _HOST.get(name, ()):
        sheet.host_use[resource] = value
    elif name == names.WINDOW_UNKNOWN.name and len(sheet.unknown) < _CATEGORIES_MOST:
        sheet.unknown[labels.get("category", "")] = (None, value)


def _identity(sheet: _Sheet) -> Identity:
    labels, info = sheet.labels, sheet.info
    rank = _whole(labels, "rank", "")
    if rank >= WORKERS_MOST:
        raise QueryError(f"label rank={rank} is beyond {WORKERS_MOST} workers; the points come from another program")
    return Identity(
        training_job=labels.get("training_job", ""),
        rank=rank,
        host=labels.get("host", ""),
        team=labels.get("team", ""),
        role=labels.get("role", ""),
        world_size=_count(sheet.plain, names.WORLD_SIZE, 1, most=WORKERS_MOST),
        local_rank=_whole(info, "local_rank", "0"),
        run_id=info.get("run_id", ""),
        restart=_whole(info, "restart", "0"),
    )


def is_rank(text: str) -> bool:
    """Return whether a label is the rank of a worker; another program may write what it likes under our names."""
    return text.isascii() and text.isdigit() and len(text) <= 9 and int(text) < WORKERS_MOST


def is_window(value: float) -> bool:
    """Return whether a number is the id of a window."""
    return 0 <= value < WINDOW_MOST


def _whole(labels: Mapping[str, str], name: str, default: str) -> int:
    text = labels.get(name) or default
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise QueryError(f"label {name}={text!r} is not a whole number; the points come from another program")
    return int(text)


def _count(values: Mapping[str, float], metric: names.Metric, default: int = 0, *, most: int = _LARGEST_COUNT) -> int:
    value = values.get(metric.name, default)
    if not 0 <= value <= most:
        raise QueryError(f"{metric.name} is {value:g}, which no worker exports; the points come from another program")
    return int(value)


def _patterns(sheet: _Sheet) -> tuple[tuple[Pattern, ...], int]:
    """Return the largest patterns, largest first, and how many were cut off; equal ones by id, whoever was read."""
    ordered = sorted(sheet.functions, key=lambda function: (-function[1], function[0].get("function_id", "")))
    patterns = tuple(_pattern(sheet, labels, beta) for labels, beta in ordered[:PATTERNS_MOST])
    return patterns, len(ordered) - len(patterns)


def _pattern(sheet: _Sheet, labels: Mapping[str, str], beta: float) -> Pattern:
    function_id = labels.get("function_id", "")
    return Pattern(
        function_id=function_id,
        function=labels.get("function", ""),
        kind=labels.get("kind", ""),
        family=labels.get("family", ""),
        resource=labels.get("resource", ""),
        beta=beta,
        mu=sheet.values.get((names.PATTERN_MU.name, function_id)),
        sigma=sheet.values.get((names.PATTERN_SIGMA.name, function_id)),
        noise_seconds=sheet.values.get((names.PATTERN_NOISE.name, function_id)),
        peaks=sheet.peaks.get(function_id, {}),
        collectives=_collectives(sheet.groups.get(function_id, {})),
        stack=sheet.stacks.get(function_id, ()),
    )


def _progress(sheet: _Sheet) -> dict[str, tuple[int, int | None]]:
    """Return collectives (enqueued, completed) by group; the counts of other windows are of another time than these."""
    started, done = names.COLLECTIVE_SEQUENCE, names.COLLECTIVE_COMPLETED
    return {
        group: (_count(values, started), _count(values, done) if done.name in values else None)
        for group, values in sheet.progress.items()
        if started.name in values
    }


def _collectives(groups: Mapping[str, Mapping[str, float]]) -> tuple[Collective, ...]:
    return tuple(
        Collective(
            group=group,
            calls=_count(values, names.COLLECTIVE_CALLS),
            bytes=_count(values, names.COLLECTIVE_BYTES) if names.COLLECTIVE_BYTES.name in values else None,
            fastest_seconds=values.get(names.COLLECTIVE_FASTEST.name, math.nan),
        )
        for group, values in groups.items()
    )
