"""What a rank wants, and when: windows at fixed intervals above all; the rest is told where monitor.py is tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eroica_otel.config import WorkerConfig
from eroica_otel.model import Window
from eroica_otel.wishes import REFUSED_SECONDS, Wishes


class Rank:
    """A steady rank that has learned its loop at 0 s, and is told how it fares."""

    def __init__(self, folder: Path, **options: Any) -> None:
        given = {"reference": False, "periodic_seconds": 900.0}
        self.config = WorkerConfig.from_env({}, **(given | options))
        self.wishes = Wishes(self.config, folder)
        assert self(0.0, timed=0) == ""

    def __call__(self, now: float, **changes: Any) -> str:
        given: dict[str, Any] = {"busy": False, "timed": 1000, "degraded": False, "steady": True, "again": False}
        self.wishes.look(now, **(given | changes))
        return self.wishes.reason

    def take(self, reason: str, now: float) -> None:
        self.wishes.taken(Window(int(now), reason, 10, 20), now, 0.1)


@pytest.fixture
def rank(tmp_path: Path) -> Rank:
    return Rank(tmp_path)


def test_a_window_is_due_an_interval_after_the_loop_was_learned_and_then_after_each(rank: Rank) -> None:
    assert rank(899.0) == ""
    assert rank(900.0) == "periodic"
    assert rank(910.0) == "periodic"
    assert rank.wishes.since == 900.0
    rank.take("periodic", 912.0)
    assert rank(1811.0) == ""
    assert rank(1812.0) == "periodic"


def test_without_an_interval_there_is_none(tmp_path: Path) -> None:
    assert Rank(tmp_path, periodic_seconds=0)(1e6) == ""
    assert WorkerConfig().periodic_seconds == 0


@pytest.mark.parametrize("reason", ["manual", "reference", "degraded", "periodic"])
def test_any_window_begins_the_interval_anew(rank: Rank, reason: str) -> None:
    rank.take(reason, 500.0)
    assert rank(1399.0) == ""
    assert rank(1400.0) == "periodic"


def test_a_look_at_a_job_that_stands_still_does_too(rank: Rank) -> None:
    rank.wishes.looked(500.0)
    assert rank(1399.0) == ""
    assert rank(1400.0) == "periodic"


def test_the_rest_after_degraded_windows_that_found_the_same_is_kept(rank: Rank) -> None:
    """The second one begins a rest of twice 600 s."""
    rank.take("degraded", 0.0)
    assert rank(600.0, degraded=True, steady=False) == "degraded"
    rank.take("degraded", 600.0)
    assert rank(600.0 + 1199.0) == ""
    assert rank(600.0 + 1200.0) == "periodic"


@pytest.mark.parametrize(
    "fares", [{"steady": False}, {"degraded": True, "steady": False}, {"busy": True}, {"timed": 49}]
)
def test_none_is_wanted_while_another_runs_or_the_training_is_not_as_usual(rank: Rank, fares: dict[str, Any]) -> None:
    assert rank(2000.0, **fares) != "periodic"
    assert rank(2001.0) == "periodic"


def test_the_reference_comes_first(tmp_path: Path) -> None:
    rank = Rank(tmp_path, reference=True)
    assert rank(1000.0) == "reference"
    rank.take("reference", 1001.0)
    assert rank(1001.0 + 900.0) == "periodic"


def test_after_a_refusal_there_is_a_rest(tmp_path: Path) -> None:
    rank = Rank(tmp_path, periodic_seconds=10.0, cooldown_seconds=0)
    assert rank(10.0) == "periodic"
    rank.wishes.refused(10.0)
    assert rank(10.0 + REFUSED_SECONDS - 1) == ""
    assert rank(10.0 + REFUSED_SECONDS) == "periodic"


def test_the_interval_changes_while_the_training_runs(rank: Rank) -> None:
    rank.wishes.change(WorkerConfig.from_env({}, periodic_seconds=700.0))
    assert rank(700.0) == "periodic"
    rank.wishes.change(WorkerConfig.from_env({}, periodic_seconds=0))
    assert rank(5000.0) == ""
