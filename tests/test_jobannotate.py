"""Annotations against the contract of Grafana's API: what is drawn, that it is drawn once, and that nobody waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.boards.access import Access
from eroica_otel.job import Localizer
from eroica_otel.jobannotate import MOST_WAITING, Annotations
from eroica_otel.jobfaults import Faults
from eroica_otel.joboptions import JobOptions
from eroica_otel.jobstate import Life
from eroica_otel.model import Finding
from eroica_otel.publish.series import OpenFinding
from eroica_otel.statefolder import JobRecord
from eroica_otel.webserver import Handler
from factories_central import LOOPBACK, most_python, send_windows, windows
from factories_report import detail, finding, report
from grafana_api import TOKEN, FakeGrafana
from jobs import wait_until

WINDOW = 1_764_430_000
MS = 1000
KEY = ("nlp", "llm-7b")


class Replica:
    """One localizer's annotations, written when a test says so."""

    def __init__(self, grafana: FakeGrafana, **changes: Any) -> None:
        self.faults, self.now = Faults(), float(WINDOW)
        access = Access(grafana.url, TOKEN, **changes)
        self.made = Annotations(access, self.faults.guard, wall=lambda: self.now, threaded=False)

    def sees(self, *found: Finding, window: int = WINDOW, seen: int = 0) -> bool:
        """Judge a window that finds these; return whether all was written. ``seen`` is their own window, if another."""
        record = record_of(*found, window=window, seen=seen)
        self.made.show({KEY: record})
        return self.made.write()

    def failures(self) -> int:
        return self.faults.counts()["publish"]


def record_of(*found: Finding, window: int = WINDOW, seen: int = 0) -> JobRecord:
    told = report(window_id=window, findings=found, detail=detail(window_seconds=5.0))
    life = Life(tuple(OpenFinding(one, seen or window, "degraded") for one in found))
    return JobRecord(*KEY, life=life, report=told)


