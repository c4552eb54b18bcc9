"""Prometheus (or what speaks its API) as a source: a look every few seconds -> the same deliveries as by OTLP.

A window is delivered once per worker: what the worker showed from the first sample with the window's id on, by the
backend's times; no worker's clock is compared with anything. What fails is counted, said once, and tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from eroica_otel import names
from eroica_otel.errors import Guard, QueryError, unguarded
from eroica_otel.model import Point
from eroica_otel.query.client import OUTCOMES, Backend, Client, QueryFailed
from eroica_otel.query.decode import is_rank
from eroica_otel.query.look import RANKS_PER_QUERY, SETTLE_SECONDS, Asker, Look, Spell
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.reading import Shown
from eroica_otel.query.scraped import Episode, Process, Stream
from eroica_otel.query.store import WORKERS_MOST
from eroica_otel.query.strangers import strangers
from eroica_otel.rounds import Rounds
from eroica_otel.table import Table
from eroica_otel.tabled import taken

_START_SECONDS = 300.0
_LEAST_SECONDS, _MOST_SECONDS = 60.0, 3600.0
_SPACINGS = 4.0
_KEPT_SECONDS = 2 * _MOST_SECONDS
_ERRORS_KEPT = 64
_WHOLE = 0.98
_SERIES = 4
"""Series of one name that a look holds for each worker that is followed: replicas, and processes before a restart."""
LARGE_WORKERS = 4096
"""Jobs of so many workers are read into tables: an object for each pattern would be too much."""
_OF_ONE_QUESTION = ("refused", "too_large", "malformed")
"""Outcomes that say nothing about the other questions of a look."""

logger = logging.getLogger(__name__)
_Shown = tuple[Process, float]
Take = Callable[[tuple[str, str], Table], object]
"""Takes team and name of a job, and a window of it."""
_Group = list[tuple[Stream, Episode]]


class PrometheusSource:
    """Reads one backend in a thread of its own, from ``start`` to ``stop``.

    Attributes:
        url: Address of the backend, without a password.
        failures: Looks and deliveries that failed.
        down: Why the last look failed; "" after one that went well, and before the first.
        settled: Whether the last look that went well left nothing for the next.
        missed_seconds: Set by the owner before ``start``: for how long nobody has looked, where that is known.
    """

    def __init__(
        self,
        backend: Backend,
        accept: Callable[[Delivery], None],
        *,
        take: Take | None = None,
        say: Callable[[str], None] = logger.info,
        guard: Guard = unguarded,
        clock: Callable[[], float] = time.monotonic,
        large: int = LARGE_WORKERS,
        workers: int = WORKERS_MOST,
    ) -> None:
        """Prepare; nothing is asked before ``start``.

        Args:
            backend: What to read.
            accept: Takes deliveries; may raise QueryError.
            take: Takes the windows of large jobs, but for hangs, as tables; may raise QueryError. None: there are none.
            say: Takes lines for people.
            guard: Runs one look; what it does not let through cannot end the thread.
            clock: Monotonic seconds.
            large: Workers from which a job is large.
            workers: How many workers are followed at once.

        Raises:
            ConfigError: certificates or token cannot be loaded.
        """
        self._backend, self._accept, self._say, self._guard, self._clock = backend, accept, say, guard, clock
        self._take, self._large = take, large
        self._asker = Asker(client := Client(backend), backend.match, backend.api, _SERIES * workers)
        self.url, self.failures = client.url, 0
        self._latest: dict[Process, float] = {}
        self._seen, self._delivered = dict[_Shown, float](), dict[_Shown, float]()
        self._partial = dict[_Shown, int]()
        self._spacing, self._last_good, self.missed_seconds = 0.0, -1.0, 0.0
        self.down, self._empty, self.settled = "", False, False
        self._told, self._rest = set[str](), 0.0
        self._refused: QueryFailed | None = None
        self._rounds = Rounds("eroica-query", self._once)

    def start(self) -> None:
        """Begin to look."""
        self._rounds.start()

    def stop(self) -> None:
        """End; a question that is under way is left behind."""
        self._rounds.stop(1.0)

    def requests(self) -> Mapping[str, int]:
        """Return the number of questions by outcome; every outcome is present."""
        return {outcome: self._asker.counts[outcome] for outcome in OUTCOMES}

    def _once(self) -> float:
        self._rest = self._backend.interval_seconds
        self._guard("query", self.look)
        return self._rest

    def look(self) -> None:
        """Look once and deliver what is new."""
        try:
            found = self._asker.look(self._look_back())
            unsettled = self._deliver_windows(found)
            self._deliver_standing(found)
            if self._refused is not None:
                # What one job cannot get must not make every look longer and longer.
                self._last_good = max(self._last_good, self._clock() - _START_SECONDS)
                raise self._refused
        except QueryFailed as error:
            self._fails(str(error))
            return
        self._spacing, self._last_good = found.spacing(), self._clock()
        self._works(found)
        self.settled = not unsettled
        if unsettled:
            self._rest = min(self._rest, SETTLE_SECONDS)

    def _look_back(self) -> float:
        """Return how far back samples are asked for: over what was missed since the last look that went well."""
        if self._last_good < 0:
            return min(max(_START_SECONDS, self.missed_seconds + _LEAST_SECONDS), _MOST_SECONDS)
        missed = self._clock() - self._last_good + _LEAST_SECONDS
        return min(max(missed, _SPACINGS * self._spacing), _MOST_SECONDS)

    def _deliver_standing(self, found: Look) -> None:
        """Deliver every worker of which a sample is new; one that had ended before the first look is not alive."""
        newest: dict[tuple[str, str], float] = {}
        for stream, pulse in found.pulses.items():
            newest[stream.process[:2]] = max(newest.get(stream.process[:2], 0.0), pulse.latest)
        for process, stream in sorted(found.chosen.items(), key=lambda item: found.pulses[item[1]].latest):
            pulse, before = found.pulses[stream], self._latest.get(process)
            silent = newest[process[:2]] - pulse.latest > max(_LEAST_SECONDS, _SPACINGS * pulse.spacing)
            if not silent if before is None else pulse.latest > before:
                self._latest[process] = pulse.latest
                self._hand_over(stream, found.standing(stream), pulse.spacing)
        self._latest = {process: when for process, when in self._latest.items() if process in found.chosen}

    def _deliver_windows(self, found: Look) -> bool:
        """Read and deliver the windows that are new and settled; return whether others wait."""
        now, unsettled, self._refused = self._clock(), False, None
        groups: dict[tuple[str, str, float], _Group] = {}
        for stream, episode in self._pending(found):
            since = self._seen.setdefault((stream.process, episode.window_id), now)
            pulse = found.pulses.get(stream)
            if now - since >= SETTLE_SECONDS or (pulse and pulse.latest - episode.begin >= SETTLE_SECONDS):
                job = (stream.process.training_job, stream.process.team, episode.window_id)
                groups.setdefault(job, []).append((stream, episode))
            else:
                unsettled = True
        for group in sorted(groups.values(), key=lambda group: min(episode.begin for _, episode in group)):
            unsettled |= not self._read_for_itself(found, group, now)
        for known in (self._seen, self._delivered):
            for key in [key for key, when in known.items() if now - when > _KEPT_SECONDS]:
                del known[key]
        return unsettled

    def _pending(self, found: Look) -> Iterator[tuple[Stream, Episode]]:
        """Yield the windows that were not delivered yet.

        An earlier process of a rank must not speak after its successor did: they would look like two at a time.
        """
        current = found.current()
        for stream, shown in found.episodes.items():
            process = stream.process
            latest = current.get(process[:3], process)
            if found.chosen.get(process, stream) == stream and (latest == process or latest not in self._latest):
                yield from ((stream, one) for one in shown if (process, one.window_id) not in self._delivered)

    def _read_for_itself(self, found: Look, group: _Group, now: float) -> bool:
        """Read one window of one job, whole or of some ranks after the others; return whether all of it was there."""
        take, ranked = self._take, [one for one in group if is_rank(one[0].process.rank)]
        if take is not None and ranked and found.workers[group[0][0].process[:2]] >= self._large:
            whole = self._tried(lambda: self._read_table(take, ranked, now))
            if whole is not None:
                return whole
        unsettled = False
        for first in range(0, len(group), RANKS_PER_QUERY):
            part = group[first : first + RANKS_PER_QUERY]
            unsettled |= not self._tried(partial(self._read, found, part, now))
        return not unsettled

    def _tried(self, read: Callable[[], bool | None]) -> bool | None:
        """Return what came of reading; what the backend refuses of one job holds up no other."""
        try:
            return read()
        except QueryFailed as error:
            if error.outcome not in _OF_ONE_QUESTION:
                raise
            self._refused = error
            return False

    def _read_table(self, take: Take, group: _Group, now: float) -> bool | None:
        """Read and deliver one window of a large job; return whether all of it was there, None of a hang."""
        group = self._of_our_schema(group, now)
        if not group:
            return True
        table = self._table(group)
        if "blocked" in table.workers.reason.distinct(range(len(table.workers))):
            return None
        return self._deliver_table(take, table, group, now)

    def _of_our_schema(self, group: _Group, now: float) -> _Group:
        """Return who can be read; of the others nothing but their schema is handed over, so that they are refused."""
        at = max(episode.begin for _, episode in group) + SETTLE_SECONDS
        others = strangers(self._asker, self._backend.match, at)
        for stream, episode in group:
            if stream in others:
                self._delivered[stream.process, episode.window_id] = now
                self._hand_over(stream, [others[stream]], 0.0)
        return [one for one in group if one[0] not in others]

    def _table(self, group: _Group) -> Table:
        (stream, first), begins = group[0], [episode.begin for _, episode in group]
        shown = Shown(stream.process.team, stream.process.training_job, int(first.window_id), "", len(group))
        ranks = {int(stream.process.rank) for stream, _ in group}
        return self._asker.table(
            Spell(shown, min(begins), max(begins) + SETTLE_SECONDS), ranks,
            lambda known: [one for one in group if int(one[0].process.rank) not in known],
        )  # fmt: skip

    def _deliver_table(self, take: Take, table: Table, group: _Group, now: float) -> bool:
        """Deliver the rows of a window that are whole, or have not grown; return whether all are."""
        sizes = np.bincount(table.worker, minlength=len(table.workers))
        charged = np.nansum(np.array([*table.workers.kinds.values(), np.zeros(len(table.workers))]), axis=0)
        whole = (charged == 0) | (charged >= _WHOLE)
        there = {rank: at for at, rank in enumerate(table.workers.rank.tolist())}
        ready, all_whole = np.zeros(len(table.workers), bool), True
        for stream, episode in group:
            key, at = (stream.process, episode.window_id), there.get(int(stream.process.rank), -1)
            size = int(sizes[at]) if at >= 0 else 0
            if (at >= 0 and whole[at]) or self._partial.get(key) == size:
                self._delivered[key] = now
                self._partial.pop(key, None)
                if at >= 0:
                    ready[at] = True
            else:
                self._partial[key], all_whole = size, False
        process = group[0][0].process
        self._told_of(process.rank, lambda: take((process.team, process.training_job), taken(table, ready)))
        return all_whole

    def _read(self, found: Look, group: _Group, now: float) -> bool:
        """Read and deliver one window of some ranks; return whether all of it was there."""
        points = self._asker.windows(group)
        all_whole = True
        for stream, episode in group:
            key = (stream.process, episode.window_id)
            if not _is_whole(points[stream]) and self._partial.get(key) != len(points[stream]):
                # More of it may be on its way; what has not grown by the next look is all there is.
                self._partial[key], all_whole = len(points[stream]), False
                continue
            self._delivered[key] = now
            self._partial.pop(key, None)
            known = {point.name for point in points[stream]}
            standing = [point for point in found.standing(stream) if point.name not in known]
            pulse = found.pulses.get(stream)
            self._hand_over(stream, [*standing, *points[stream]], pulse.spacing if pulse else 0.0)
        return all_whole

    def _hand_over(self, stream: Stream, points: Sequence[Point], spacing: float) -> None:
        process = {"instance": stream.process.instance, "process.pid": stream.process.pid}
        self._told_of(stream.process.rank, lambda: self._accept(Delivery(process, tuple(points), spacing)))

    def _told_of(self, rank: str, hand_over: Callable[[], object]) -> None:
        if self._rounds.stopping:
            return  # whoever takes may be closed already
        try:
            hand_over()
        except QueryError as error:
            self.failures += 1
            if len(self._told) < _ERRORS_KEPT and str(error) not in self._told:
                self._told.add(str(error))
                self._say(f"series of rank {rank} in {self.url} are left out: {error}")

    def _fails(self, why: str) -> None:
        self.failures += 1
        if why != self.down:
            self.down = why
            self._say(f"cannot read {self.url}: {why}; trying again every {self._backend.interval_seconds:g} s")

    def _works(self, found: Look) -> None:
        if self.down:
            self.down = ""
            self._say(f"{self.url} answers again")
        if not found.chosen and not self._empty:
            match = f" under {self._backend.match}" if self._backend.match else ""
            self._say(
                f"{self.url} answers, but holds no {names.ITERATIONS.name}{match} of the last minutes; is the training "
                "scraped (OTEL_METRICS_EXPORTER=prometheus), and does --match fit?"
            )
        self._empty = not found.chosen


def _is_whole(points: Sequence[Point]) -> bool:
    """Return whether a window is there as far as that shows: its length, and kinds that sum to 1."""
    kinds = [point.value for point in points if point.name == names.KIND_BETA.name]
    return any(point.name == names.WINDOW_SECONDS.name for point in points) and (not kinds or sum(kinds) >= _WHOLE)
