"""How the fault board goes through its cases: what is measured once, not played, or kept, and when it stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eroica_otel.errors import EroicaError
from faultboard import board, case

RUN, PLAY, EFFECT, VERDICT, CHOOSE = (board(name) for name in ("run", "play", "effect", "verdict", "choose"))


class Stage:
    """Stands in for the real trainings.

    Attributes:
        calls: What was run.
        faulty_seconds: What an iteration takes with the fault; 1 second without, 0.1 of noise.
        outside: The part of the machine that others use, run after run, and 0 from then on.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.faulty_seconds = 2.0
        self.outside: list[float] = []
        self.problem = ""

    def measure(self, row: Any, drawn: Any, folder: Path) -> Any:
        self.calls.append(f"effect {row.name}")
        if self.problem:
            raise EroicaError(self.problem)
        return EFFECT.Effect(1.0, self.faulty_seconds, 0.1, False), 0.0

    def play(self, row: Any, drawn: Any, folder: Path) -> Any:
        self.calls.append(f"play {row.name}")
        folder.mkdir(parents=True)
        seconds = {"detection": 5.0, "verdict": 9.0, "firing": 12.0}
        times = {"before": 1.02, "faulty": 2.0, "window": 2.1, "after": 2.0}
        outside = self.outside.pop(0) if self.outside else 0.0
        return PLAY.Seen(VERDICT.Verdict(True, True, (), "rank 1: slow_input"), seconds, times, 0.3, outside)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    found = Stage()
    monkeypatch.setattr(RUN.effect, "measure", found.measure)
    monkeypatch.setattr(RUN, "play", found.play)
    return found


def sitting(folder: Path, number: int = 1) -> Any:
    return RUN.Sitting(folder / "results", folder / "out", number)


def test_a_run_is_kept_with_what_was_expected_drawn_and_seen(stage: Stage, tmp_path: Path) -> None:
    row = case()
    line = sitting(tmp_path).run(CHOOSE.Turn(row, 7))
    assert stage.calls == ["effect input", "play input"]
    assert (line["case"], line["seed"], line["right"], line["measurable"]) == ("input", 7, True, True)
    assert line["drawn"]["ranks"] == list(row.draw(7).ranks)
    assert line["expected"] == {"verdict": "worker", "causes": ["slow_input"], "function": ""}
    assert line["seconds"]["firing"] == 12.0
    assert line["overhead_ratio"] == pytest.approx(0.02)  # 1.02 s before the fault, 1 s in the twin
    assert not list((tmp_path / "out").glob("*"))  # it was right: its logs go


def test_an_effect_is_measured_once_for_each_seed(stage: Stage, tmp_path: Path) -> None:
    sitting(tmp_path).run(CHOOSE.Turn(case(), 7))
    stage.calls.clear()
    sitting(tmp_path, 2).run(CHOOSE.Turn(case(), 7))  # another process, another round
    assert stage.calls == ["play input"]
    sitting(tmp_path, 2).run(CHOOSE.Turn(case(), 8))
    assert stage.calls == ["play input", "effect input", "play input"]


def test_a_case_without_effect_is_not_played_and_a_clean_one_not_measured(stage: Stage, tmp_path: Path) -> None:
    stage.faulty_seconds = 1.2
    line = sitting(tmp_path).run(CHOOSE.Turn(case(), 1))
    assert (line["measurable"], line["right"], "named" in line) == (False, False, False)
    assert RUN.words(line) == "not measurable here: +20%, 2.0 sd"
    clean = sitting(tmp_path).run(CHOOSE.Turn(case("clean", fault=None, verdict="silence", causes=frozenset()), 1))
    assert (clean["measurable"], clean["effect"]) == (True, None)
    assert stage.calls == ["effect input", "play clean"]


def test_an_effect_that_cannot_be_measured_is_said(stage: Stage, tmp_path: Path) -> None:
    stage.problem = "the ranks do not meet"
    line = sitting(tmp_path).run(CHOOSE.Turn(case(), 1))
    assert RUN.words(line) == "FAILED  its effect could not be measured: EroicaError: the ranks do not meet"
    assert stage.calls == ["effect input"]


def test_a_sitting_goes_on_where_the_one_before_ended(stage: Stage, tmp_path: Path) -> None:
    turns = [CHOOSE.Turn(case(name, klass=name), 1) for name in ("a", "b", "c")]
    assert len(RUN.sit(sitting(tmp_path), turns[:2], 1, float("inf"), 2)) == 2
    stage.calls.clear()
    (line,) = RUN.sit(sitting(tmp_path), turns, 1, float("inf"), 2)
    assert line["case"] == "c"
    assert stage.calls == ["effect c", "play c"]


def test_a_void_run_is_made_again_but_not_for_ever(stage: Stage, tmp_path: Path) -> None:
    stage.outside = [0.11, 0.11, 0.11, 0.11]
    lines = RUN.sit(sitting(tmp_path), [CHOOSE.Turn(case(), 1)], 1, float("inf"), 2)
    assert [line["void"] for line in lines] == [True] * 3
    stage.outside = [0.5, 0.10]
    lines = RUN.sit(sitting(tmp_path, 2), [CHOOSE.Turn(case(), 1)], 2, float("inf"), 2)
    assert [line["void"] for line in lines] == [True, False]  # a tenth is allowed


def test_nothing_is_begun_that_would_take_longer_than_there_is_time(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    minutes = (CHOOSE.RUN_SECONDS - 1) / 60
    assert RUN.sit(sitting(tmp_path), [CHOOSE.Turn(case(), 1)], 1, minutes, 2) == []
    assert "no time for another run; 1 are left" in capsys.readouterr().out
    assert stage.calls == []


def test_a_case_whose_framework_is_not_installed_is_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capabilities = board("capabilities")
    monkeypatch.setattr(capabilities, "FRAMEWORKS", {"hf": "not_there"})
    monkeypatch.setattr(capabilities, "_nodes", lambda: "")
    monkeypatch.setattr(capabilities, "_cgroups", lambda: "cgroups")
    rows = [case("a", workload="hf"), case("b"), case("c", needs=frozenset({"cgroups"}))]
    assert RUN.able(rows) == [rows[1]]
    said = capsys.readouterr().out
    assert "a is left out: this machine lacks not_there" in said
    assert "c is left out: this machine lacks cgroups" in said


def test_iteration_times_are_those_before_the_onset_until_the_window_in_it_and_after_it() -> None:
    starts = np.concatenate(
        [np.arange(0, 20, 1.0), np.arange(20, 40, 2.0), np.arange(40, 50, 2.5), np.arange(50, 80, 2.0)]
    )
    found = PLAY.iteration_seconds(starts, onset=20.0, window=40.0, window_seconds=10.0)
    assert found == {"before": 1.0, "faulty": 2.0, "window": 2.5, "after": 2.0}
    assert PLAY.iteration_seconds(starts, 20.0, None, 10.0)["window"] is None
