"""Series of a backend -> workers, their windows in time, and data points as a worker's page shows them. Pure.

A series carries the worker's own labels and those that scraping added. What it added tells apart: two targets
(``instance``) are two processes, everything else (``replica``, ``prometheus``, ``job``) is the same process seen twice.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from eroica_otel import names
from eroica_otel.model import Point
from eroica_otel.query.otlp import LABEL_CHARACTERS, cut
from eroica_otel.query.promql import Series

_EXPORTED = "exported_"
_SAME_SECONDS = 30.0
"""Of two replicas that saw a worker within this time of one another the same one is always read."""

Added = frozenset[tuple[str, str]]
"""Labels that scraping or forwarding added to a worker's own."""


class Process(NamedTuple):
    """What is one process, whoever saw it; ``pid`` is "" unless a resource attribute became a label."""

    training_job: str
    team: str
    rank: str
    host: str
    instance: str
    pid: str


class Stream(NamedTuple):
    """One process as one observer saw it."""

    process: Process
    added: Added


@dataclass(frozen=True, slots=True)
class Pulse:
    """How a stream lives: time of its latest sample, time between two samples (0 = unknown), latest value."""

    latest: float
    spacing: float
    value: float


class Episode(NamedTuple):
    """A window as its worker showed it: from its first sample on until that of the next one (inf = still shown)."""

    window_id: float
    begin: float
    end: float


def own_labels(labels: Mapping[str, str], known: names.Metric) -> tuple[dict[str, str], Added]:
    """Return the worker's labels of a series, and those that were added.

    Where a scrape configuration adds a label of the same name, Prometheus keeps ours as ``exported_NAME``.
    """
    own = {name: labels.get(name, "") for name in known.labels}
    added = {name: labels[name] for name in labels.keys() - own.keys() if name != "__name__" and labels[name]}
    for kept in [name for name in added if name.startswith(_EXPORTED)]:
        name = kept.removeprefix(_EXPORTED)
        if name in own:
            added[name], own[name] = own[name], added.pop(kept)
    for name in [name for name, value in own.items() if len(value) > LABEL_CHARACTERS]:
        own[name] = cut(name, own[name])
    return own, frozenset(pair for pair in added.items() if pair[1])


def stream_of(own: Mapping[str, str], added: Added) -> Stream | None:
    """Return whose series it is; None where it belongs to no worker."""
    if not own.get("training_job") or not own.get("rank"):
        return None
    more = dict(added)
    instance, pid = more.get("instance", ""), more.get("process_pid", "")
    if instance == f"rank-{own['rank']}":
        instance = ""  # pushed: it names the rank, not what was scraped, and cannot tell two processes apart
    process = Process(own["training_job"], own.get("team", ""), own["rank"], own.get("host", ""), instance, pid)
    return Stream(process, added)


def by_stream(series: Iterable[Series], known: names.Metric) -> Iterator[tuple[Stream, dict[str, str], Series]]:
    """Yield the series of workers with their stream and own labels."""
    for one in series:
        own, added = own_labels(one.labels, known)
        stream = stream_of(own, added)
        if stream is not None:
            yield stream, own, one


def pulses(series: Iterable[Series], known: names.Metric) -> dict[Stream, Pulse]:
    """Return how each stream lives, by the raw samples of a series that is always there."""
    samples: dict[Stream, list[tuple[float, float]]] = {}
    for stream, _, one in by_stream(series, known):
        samples.setdefault(stream, []).extend(one.samples)
    return {stream: _pulse(sorted(found)) for stream, found in samples.items()}


def _pulse(samples: Sequence[tuple[float, float]]) -> Pulse:
    times = [when for when, _ in samples]
    gaps = [after - before for before, after in pairwise(times) if after > before]
    return Pulse(times[-1], statistics.median(gaps) if gaps else 0.0, samples[-1][1])


def chosen(found: Mapping[Stream, Pulse]) -> dict[Process, Stream]:
    """Return for each process the one stream that is read: of those that are up to date always the same."""
    groups: dict[Process, list[Stream]] = {}
    for stream in found:
        groups.setdefault(stream.process, []).append(stream)
    return {process: _choice(streams, found) for process, streams in groups.items()}


def _choice(streams: Sequence[Stream], found: Mapping[Stream, Pulse]) -> Stream:
    newest = max(found[stream].latest for stream in streams)
    current = [
        stream for stream in streams if newest - found[stream].latest <= _SAME_SECONDS + 2 * found[stream].spacing
    ]
    return min(current, key=lambda stream: sorted(stream.added))


def episodes(series: Iterable[Series]) -> dict[Stream, list[Episode]]:
    """Return the windows of each stream, oldest first, from raw samples of eroica_window_id."""
    shown: dict[Stream, list[tuple[float, float]]] = {}
    for stream, _, one in by_stream(series, names.WINDOW_ID):
        shown.setdefault(stream, []).extend(one.samples)
    return {stream: _episodes(sorted(samples)) for stream, samples in shown.items()}


def _episodes(samples: Sequence[tuple[float, float]]) -> list[Episode]:
    begins: dict[float, float] = {}
    for when, window_id in samples:
        begins.setdefault(window_id, when)
    ends = [*list(begins.values())[1:], float("inf")]
    return [Episode(window_id, begin, end) for (window_id, begin), end in zip(begins.items(), ends, strict=True)]


def newest(series: Iterable[Series], known: names.Metric) -> dict[Stream, Point]:
    """Return the latest point of each stream: after a restart the backend still holds what the earlier one said."""
    found: dict[Stream, tuple[float, Point]] = {}
    for stream, own, one in by_stream(series, known):
        when, value = one.samples[-1]
        if stream not in found or when >= found[stream][0]:
            found[stream] = (when, Point(known.name, own, value))
    return {stream: point for stream, (_, point) in found.items()}


def points_in(series: Iterable[Series], spans: Mapping[Stream, tuple[float, float]]) -> dict[Stream, list[Point]]:
    """Return for each stream the first sample of each series inside its span [begin, end), ordered by name and values.

    So a series that the backend still holds from an earlier window is not taken for one of this window.
    """
    points: dict[Stream, list[Point]] = {stream: [] for stream in spans}
    streams: dict[tuple[str, ...], dict[Added, Stream | None]] = {}
    for one in series:
        known = names.BY_NAME.get(one.labels.get("__name__", ""))
        if known is None:
            continue
        own, added = own_labels(one.labels, known)
        seen = streams.setdefault(tuple(own.get(name, "") for name in names.IDENTITY), {})
        stream = seen[added] if added in seen else seen.setdefault(added, stream_of(own, added))
        if stream is None or stream not in spans:
            continue
        begin, end = spans[stream]
        for when, value in one.samples:
            if begin <= when < end:
                points[stream].append(Point(known.name, own, value))
                break
    for found in points.values():
        found.sort(key=lambda point: (point.name, tuple(point.labels.values())))
    return points
