"""Windows in a backend that speaks the API of Prometheus: which there are, and what any worker showed in any of them.

Reads once what the localizer's source (query/prometheus.py) follows: for people, for files, for large jobs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from operator import itemgetter

from eroica_otel import names
from eroica_otel.errors import QueryError
from eroica_otel.model import WorkerWindow
from eroica_otel.query import promql
from eroica_otel.query.client import Backend, Client, QueryFailed
from eroica_otel.query.decode import WORKERS_MOST, decode, is_rank, is_window
from eroica_otel.query.look import RANKS_PER_QUERY, SETTLE_SECONDS, Asker, Spell
from eroica_otel.query.promql import Series
from eroica_otel.query.reading import Shown, Tabled, Wanted, chosen
from eroica_otel.query.scraped import Episode, Stream, episodes, own_labels, pulses
from eroica_otel.query.scraped import chosen as one_of_replicas
from eroica_otel.table import Table

RANGE_PATH = "/api/v1/query_range"
_STEPS = 240
_STEP_SECONDS = (5.0, 60.0)
_PART_SECONDS = 600.0
"""For how long after its first part a window's other parts are looked for, where all ranks are wanted."""

logger = logging.getLogger(__name__)


class BackendReader:
    """Reads one backend.

    Attributes:
        url: Its address without a password.
    """

    def __init__(self, backend: Backend) -> None:
        """Load the certificates; nothing is asked yet.

        Raises:
            ConfigError: they cannot be loaded, or the token cannot be read.
        """
        client = Client(backend)
        self.url, self._match = client.url, backend.match
        self._asker = Asker(client, backend.match, backend.api)

    def shown(self, wanted: Wanted) -> list[Shown]:
        """Return the windows of the last ``since_seconds`` of the jobs that fit, in the order in which they came."""
        return [spell.shown for spell in self._spells(wanted)]

    def windows(self, wanted: Wanted) -> Iterator[WorkerWindow]:
        """Yield what fits; a worker whose series cannot be understood is logged and left out."""
        spells = self._spells(wanted)
        kept = chosen([spell.shown for spell in spells], wanted)
        for spell in spells:
            if spell.shown in kept:
                yield from self._of_window(spell, wanted)

    def tables(self, wanted: Wanted) -> Iterator[Tabled]:
        """Yield each window that fits as a table: in layout ``vec`` straight from the vectors."""
        spells = self._spells(wanted)
        kept = chosen([spell.shown for spell in spells], wanted)
        for spell in spells:
            if spell.shown in kept:
                yield Tabled(spell.shown, self.table(spell, wanted))

    def table(self, spell: Spell, wanted: Wanted = Wanted()) -> Table:  # noqa: B008 - frozen
        """Return the table of one window, of which it is known when it was shown; ``wanted`` may restrict the ranks.

        Raises:
            QueryError: the place cannot be read.
        """
        until = spell._replace(last=self._end(spell))
        return self._asker.table(until, wanted.ranks, lambda known: self._in_order(spell, wanted, known))

    def _end(self, spell: Spell) -> float:
        return min(spell.last, spell.first + _PART_SECONDS) + SETTLE_SECONDS

    def _spells(self, wanted: Wanted) -> list[Spell]:
        end = self._now() + 1  # whole seconds in VictoriaMetrics
        found = self._streamed(wanted, end) if self._asker.streams() else self._asked(wanted, end)
        fit = (spell for spell in found if wanted.of_job(spell.shown.team, spell.shown.training_job))
        return sorted(fit, key=lambda spell: spell.first)

    def _now(self) -> float:
        told = self._asker.ask("vector(time())")
        if not told:
            said = "it does not tell its time (vector(time())); give the address of a Prometheus"
            raise QueryFailed("malformed", said)
        return told[0].samples[-1][1]

    def _asked(self, wanted: Wanted, end: float) -> list[Spell]:
        """Return the windows by their number of workers at each step: a small answer however many there are."""
        step = min(max(wanted.since_seconds / _STEPS, _STEP_SECONDS[0]), _STEP_SECONDS[1])
        labels = [f"{prefix}{name}" for name in ("training_job", "team", "reason") for prefix in ("", "exported_")]
        begin = end - step * math.ceil(wanted.since_seconds / step)  # so that the last step is now
        times = {"start": f"{begin:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}

        def counted(ranks: str) -> list[Series]:
            selected = promql.selector([names.WINDOW_ID.name], self._match, ranks)
            latest = f"last_over_time({promql.raw(selected, step)})"
            question = f'count_values("window", {latest}) by ({", ".join(labels)})'
            return self._asker.ask(question, RANGE_PATH, **times)

        return _together(_spell(one, step) for one in self._asker.parts.all(counted))

    def _streamed(self, wanted: Wanted, end: float) -> list[Spell]:
        """Return the windows by all samples; VictoriaMetrics hides the newest steps of a question."""
        selected = promql.selector([names.WINDOW_ID.name], self._match)
        times: dict[tuple[str, str, int, str], tuple[float, float, set[str]]] = {}
        for series in self._asker.between(selected, end - wanted.since_seconds, end):
            own, _ = own_labels(series.labels, names.WINDOW_ID)
            ids = (sample for sample in series.samples if is_window(sample[1]))
            for value, samples in groupby(ids, itemgetter(1)):
                inside = [when for when, _ in samples]
                key = own["team"], own["training_job"], int(value), own["reason"]
                begin, until, ranks = times.get(key, (inside[0], inside[-1], set()))
                ranks.add(own["rank"])
                times[key] = min(inside[0], begin), max(inside[-1], until), ranks
        return [Spell(Shown(*key, len(ranks)), first, last) for key, (first, last, ranks) in times.items()]

    def _in_order(self, spell: Spell, wanted: Wanted, without: Iterable[int] = ()) -> list[tuple[Stream, Episode]]:
        """Return those who showed it, by rank."""
        known = set(without)
        ranks = ((int(one[0].process.rank), one) for one in self._members(spell, wanted).items())
        return [one for rank, one in sorted(ranks, key=itemgetter(0)) if rank not in known]

    def _of_window(self, spell: Spell, wanted: Wanted) -> Iterator[WorkerWindow]:
        members = iter(self._in_order(spell, wanted))
        while group := list(islice(members, RANKS_PER_QUERY)):
            points = self._asker.windows(group)
            for stream, _ in group:
                try:
                    window = decode(points[stream])
                except QueryError as error:
                    logger.warning("rank %s is left out: %s", stream.process.rank, error)
                    continue
                if window is not None:
                    yield window

    def _members(self, spell: Spell, wanted: Wanted) -> Mapping[Stream, Episode]:
        """Return who showed a window, and since when; of replicas one."""
        ranks = [str(rank) for rank in sorted(wanted.ranks)]
        end = spell.last if ranks else min(spell.last, spell.first + _PART_SECONDS)
        # Where scraping has labels of these names, ours are called otherwise, and all are looked through.
        for restricted in (promql.matcher("rank", ranks), "") if ranks else ("",):
            showing = _showing(self._of_ranks(restricted, spell.first, end), spell.shown)
            found = {one: episode for one, episode in showing.items() if not ranks or one.process.rank in ranks}
            if found:
                return found
        return {}

    def _of_ranks(self, restricted: str, begin: float, end: float) -> list[Series]:
        """Return which windows were shown from ``begin`` to ``end``, by those whom a matcher fits ("" all)."""

        def shown(ranks: str) -> Iterable[Series]:
            selected = promql.selector([names.WINDOW_ID.name], self._match, restricted, ranks)
            return self._asker.between(selected, begin, end)

        return self._asker.parts.all(shown)


def _together(spells: Iterable[Spell | None]) -> list[Spell]:
    """Return the windows, each once: of one that was asked for in parts each has some workers."""
    found: dict[tuple[str, str, int, str], Spell] = {}
    for spell in spells:
        if spell is not None:
            key = spell.shown[:4]
            known = found.get(key, spell._replace(shown=spell.shown._replace(workers=0)))
            shown = spell.shown._replace(workers=min(known.shown.workers + spell.shown.workers, WORKERS_MOST))
            found[key] = Spell(shown, min(known.first, spell.first), max(known.last, spell.last))
    return list(found.values())


def _spell(series: Series, step: float) -> Spell | None:
    """Return the window that is counted in a series; None where another program has written what is none."""
    own, added = own_labels(series.labels, names.WINDOW_ID)
    workers = max(value for _, value in series.samples)
    try:
        window_id = float(dict(added).get("window", ""))
    except ValueError:
        return None
    if not is_window(window_id) or not 1 <= workers <= WORKERS_MOST:
        return None
    shown = Shown(own["team"], own["training_job"], int(window_id), own["reason"], int(workers))
    return Spell(shown, series.samples[0][0] - step, series.samples[-1][0])


def _showing(series: list[Series], shown: Shown) -> dict[Stream, Episode]:
    kept = set(one_of_replicas(pulses(series, names.WINDOW_ID)).values())
    return {
        stream: episode
        for stream, found in episodes(series).items()
        for episode in found
        if stream in kept
        and is_rank(stream.process.rank)
        and (stream.process.training_job, stream.process.team) == (shown.training_job, shown.team)
        and episode.window_id == shown.window_id
    }
