"""One look at a backend: questions about all workers at once, and about the patterns of some -> what they show.

Small questions are asked at each look; patterns only for windows that are new, in shards of ranks, as raw samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from eroica_otel import names
from eroica_otel.model import Point
from eroica_otel.query import promql
from eroica_otel.query.client import Client, QueryFailed
from eroica_otel.query.otlp import LABEL_CHARACTERS
from eroica_otel.query.promql import Series
from eroica_otel.query.scraped import (
    Episode,
    Process,
    Pulse,
    Stream,
    chosen,
    episodes,
    newest,
    points_in,
    pulses,
)

PATH = "/api/v1/query"
SETTLE_SECONDS = 2.0
"""Where series are forwarded, those of one scrape do not arrive at once: a window is read when it is this old."""
RANKS_PER_QUERY = 64
"""20,000 series at most, 6 MB."""

STANDING = (
    names.ITERATIONS, names.ITERATIONS_IRREGULAR, names.INPUT_WAIT, names.ITERATION_BASELINE,
    names.DEGRADATION_RATIO, names.ITERATION_LAST, names.WORKER_STATE, names.GROUP_INFO, names.DELIVERIES,
    names.FAILURES, names.WINDOWS, names.STORE_SILENT, names.RESOURCE_MISSING, names.HELPER_CPU,
)  # fmt: skip
"""Series of a worker that say nothing about its window; everything else is read with it."""
OF_A_WINDOW = tuple(
    metric.name
    for metric in names.ALL
    if metric.component == names.WORKER and metric.type != names.HISTOGRAM and metric not in STANDING
)


@dataclass(slots=True)
class Look:
    """What one look found.

    Attributes:
        pulses: How each stream lives.
        chosen: The one stream that is read of each process.
        points: Latest state, world size and worker info of each stream.
        episodes: Windows that each stream showed, oldest first.
    """

    pulses: Mapping[Stream, Pulse]
    chosen: Mapping[Process, Stream]
    points: dict[Stream, list[Point]] = field(default_factory=dict)
    episodes: Mapping[Stream, Sequence[Episode]] = field(default_factory=dict)

    def spacing(self) -> float:
        """Return the longest time between two samples of a worker, 0 when unknown."""
        return max((pulse.spacing for pulse in self.pulses.values()), default=0.0)

    def standing(self, stream: Stream) -> list[Point]:
        """Return what a worker shows outside windows."""
        points = self.points.get(stream, [])
        if stream not in self.pulses:
            return list(points)
        own = {name: str(getattr(stream.process, name, "")) for name in names.ITERATIONS.labels}
        labels = points[0].labels if points else own
        ours = {name: labels.get(name, "") for name in names.ITERATIONS.labels}
        return [*points, Point(names.ITERATIONS.name, ours, self.pulses[stream].value)]

    def current(self) -> dict[tuple[str, str, str], Process]:
        """Return the process of each rank that was seen last, by (training_job, team, rank)."""
        found: dict[tuple[str, str, str], Process] = {}
        for process, _ in sorted(self.chosen.items(), key=lambda item: self.pulses[item[1]].latest):
            found[process[:3]] = process
        return found


class Asker:
    """Asks a backend; counts its answers by outcome."""

    def __init__(self, client: Client, match: str) -> None:
        self._client, self._match = client, match
        self.counts: Counter[str] = Counter()

    def look(self, back_seconds: float) -> Look:
        """Return what all workers showed in the last ``back_seconds``.

        Raises:
            QueryFailed: a question has no usable answer.
        """
        lives = pulses(self._ask(promql.raw(self._select(names.ITERATIONS), back_seconds)), names.ITERATIONS)
        found = Look(lives, chosen(lives))
        for metric, question in (
            (names.WORKER_INFO, promql.raw(self._select(names.WORKER_INFO), back_seconds)),
            (names.WORLD_SIZE, self._select(names.WORLD_SIZE)),
            (names.WORKER_STATE, f"{self._select(names.WORKER_STATE)} == 1"),
        ):
            for stream, point in newest(self._ask(question), metric).items():
                found.points.setdefault(stream, []).append(point)
        found.episodes = episodes(self._ask(promql.raw(self._select(names.WINDOW_ID), back_seconds)))
        return found

    def windows(self, group: Sequence[tuple[Stream, Episode]]) -> dict[Stream, list[Point]]:
        """Return everything that streams of one job showed when their windows began; at most RANKS_PER_QUERY of them.

        Raises:
            QueryFailed: the question has no usable answer.
        """
        begin = min(episode.begin for _, episode in group)
        end = max(episode.begin for _, episode in group) + SETTLE_SECONDS
        selected = promql.selector(OF_A_WINDOW, *_matchers([stream for stream, _ in group]))
        spans = {stream: (one.begin, min(one.end, one.begin + SETTLE_SECONDS)) for stream, one in group}
        return points_in(self._ask(promql.raw(selected, end - begin + 0.01), end), spans)

    def _ask(self, question: str, at: float | None = None) -> list[Series]:
        # VictoriaMetrics hides the newest 30 s from instant questions unless nocache is set; others ignore it.
        fields = {"query": question, "nocache": "1"} | ({} if at is None else {"time": f"{at:.3f}"})
        try:
            series = promql.parse(self._client.post(PATH, fields))
        except QueryFailed as error:
            self.counts[error.outcome] += 1
            raise
        self.counts["ok"] += 1
        return series

    def _select(self, metric: names.Metric) -> str:
        return promql.selector([metric.name], self._match)


def _matchers(streams: Sequence[Stream]) -> Iterator[str]:
    """Yield matchers for job and ranks by the names that their labels have in the backend."""
    added = dict(streams[0].added)
    for name in ("training_job", "team", "rank"):
        values = sorted({str(getattr(stream.process, name)) for stream in streams})
        made = promql.beginning if max(map(len, values)) >= LABEL_CHARACTERS else promql.matcher
        yield made(f"exported_{name}" if name in added else name, values)
