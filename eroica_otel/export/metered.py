"""The instruments of a worker on a meter provider of the training's own, in the training process.

Its callbacks run when that provider collects, on that provider's thread: they read the file that the helper writes
(handed.py) and wait for nothing. OpenTelemetry takes no instrument away again: without a worker they show nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from opentelemetry.metrics import MeterProvider

from eroica_otel import __version__, names
from eroica_otel.export.board import Board
from eroica_otel.export.handed import read
from eroica_otel.export.instruments import create, record
from eroica_otel.model import Point
from eroica_otel.status import POINTS_FILE

OLD_SECONDS = 300.0
"""What the helper has not renewed for so long is not shown: it is dead. A summary may take it a minute or two."""

Guard = Callable[[str, Callable[[], None]], None]


class Metered(Board):
    """What one provider's instruments show, of one worker after the other; ``begin`` is called at each collect.

    Whoever forks, collects in the child too: of the parent's training nothing is shown there.
    """

    def __init__(self, provider: MeterProvider, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        super().__init__()
        self._clock_ns = clock_ns
        self._path: Path | None = None
        self._pid = 0
        self._written_ns = 0
        self._guard: Guard | None = None
        self._histograms = create(provider.get_meter("eroica_otel", __version__), self)

    def follow(self, folder: Path, guard: Guard) -> None:
        """Show the worker whose private folder this is; what fails at a collect goes to ``guard``, never to it."""
        self._guard, self._path, self._pid, self._written_ns = guard, folder / POINTS_FILE, os.getpid(), 0

    def record(self, labels: Mapping[str, str], rows: Iterable[Any]) -> None:
        """Record (duration, period) of iterations, as instruments.record."""
        record(self._histograms, labels, rows)

    def begin(self) -> None:
        if self._guard is not None:
            self._guard("meter", self._look)
        super().begin()

    def _look(self) -> None:
        if os.getpid() != self._pid:
            self.stand(())
        elif self._path is not None:
            self._read(self._path)

    def _read(self, path: Path) -> None:
        handed = read(path)
        if handed is not None:
            self._written_ns = handed.written_ns
            self.stand(handed.points)
        if self._clock_ns() - self._written_ns > OLD_SECONDS * 1e9:
            self.stand(())

    def finish(self) -> None:
        """At the end of the training: keep for the provider's last collect what there is, with the state finished."""
        if self._path is not None and os.getpid() == self._pid:
            handed = read(self._path)
            self._path = None
            self.stand(map(_finished, handed.points if handed is not None else self.everything()))

    def release(self) -> None:
        """Show nothing any more, until there is another worker to follow."""
        self._path, self._pid = None, 0
        self.stand(())


def _finished(point: Point) -> Point:
    if point.name != names.WORKER_STATE.name:
        return point
    return point._replace(value=float(point.labels["state"] == "finished"))
