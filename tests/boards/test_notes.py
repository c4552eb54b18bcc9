"""What an annotation says of a window and of a finding, and what tells it from others."""

from __future__ import annotations

import math

import pytest

from eroica_otel.boards.api import Noted
from eroica_otel.boards.notes import Note, of_finding, of_window
from factories_report import detail, finding, job_finding, quiet, report

START = 1_764_430_000_000


def test_a_window_is_as_long_as_it_was_and_says_the_verdict() -> None:
    note = of_window("nlp", report(detail=detail(window_seconds=5.25)))
    assert note is not None
    assert (note.start_ms, note.end_ms) == (START, START + 5250)
    assert note.tags[:-1] == ("eroica", "training_job=llm-7b", "team=nlp", "window", "reason=degraded")
    assert note.text.startswith("Window (degraded). Rank 2 on node-c costs 46 ms of every ")


@pytest.mark.parametrize("seconds", [math.nan, 0.0, None])
def test_a_window_of_unknown_length_is_a_point(seconds: float | None) -> None:
    given = report(detail=None if seconds is None else detail(window_seconds=seconds))
    note = of_window("", given)
    assert note is not None
    assert note.is_open
    assert not any(tag.startswith("team=") for tag in note.tags)


def test_a_window_without_a_finding_says_so() -> None:
    note = of_window("", quiet())
    assert note is not None
    assert "No finding" in note.text


def test_an_id_that_is_no_time_is_not_drawn() -> None:
    assert of_window("", report(window_id=2**62)) is None


def test_a_finding_says_who_where_why_and_what_to_do() -> None:
    note = of_finding("nlp", "llm-7b", 1_764_430_000, finding())
    assert (note.start_ms, note.end_ms) == (START, START)
    assert note.tags[:-1] == (
        "eroica", "training_job=llm-7b", "team=nlp", "finding", "cause=python_overhead", "severity=critical",
    )  # fmt: skip
    assert note.text == (
        "Rank 2 on node-c costs 46 ms of every iteration (22 %). In augment (train:41), Python code on the training "
        "thread keeps the CPU busy. Advice: move the work into DataLoader workers or off the training thread."
    )


def test_what_came_from_outside_is_escaped_and_stays_one_short_line() -> None:
    evil = finding(function="<img src=x onerror=alert(1)>\n", stack=(), advice="x" * 9000, hosts=("a&b",))
    note = of_finding("", "job\n" + "j" * 200, 1_764_430_000, evil)
    assert "<" not in note.text
    assert "&lt;img" in note.text
    assert "a&amp;b" in note.text
    assert "\n" not in note.text
    assert len(note.text) < 700
    assert all(len(tag) <= 100 and tag.isprintable() for tag in note.tags)


def test_the_id_is_of_what_it_is_about_and_of_nothing_that_changes() -> None:
    def own(team: str = "nlp", job: str = "llm", **changes: object) -> str:
        return of_finding(team, job, 1_764_430_000, finding(**changes)).id

    assert own() == own(cause="unknown", severity="warning", impact_ratio=0.5, hosts=("node-d",), advice="")
    assert own() == of_finding("nlp", "llm", 1_764_440_000, finding()).id
    others = {own(ranks=(3,)), own(function_id="f"), own("cv"), own(job="vit"), own(link=("a", "b")), own()}
    assert len({*others, of_finding("nlp", "llm", 1, job_finding()).id}) == 7


@pytest.mark.parametrize(("end", "same"), [(0, True), (500, True), (1500, True), (900, False)])
def test_one_that_ended_before_is_another(end: int, same: bool) -> None:
    note = Note("eroica_id=x", 1000, 1000, (), "x")
    held = Noted(1, time=500 if end != 900 else 100, timeEnd=end)
    assert note.is_(held) is same
