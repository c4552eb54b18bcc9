"""The layout for large jobs: all that a worker says of a window in two series, one value a millisecond. Pure.

``labels``, the usual layout, is one series for each number; what a backend needs follows the number of series. In
``vec`` the numbers of a window are the samples of ``eroica_vector`` at T, T + 1 ms, T + 2 ms ...; which slot is what
says the dictionary, ``eroica_vector_info``, under a hash of the list, which each vector carries as ``dict``: workers
whose functions differ need not agree. A vector is dense, because PromQL shows the previous slot where one is missing:
what is not measured is MISSING. Large whole numbers are a vector of their own (``part``): VictoriaMetrics keeps the
numbers of a block as integers of one decimal exponent, so that shares beside byte counts would lose digits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from eroica_otel import names
from eroica_otel.model import Point

STEP_MILLIS = 1
SLOTS_MOST = 1900
"""Longest vector: a window is read from the first sample on for two seconds (query/look.py)."""
MISSING = -1.0
"""Not measured; nothing that is measured is negative."""
WHOLE, SHARE = "whole", "share"
PARTS = (WHOLE, SHARE)
IN_A_VECTOR = frozenset(
    metric.name
    for metric in names.OF_WORKER
    if metric.type == names.GAUGE
    and metric.name.startswith(("eroica_window_", "eroica_pattern_", "eroica_kind_", "eroica_collective_"))
) | {names.WORLD_SIZE.name, names.WORKER_INFO.name, names.FUNCTION_INFO.name}
"""Series that vectors hold."""
_STACK = "stack"
_WHOLE_NUMBERS = {
    metric.name
    for metric in (
        names.WINDOW_ID, names.WINDOW_END, names.WINDOW_ITERATIONS, names.WINDOW_EVENTS, names.WINDOW_START,
        names.WORLD_SIZE, names.WORKER_INFO, names.COLLECTIVE_SEQUENCE, names.COLLECTIVE_COMPLETED,
        names.COLLECTIVE_CALLS, names.COLLECTIVE_BYTES, names.WINDOW_HOST_RATE,
    )
}  # fmt: skip
_SPARSE = (names.PATTERN_MU.name, names.PATTERN_SIGMA.name)
_INFO = ("run_id", "signature")
_RESTART = 4096
"""eroica_worker_info in a vector is restart times this and local rank; only run_id and signature are in its labels."""
_BY_ID_ALONE = {names.PATTERN_MU.name, names.PATTERN_SIGMA.name, names.PATTERN_NOISE.name}


class Slot(NamedTuple):
    """What a number of a vector is: series and labels, sorted, without those of the worker; ``more`` is not hashed."""

    name: str
    labels: tuple[tuple[str, str], ...]
    more: tuple[tuple[str, str], ...] = ()

    def all_labels(self) -> dict[str, str]:
        """Return what the dictionary says of it."""
        return dict((*self.labels, *self.more))


class Vector(NamedTuple):
    """One vector of one worker: its part, the hash of its slots, the slots and their values."""

    part: str
    dict: str
    slots: tuple[Slot, ...]
    values: tuple[float, ...]


def vectors(points: Iterable[Point]) -> list[Vector]:
    """Return the vectors of everything that one worker says of a window."""
    stacks: dict[str, str] = {}
    given: dict[Slot, float] = {}
    for point in points:
        if point.name == names.FUNCTION_INFO.name:
            stacks[point.labels["function_id"]] = point.labels[_STACK]
        else:
            slot, value = _slot(point)
            given[slot] = value
    for slot in [slot for slot in given if slot.name == names.PATTERN_BETA.name]:
        function = tuple(pair for pair in slot.labels if pair[0] == "function_id")
        for name in _SPARSE:
            given.setdefault(Slot(name, function), MISSING)
    slots = sorted(given, key=lambda slot: (slot.name, slot.labels))
    found = []
    for part in PARTS:
        kept = [slot for slot in slots if (slot.name in _WHOLE_NUMBERS) == (part == WHOLE)]
        values = tuple(given[slot] for slot in kept)
        found.append(Vector(part, hash_of(kept), tuple(_with_stack(slot, stacks) for slot in kept), values))
    return [vector for vector in found if vector.slots]


def points(slots: Sequence[Slot], values: Sequence[float], own: Mapping[str, str]) -> list[Point]:
    """Return what a vector says, as points of the worker with the labels ``own``: the inverse of ``vectors``."""
    found = []
    for slot, value in zip(slots, values, strict=True):
        if value == MISSING:
            continue
        labels = {**own, **dict(slot.labels), **dict(slot.more)}
        stack = labels.pop(_STACK, "")
        if slot.name == names.WORKER_INFO.name:
            restart, local_rank = divmod(int(value), _RESTART)
            labels |= {"restart": str(restart), "local_rank": str(local_rank)}
            value = 1.0
        found.append(Point(slot.name, labels, value))
        if stack:
            function = {name: labels.get(name, "") for name in ("function_id", "family")}
            found.append(Point(names.FUNCTION_INFO.name, {**own, **function, _STACK: stack}, 1.0))
    return found


def hash_of(slots: Iterable[Slot]) -> str:
    """Return the name of a list of slots: equal lists have equal names, on all workers and for ever."""
    text = "\x1e".join("\x1f".join((slot.name, *(f"{key}={value}" for key, value in slot.labels))) for slot in slots)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def slot_of(name: str, labels: Mapping[str, str]) -> Slot:
    """Return the slot that a series of the dictionary tells of: the name of the slot's series, and labels."""
    known = set(names.BY_NAME[name].labels) - set(names.IDENTITY)
    own = sorted((key, value) for key, value in labels.items() if value and key in known)
    return Slot(name, tuple(own), ((_STACK, labels[_STACK]),) if labels.get(_STACK) else ())


def _slot(point: Point) -> tuple[Slot, float]:
    name, value = point.name, point.value
    labels = {key: text for key, text in point.labels.items() if key not in names.IDENTITY and text}
    if name == names.WORKER_INFO.name:
        value = float(int(labels.get("restart", "0")) * _RESTART + int(labels.get("local_rank", "0")))
        labels = {key: text for key, text in labels.items() if key in _INFO}
    if name in _BY_ID_ALONE:
        labels = {key: text for key, text in labels.items() if key == "function_id"}
    return Slot(name, tuple(sorted(labels.items()))), value


def _with_stack(slot: Slot, stacks: Mapping[str, str]) -> Slot:
    stack = stacks.get(dict(slot.labels).get("function_id", ""), "")
    return slot._replace(more=((_STACK, stack),)) if stack and slot.name == names.PATTERN_BETA.name else slot
