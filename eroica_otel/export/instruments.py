"""names.py -> OpenTelemetry instruments that read the Board."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

from eroica_otel import names
from eroica_otel.export.board import Board

Callback = Callable[[CallbackOptions], Iterable[Observation]]


def create(meter: Meter, board: Board, metrics: Iterable[names.Metric] = names.OF_WORKER) -> dict[str, Histogram]:
    """Create the instruments of ``metrics``; return the histograms by series name, which are recorded into.

    Gauges and counters are observable: a point vanishes when the board stops showing it, where a synchronous gauge
    would be repeated for ever.
    """
    histograms: dict[str, Histogram] = {}
    first = True
    for metric in metrics:
        if metric.type == names.HISTOGRAM:
            histograms[metric.name] = meter.create_histogram(metric.instrument, metric.unit, metric.help)
            continue
        callback = _callback(board, metric.name, first)
        first = False
        if metric.type == names.COUNTER:
            meter.create_observable_counter(metric.instrument, [callback], metric.unit, metric.help)
        else:
            meter.create_observable_gauge(metric.instrument, [callback], metric.unit, metric.help)
    return histograms


def _callback(board: Board, name: str, first: bool) -> Callback:
    def observe(options: CallbackOptions) -> Iterator[Observation]:
        if first:
            board.begin()
        for point in board.points(name):
            yield Observation(point.value, point.labels)

    return observe


def record(histograms: Mapping[str, Histogram], labels: Mapping[str, str], rows: Iterable[Any]) -> None:
    """Record (duration, period) rows in seconds; NaN = not measured."""
    pairs = tuple(zip((names.ITERATION_DURATION, names.ITERATION_PERIOD), range(2), strict=True))
    for row in rows:
        for metric, column in pairs:
            value = float(row[column])
            if value == value:
                histograms[metric.name].record(value, labels)
