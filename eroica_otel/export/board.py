"""The data points a worker shows at this moment; every reader sees one state of it, never half of two."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from eroica_otel.model import Point

State = Mapping[str, tuple[Point, ...]]


def by_name(points: Iterable[Point]) -> dict[str, tuple[Point, ...]]:
    """Group ``points`` by series name."""
    grouped: dict[str, list[Point]] = {}
    for point in points:
        grouped.setdefault(point.name, []).append(point)
    return {name: tuple(members) for name, members in grouped.items()}


class Board:
    """Two halves, standing facts and the latest window; ``begin`` freezes both for the collect of the calling thread.

    OpenTelemetry calls the instruments' callbacks one after the other in the collecting thread, in the order in which
    they were made; the first one calls ``begin``. So window id, end and patterns change in one collect.
    """

    def __init__(self) -> None:
        self._standing: State = {}
        self._window: State = {}
        self._frozen = threading.local()

    def stand(self, points: Iterable[Point]) -> None:
        """Replace the facts that hold outside windows."""
        self._standing = by_name(points)

    def show(self, points: Iterable[Point]) -> None:
        """Replace the window; no points = take it down."""
        self._window = by_name(points)

    def begin(self) -> None:
        """Freeze what this thread will read until it begins again."""
        self._frozen.state = {**self._standing, **self._window}

    def everything(self) -> tuple[Point, ...]:
        """Return all points as they are now."""
        return tuple(point for members in {**self._standing, **self._window}.values() for point in members)

    def points(self, name: str) -> tuple[Point, ...]:
        """Return the points of one series as frozen for this thread."""
        state: State = getattr(self._frozen, "state", {})
        return state.get(name, ())

    def size(self) -> int:
        """Return the number of points as frozen for this thread."""
        state: State = getattr(self._frozen, "state", {})
        return sum(map(len, state.values()))
