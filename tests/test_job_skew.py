"""Clocks an hour apart through the whole localizer that reads a Prometheus: what the backend's times say counts.

test_job_hang.py does the same with deliveries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from backends import NOW, BackendServer, backend
from eroica_otel.job import Localizer
from eroica_otel.joboptions import JobOptions
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Report, WorkerWindow
from eroica_otel.query.client import Backend
from factories_central import LOOPBACK, WINDOW, identity, windows
from factories_localize import IN_AUGMENT, stuck

HOUR = 3600
FAR = pytest.mark.parametrize("skew", [HOUR, -HOUR])


class Desk:
    """A localizer that reads a backend; scrapes, looks and rounds are made by the test."""

    def __init__(self, folder: Path, server: BackendServer, stack: ExitStack) -> None:
        self.now, self.verdicts, self.samples = 1000.0, list[Report](), server.samples
        self.localizer = Localizer(
            JobOptions(None, LOOPBACK, str(folder), backend=Backend(server.url)), judge, progress=lambda line: None,
            verdict=self.verdicts.append, clock=lambda: self.now, wall=lambda: WINDOW + 2.0 * HOUR,
        )  # fmt: skip
        stack.callback(self.localizer.close)
        reader = self.localizer.sources.reader
        assert reader is not None
        self.reader = reader
        reader.start = lambda: None  # type: ignore[method-assign]
        self.localizer.start()

    def show(self, given: Sequence[WorkerWindow], state: str = "degraded") -> None:
        """Let workers show their windows for 30 s, in which they are scraped and looked at."""
        for _ in range(6):
            self.samples.scrape(self.samples.now, self.samples.now + 1, given, state=state)
            self.now += 5
            self.samples.now += 5
            self.reader.look()
            self.localizer.round()

    def culprits(self) -> list[tuple[int, ...]]:
        """Return the ranks of findings that are open; info is no finding."""
        found = [item.finding for record in self.localizer._records.values() for item in record.life.open]
        return [one.ranks for one in found if one.severity != "info"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with backend() as server, ExitStack() as stack:
        server.samples.now = NOW
        yield Desk(tmp_path / "state", server, stack)


def ordinary(window_id: int, reason: str, slow: Sequence[int] = ()) -> list[WorkerWindow]:
    return windows(slow, window_id=window_id, reason=reason)


@FAR
def test_a_node_whose_clock_is_far_off_is_judged_like_the_others_and_told_of(desk: Desk, skew: int) -> None:
    given = ordinary(WINDOW, "degraded", slow=[1])
    end = given[3].end_timestamp_seconds + skew
    given[3] = replace(given[3], end_timestamp_seconds=end, identity=identity(3, host="far"))
    desk.show(given)
    (report,) = desk.verdicts
    assert [(finding.ranks, finding.severity) for finding in report.findings] == [((1,), "critical")]
    assert (report.workers_seen, report.missing_ranks) == (4, ())
    assert len([note for note in report.notes if note.startswith("the clock of far is up to 1.0 h away")]) == 1


@FAR
def test_the_window_that_a_frozen_rank_opened_by_its_own_clock_is_of_the_same_hang(desk: Desk, skew: int) -> None:
    hung = [stuck(rank, identity=identity(rank), window_id=WINDOW) for rank in (0, 1, 3)]
    stopped = stuck(2, IN_AUGMENT, identity=identity(2), window_id=WINDOW + skew, stopped_seconds=9.0)
    desk.show([*hung, stopped], state="blocked")
    (report,) = desk.verdicts
    assert report.workers_seen == 4
    assert [(finding.cause, finding.ranks) for finding in report.findings] == [("process_stopped", (2,))]


@FAR
def test_windows_of_deciders_an_hour_apart_are_ordered_by_the_backends_times(desk: Desk, skew: int) -> None:
    desk.show(ordinary(WINDOW + skew, "reference"))
    desk.show(ordinary(WINDOW + 60, "degraded", slow=[1]))
    assert desk.culprits() == [(1,)]
    seen = desk.verdicts[-1].detail
    assert seen is not None
    assert not math.isnan(seen.reference_iteration_seconds), "the reference counts, however far off its id is"
    desk.show(ordinary(WINDOW + skew + 120, "manual"))
    assert desk.culprits() == []
    ids = [WINDOW + skew, WINDOW + 60, WINDOW + skew + 120]
    assert [report.window_id for report in desk.verdicts] == ids
