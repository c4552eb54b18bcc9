"""names.py -> OpenTelemetry instruments that read the Board."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, ObservableGauge, Observation

from eroica_otel import names
from eroica_otel.export.board import Board

Callback = Callable[[CallbackOptions], Iterable[Observation]]
SPARE_SETS = 100
"""Label sets that the SDK may keep beyond twice those shown, before all are dropped."""


def create(meter: Meter, board: Board, metrics: Iterable[names.Metric] = names.OF_WORKER) -> dict[str, Histogram]:
    """Create the instruments of ``metrics``; return the histograms by series name, which are recorded into.

    Gauges and counters are observable: a point vanishes when the board stops showing it, where a synchronous gauge
    would be repeated for ever.
    """
    histograms: dict[str, Histogram] = {}
    first = True
    for metric in metrics:
        if metric.type == names.HISTOGRAM:
            histograms[metric.name] = meter.create_histogram(
                metric.instrument,
                metric.unit,
                metric.help,
                explicit_bucket_boundaries_advisory=names.ITERATION_BUCKETS_SECONDS,
            )
            continue
        callback = _callback(board, metric.name, partial(_begin, meter, board) if first else None)
        first = False
        if metric.type == names.COUNTER:
            meter.create_observable_counter(metric.instrument, [callback], metric.unit, metric.help)
        else:
            meter.create_observable_gauge(metric.instrument, [callback], metric.unit, metric.help)
    return histograms


def _begin(meter: Meter, board: Board) -> None:
    board.begin()
    scope = getattr(meter, "_instrumentation_scope", None)
    for storage in getattr(getattr(meter, "_measurement_consumer", None), "_reader_storages", {}).values():
        _forget(storage, scope, 2 * board.size() + SPARE_SETS)


def _forget(storage: Any, scope: Any, most: int) -> None:
    """Drop what a reader's storage keeps of the gauges of ``scope``, where that is more than ``most`` label sets.

    The SDK keeps each label set that an asynchronous instrument has ever had, 3 KB each, and looks through all of them
    in each collect; the functions of many windows add up. There is no public way to end that. A gauge's set holds
    nothing between collects, and collects, of all readers, exclude one another: the caller is in one, before the first
    observation of its scope. Gauges of others, where the provider is the training's, may have been observed by now.
    """
    kept = [
        getattr(match, "_attributes_aggregation", {})
        for instrument, matches in list(getattr(storage, "_instrument_view_instrument_matches", {}).items())
        if isinstance(instrument, ObservableGauge) and getattr(instrument, "instrumentation_scope", None) == scope
        for match in matches
    ]
    if sum(map(len, kept)) > most:
        for sets in kept:
            sets.clear()


def _callback(board: Board, name: str, begin: Callable[[], None] | None) -> Callback:
    def observe(options: CallbackOptions) -> Iterator[Observation]:
        if begin is not None:
            begin()
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