def drawn(grafana: FakeGrafana, kind: str) -> list[tuple[int, int]]:
    """Return start and end of each annotation, in seconds after the first window, by start."""
    found = [note for note in grafana.notes.values() if kind in note["tags"]]
    return sorted((note["time"] // MS - WINDOW, note["timeEnd"] // MS - WINDOW) for note in found)


def test_each_window_and_each_finding_is_drawn_and_a_finding_ends_when_it_does(grafana: FakeGrafana) -> None:
    one = Replica(grafana)
    assert one.sees(finding(), finding(ranks=(3,)))
    assert (drawn(grafana, "window"), drawn(grafana, "finding")) == ([(0, 5)], [(0, 0), (0, 0)])
    one.now += 610
    assert one.sees(finding(), window=WINDOW + 600)
    one.now += 100
    assert one.sees(window=WINDOW + 600)
    assert drawn(grafana, "window") == [(0, 5), (600, 605)]
    assert drawn(grafana, "finding") == [(0, 610), (0, 710)]
    assert one.failures() == 0


def test_a_restart_and_a_second_localizer_draw_nothing_twice(grafana: FakeGrafana) -> None:
    assert Replica(grafana).sees(finding())
    del grafana.writes[:]
    late = Replica(grafana)
    assert late.sees(finding(), seen=WINDOW + 600)
    assert grafana.writes == []
    late.now += 700
    assert late.sees()
    assert drawn(grafana, "finding") == [(0, 700)]


def test_two_that_write_at_the_same_moment_leave_one(grafana: FakeGrafana) -> None:
    grafana.meeting = threading.Barrier(2)  # both look before one writes, and again after both have
    threads = [threading.Thread(target=Replica(grafana).sees) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert grafana.writes.count("POST /api/annotations") == 2
    assert drawn(grafana, "window") == [(0, 5)]
    assert list(grafana.notes) == [1]


def test_the_end_that_the_first_of_two_told_stays(grafana: FakeGrafana) -> None:
    one, two = Replica(grafana), Replica(grafana)
    for each in (one, two):
        assert each.sees(finding())
    one.now, two.now = WINDOW + 120, WINDOW + 125
    for each in (one, two):
        assert each.sees()
    assert drawn(grafana, "finding") == [(0, 120)]


def test_a_finding_that_comes_back_is_drawn_anew(grafana: FakeGrafana) -> None:
    one = Replica(grafana)
    one.sees(finding())
    one.now += 120
    one.sees()
    assert one.sees(finding(), window=WINDOW + 900)
    assert drawn(grafana, "finding") == [(0, 120), (900, 900)]


def test_a_finding_that_is_understood_better_says_so_and_keeps_its_start(grafana: FakeGrafana) -> None:
    one = Replica(grafana)
    one.sees(finding(cause="unknown"))
    assert one.sees(finding(), window=WINDOW + 600)
    (note,) = (note for note in grafana.notes.values() if "finding" in note["tags"])
    assert "cause=python_overhead" in note["tags"]
    assert "keeps the CPU busy" in note["text"]
    assert note["time"] == note["timeEnd"] == WINDOW * MS


def test_a_job_that_is_not_remembered_any_more_has_no_open_finding(grafana: FakeGrafana) -> None:
    one = Replica(grafana)
    one.sees(finding())
    one.now += 60
    one.made.show({})
    assert one.made.write()
    assert drawn(grafana, "finding") == [(0, 60)]


def _html(handler: Handler) -> None:
    handler.answer(200, b"<html>sign in</html>", "text/html")


def _moved(handler: Handler) -> None:
    handler.answer(302, b"", Location="https://elsewhere.example/login")


def _busy(handler: Handler) -> None:
    handler.answer(503, b"<html>", "text/html")


def _refused(handler: Handler) -> None:
    handler.answer(401, b'{"message": "Invalid API key"}', "application/json")


def _broken(handler: Handler) -> None:
    handler.answer(200, b'[{"id": "x"}]', "application/json")


@pytest.mark.parametrize(
    ("instead", "told"),
    [
        (_html, "answers, but not as a Grafana does"),
        (_broken, "answers, but not as a Grafana does"),
        (_moved, "redirects to another address"),
        (_busy, "could not read annotations (503: Service Unavailable)"),
        (_refused, "refuses the credentials (401: Invalid API key)"),
    ],
)
def test_what_fails_is_counted_said_once_and_written_later(
    instead: Callable[[Handler], None], told: str, grafana: FakeGrafana, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    grafana.instead = instead
    one = Replica(grafana)
    assert not one.sees(finding())
    assert not one.made.write()
    assert one.failures() == 2
    (said,) = (record.getMessage() for record in caplog.records)
    assert told in said
    assert TOKEN not in said
    grafana.instead = None
    assert one.made.write()
    assert (drawn(grafana, "window"), drawn(grafana, "finding")) == ([(0, 5)], [(0, 0)])


def test_nobody_there_is_counted_and_what_waits_is_bounded(grafana: FakeGrafana) -> None:
    grafana.stop()
    one = Replica(grafana)
    for number in range(MOST_WAITING + 10):
        one.made.show({KEY: record_of(window=WINDOW + number)})
    assert one.failures() == 10, "what is dropped is a failure"
    assert not one.made.write()
    assert one.failures() == 11
    assert len(one.made._waiting) == MOST_WAITING


def test_one_that_is_refused_does_not_keep_the_others_back(grafana: FakeGrafana) -> None:
    grafana.unloved = "Window"
    one = Replica(grafana)
    assert not one.sees(finding())
    assert drawn(grafana, "finding") == []
    assert not one.made.write()
    assert (drawn(grafana, "window"), drawn(grafana, "finding")) == ([], [(0, 0)])


def test_a_grafana_that_hangs_holds_up_no_round_and_ends_with_the_localizer(grafana: FakeGrafana) -> None:
    asked, over = threading.Event(), threading.Event()

    def hang(_: Handler) -> None:
        asked.set()
        over.wait(30)

    grafana.instead = hang
    faults = Faults()
    made = Annotations(Access(grafana.url, TOKEN, timeout_seconds=0.2), faults.guard)
    made.show({KEY: record_of(finding())})
    assert asked.wait(20)
    made.show({KEY: record_of(finding(), window=WINDOW + 600)})
    wait_until(lambda: faults.counts()["publish"] > 0, "the failure to be counted")
    assert not over.is_set()
    made.stop()
    assert made._thread is not None
    assert not made._thread.is_alive()
    over.set()


def test_without_a_grafana_nothing_is_begun() -> None:
    made = Annotations(None, Faults().guard)
    made.show({KEY: record_of(finding())})
    assert made._thread is None
    made.stop()


def test_a_localizer_draws_what_it_judges(grafana: FakeGrafana, tmp_path: Path) -> None:
    options = JobOptions(LOOPBACK, LOOPBACK, str(tmp_path), annotate=Access(grafana.url, TOKEN))
    localizer = Localizer(options, most_python)
    try:
        localizer.start()
        send_windows(localizer.receiver.url, windows(slow=[2]))
        localizer.round()
    finally:
        localizer.close()
    kinds = sorted(
        next(kind for kind in ("window", "finding") if kind in note["tags"]) for note in grafana.notes.values()
    )
    assert kinds == ["finding", "window"]
    again = Localizer(options, most_python)
    del grafana.writes[:]
    try:
        again.start()
        again.round()
    finally:
        again.close()
    assert grafana.writes == []
