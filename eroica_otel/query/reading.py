"""What whoever looks for measured windows asks for, and what every place that keeps them answers: one protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol

from eroica_otel.model import WorkerWindow
from eroica_otel.table import Table
from eroica_otel.tabled import in_parts

SINCE_SECONDS = 3600.0
"""How far back a backend is asked, unless more is wanted."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which windows; what is not said fits all.

    Attributes:
        training_job: Name of the job; "" for any.
        team: Its team; None for any, "" for none.
        ranks: Ranks; empty for all.
        window_id: Id of the window; None for the newest of each job.
        since_seconds: How far back to look, where the place keeps time.
    """

    training_job: str = ""
    team: str | None = None
    ranks: frozenset[int] = frozenset()
    window_id: int | None = None
    since_seconds: float = SINCE_SECONDS

    def of_job(self, team: str, training_job: str) -> bool:
        """Return whether a job fits."""
        return self.training_job in ("", training_job) and self.team in (None, team)


class Shown(NamedTuple):
    """A window that a place keeps, and of how many workers."""

    team: str
    training_job: str
    window_id: int
    reason: str
    workers: int


class Tabled(NamedTuple):
    """A window and the table of its workers."""

    shown: Shown
    table: Table


class Reader(Protocol):
    """A place that keeps windows."""

    @property
    def url(self) -> str:
        """Return where it is, for people."""

    def shown(self, wanted: Wanted) -> list[Shown]:
        """Return the windows of the jobs that fit, whatever their id and ranks, in the order in which they came.

        Raises:
            QueryError: the place cannot be read.
        """

    def windows(self, wanted: Wanted) -> Iterator[WorkerWindow]:
        """Yield what fits, each worker's window once.

        Raises:
            QueryError: the place cannot be read.
        """

    def tables(self, wanted: Wanted) -> Iterator[Tabled]:
        """Yield each window that fits as a table of its workers: the same numbers, for jobs of any size.

        Raises:
            QueryError: the place cannot be read.
        """


def tabled(windows: Iterable[WorkerWindow], shown: Iterable[Shown]) -> Iterator[Tabled]:
    """Yield the table of each of the windows that ``picked`` gave."""
    known = {one[:3]: one for one in shown}
    for key, some in groupby(windows, lambda one: (one.identity.team, one.identity.training_job, one.window_id)):
        yield Tabled(known[key], in_parts(some))


def shown_in(windows: Iterable[WorkerWindow], wanted: Wanted) -> list[Shown]:
    """Return which windows of the jobs that fit there are, in the order of their first parts."""
    found: dict[tuple[str, str, int], tuple[str, set[int]]] = {}
    for window in windows:
        who = window.identity
        if wanted.of_job(who.team, who.training_job):
            key = (who.team, who.training_job, window.window_id)
            found.setdefault(key, (window.reason, set()))[1].add(who.rank)
    return [Shown(*key, reason, len(ranks)) for key, (reason, ranks) in found.items()]


def chosen(shown: Iterable[Shown], wanted: Wanted) -> list[Shown]:
    """Return the windows that are wanted of those that there are: of each job the newest, or those with the id."""
    if wanted.window_id is not None:
        return [one for one in shown if one.window_id == wanted.window_id]
    return list({(one.team, one.training_job): one for one in shown}.values())


def picked(windows: Iterable[WorkerWindow], shown: Iterable[Shown], wanted: Wanted) -> Iterator[WorkerWindow]:
    """Yield the windows of ``shown`` that ranks which are wanted reported; of a rank the last in each."""
    keys = {one[:3] for one in shown}
    found: dict[tuple[str, str, int, int], WorkerWindow] = {}
    for window in windows:
        who = window.identity
        key = (who.team, who.training_job, window.window_id)
        if key in keys and (not wanted.ranks or who.rank in wanted.ranks):
            of_worker = (*key, who.rank)
            found[of_worker] = window
    yield from (found[key] for key in sorted(found))
