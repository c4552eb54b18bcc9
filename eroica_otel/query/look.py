"""One look at a backend: questions about all workers at once, and about the patterns of some -> what they show.

Small questions are asked at each look; patterns only for windows that are new, in shards of ranks, as raw samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np

from eroica_otel import names
from eroica_otel.model import Point
from eroica_otel.query import bulk, export, promql
from eroica_otel.query.client import Client, QueryFailed
from eroica_otel.query.labelled import Labelled
from eroica_otel.query.laid import Dictionaries
from eroica_otel.query.otlp import LABEL_CHARACTERS
from eroica_otel.query.parts import SERIES_MOST, Parts
from eroica_otel.query.promql import Raw, Series
from eroica_otel.query.reading import Shown
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
from eroica_otel.query.wide import Vectors, table_of
from eroica_otel.table import Table
from eroica_otel.tabled import joined, taken

_Read = TypeVar("_Read")
PATH = "/api/v1/query"
SETTLE_SECONDS = 2.0
"""Where series are forwarded, those of one scrape do not arrive at once: a window is read when it is this old."""
VECTORS_PER_QUERY = 4000
"""Workers whose vectors are asked for at once, two each: 200 numbers are 6 KB."""
RANKS_PER_QUERY = 64
"""20,000 series at most, 6 MB."""
STREAMED_PER_QUERY = 16_384
"""The same of a stream, of which a line is held at a time; 3 million series, a third of VictoriaMetrics' limit."""

LABELS = ("training_job", "team", "rank")
"""What a worker's series are found by."""

STANDING = (
    names.ITERATIONS, names.ITERATIONS_IRREGULAR, names.INPUT_WAIT, names.ITERATION_BASELINE,
    names.DEGRADATION_RATIO, names.ITERATION_LAST, names.WORKER_STATE, names.GROUP_INFO, names.GROUPS_LEFT_OUT,
    names.DELIVERIES, names.FAILURES, names.WINDOWS, names.STORE_SILENT, names.RESOURCE_MISSING, names.HELPER_CPU,
)  # fmt: skip
"""Series of a worker that say nothing about its window; everything else is read with it."""
OF_A_WINDOW = (
    *(metric.name for metric in names.OF_WORKER if metric.type != names.HISTOGRAM and metric not in STANDING),
    names.VECTOR.name,
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

    @property
    def workers(self) -> Counter[tuple[str, str]]:
        """Processes of each job, by (training_job, team)."""
        return Counter(process[:2] for process in self.chosen)

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


class Spell(NamedTuple):
    """A window, and from when to when (unix seconds of the backend) it is looked for."""

    shown: Shown
    first: float
    last: float


Member = tuple[Stream, Episode]
"""Who showed a window, and when."""


class Asker:
    """Asks a backend.

    Attributes:
        counts: Its answers by outcome.
        parts: Asks about all workers, in parts where the backend wants that.
    """

    def __init__(self, client: Client, match: str, api: str = "prometheus", most_series: int = SERIES_MOST) -> None:
        self._client, self._match = client, match
        self._dictionaries, self.parts = Dictionaries(), Parts(most_series)
        self._exports = None if api == "auto" else api == "victoriametrics"
        self.counts: Counter[str] = Counter()

    def look(self, back_seconds: float) -> Look:
        """Return what all workers showed in the last ``back_seconds``.

        Raises:
            QueryFailed: a question has no usable answer.
        """

        def back(selected: str) -> str:
            return promql.raw(selected, back_seconds)

        lives = pulses(self._of_all(names.ITERATIONS, back), names.ITERATIONS)
        found = Look(lives, chosen(lives))
        for metric, question in (
            (names.WORKER_INFO, back),
            (names.WORLD_SIZE, str),
            (names.WORKER_STATE, "{} == 1".format),
        ):
            for stream, point in newest(self._of_all(metric, question), metric).items():
                found.points.setdefault(stream, []).append(point)
        found.episodes = episodes(self._of_all(names.WINDOW_ID, back))
        return found

    def _of_all(self, metric: names.Metric, question: Callable[[str], str]) -> list[Series]:
        """Return the answer to a question about one metric of all workers, in parts where it is too much at once."""
        return self.parts.all(lambda ranks: self._ask(question(promql.selector([metric.name], self._match, ranks))))

    def windows(self, group: Sequence[Member]) -> dict[Stream, list[Point]]:
        """Return everything that streams of one job showed when their windows began, in halves where that is too much.

        Raises:
            QueryFailed: a question has no usable answer.
        """
        try:
            return self._windows(group)
        except QueryFailed as error:
            if error.outcome != "too_large" or len(group) == 1:
                raise
        half = len(group) // 2
        return self.windows(group[:half]) | self.windows(group[half:])

    def _windows(self, group: Sequence[Member]) -> dict[Stream, list[Point]]:
        begin = min(episode.begin for _, episode in group)
        end = max(episode.begin for _, episode in group) + SETTLE_SECONDS
        selected = promql.selector(OF_A_WINDOW, *_matchers([stream for stream, _ in group]))
        spans = {stream: _span(one) for stream, one in group}
        laid: list[Series] = []
        points = points_in(_without_vectors(self.between(selected, begin, end), laid), spans)
        return points | self._dictionaries.points(laid, spans, self._ask) if laid else points

    def labelled(self, members: Sequence[Member], *, is_all: bool = False) -> Labelled:
        """Return the windows of streams of one job as columns, in the layout of labels.

        Args:
            is_all: They are all, or nearly all, of the job, which a stream that is not too long then gives whole: a
                server takes seconds to find series by a list of thousands of ranks, and no time by the job alone.

        Raises:
            QueryFailed: a question has no usable answer.
        """
        found = Labelled({stream: _span(one) for stream, one in members})
        many = STREAMED_PER_QUERY if self.streams() else RANKS_PER_QUERY
        labels = LABELS[:-1] if is_all and self.streams() and len(members) <= many else LABELS
        for first in range(0, len(members), many):
            self._into(found, members[first : first + many], labels)
        return found

    def _into(self, found: Labelled, group: Sequence[Member], labels: Sequence[str]) -> None:
        begin = min(episode.begin for _, episode in group)
        end = max(episode.begin for _, episode in group) + SETTLE_SECONDS
        selected = promql.selector(OF_A_WINDOW, *_matchers([stream for stream, _ in group], labels))
        try:
            series = self._raw(selected, begin, end)
            first = next(series, None)
        except QueryFailed as error:
            if error.outcome != "too_large" or len(group) == 1:
                raise
            half = len(group) // 2
            self._into(found, group[:half], LABELS)
            self._into(found, group[half:], LABELS)
            return
        found.take(series if first is None else chain([first], series))

    def _raw(self, selected: str, begin: float, end: float) -> Iterator[Raw]:
        if self.streams():
            yield from self._counted(export.raw_between(self._client, selected, begin, end))
            return
        question = promql.raw(selected, end - begin + 0.01)
        yield from self._answered(promql.parse_raw, question, PATH, {"time": f"{end:.3f}"})

    def between(self, selected: str, begin: float, end: float) -> Iterable[Series]:
        """Return all samples of a selector from ``begin`` to ``end`` (unix seconds of the backend, both included).

        Raises:
            QueryFailed: the question has no usable answer; where it is a stream, also while that is read.
        """
        if self.streams():
            return self._counted(export.between(self._client, selected, begin, end))
        return self._ask(promql.raw(selected, end - begin + 0.01), end)

    def tables(self, spell: Spell) -> list[bulk.Table]:
        """Return one window of a job in layout ``vec`` as tables.

        Raises:
            QueryFailed: a question has no usable answer.
        """
        return bulk.tables(self._rows(spell), self._ask)

    def table(
        self, spell: Spell, ranks: Collection[int], members: Callable[[Collection[int]], Sequence[Member]]
    ) -> Table:
        """Return one window of a job as a table, in either layout: the vectors first, then who is not in them.

        Args:
            spell: The window, and from when to when its vectors are looked for.
            ranks: Those that are wanted; empty for all.
            members: Gives who showed the window, but for some ranks.

        Raises:
            QueryFailed: a question has no usable answer.
        """
        job = spell.shown.training_job
        vectors = _of(table_of(job, Vectors(self.tables(spell))), spell.shown, ranks)
        if len(vectors.workers) >= (len(ranks) or spell.shown.workers):
            return vectors
        others = members(vectors.workers.rank.tolist())
        return joined([vectors, _of(table_of(job, self.labelled(others, is_all=not ranks)), spell.shown, ranks)])

    def _rows(self, spell: Spell) -> Iterator[export.Row]:
        """Yield the vectors of a window: by the stream all at once, by questions in shards of ranks."""
        jobs = [_matcher(name, [getattr(spell.shown, name)]) for name in ("training_job", "team")]
        if self.streams():
            selected = promql.selector([names.VECTOR.name], self._match, *jobs)
            yield from self._counted(export.rows_between(self._client, selected, spell.first, spell.last))
            return
        for ranks in bulk.shards(spell.shown.workers, VECTORS_PER_QUERY):
            selected = promql.selector([names.VECTOR.name], self._match, *jobs, f'rank=~"{ranks}"')
            for one in self.between(selected, spell.first, spell.last):
                yield bulk.row_of(one)

    def streams(self) -> bool:
        """Return whether the backend exports; it is asked once, where nobody has said so.

        Raises:
            QueryFailed: nobody answers.
        """
        if self._exports is None:
            self._exports = export.is_there(self._client)
        return self._exports

    def _counted(self, series: Iterator[_Read]) -> Iterator[_Read]:
        try:
            yield from series
        except QueryFailed as error:
            self.counts[error.outcome] += 1
            raise
        self.counts["ok"] += 1

    def ask(self, question: str, path: str = PATH, **fields: str) -> list[Series]:
        """Return the answer to a question.

        Raises:
            QueryFailed: it has no usable answer.
        """
        return self._answered(promql.parse, question, path, fields)

    def _answered(
        self, parse: Callable[[bytes], list[_Read]], question: str, path: str, fields: Mapping[str, str]
    ) -> list[_Read]:
        # VictoriaMetrics hides the newest 30 s from instant questions unless nocache is set; others ignore it.
        try:
            series = parse(self._client.post(path, {"query": question, "nocache": "1", **fields}))
        except QueryFailed as error:
            self.counts[error.outcome] += 1
            raise
        self.counts["ok"] += 1
        return series

    def _ask(self, question: str, at: float | None = None) -> list[Series]:
        return self.ask(question) if at is None else self.ask(question, time=f"{at:.3f}")


def _of(table: Table, shown: Shown, ranks: Collection[int]) -> Table:
    """Return the rows that are of a window and of these ranks (empty: all), and tell its length and reason."""
    workers = table.workers
    here = (workers.window_id == shown.window_id) & np.isfinite(workers.seconds) & ~workers.reason.among({""})
    if ranks:
        here &= np.isin(workers.rank, sorted(ranks))
    return taken(table, here)


def _span(shown: Episode) -> tuple[float, float]:
    """Return in which time the first sample of a series is the window's."""
    return shown.begin, min(shown.end, shown.begin + SETTLE_SECONDS)


def _without_vectors(series: Iterable[Series], laid: list[Series]) -> Iterator[Series]:
    """Yield what is not of layout vec; the rest is put into ``laid``."""
    for one in series:
        if one.labels.get("__name__") == names.VECTOR.name:
            laid.append(one)
        else:
            yield one


def _matchers(streams: Sequence[Stream], labels: Sequence[str] = LABELS) -> Iterator[str]:
    """Yield matchers for job and ranks by the names that their labels have in the backend."""
    added = dict(streams[0].added)
    for name in labels:
        values = sorted({str(getattr(stream.process, name)) for stream in streams})
        yield _matcher(f"exported_{name}" if name in added else name, values)


def _matcher(label: str, values: Sequence[str]) -> str:
    """Return the matcher for these values of a label, of which one that is long was cut."""
    return (promql.beginning if max(map(len, values)) >= LABEL_CHARACTERS else promql.matcher)(label, values)
