"""How repeated runs of the demo are counted: what its files say, the table, and the bar from onset to firing."""

from __future__ import annotations

import importlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def repeat() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield importlib.import_module("bench.repeat_demo")


def run(repeat: ModuleType, fault: str = "python", right: bool = True, seconds: float = 90.0, **more: Any) -> Any:
    return repeat.Run(fault, right, 0.0, seconds, "", **more)


def test_the_table_has_medians_impacts_and_the_commit_in_each_row(repeat: ModuleType) -> None:
    runs = [
        run(repeat, seconds=80.0, impacts=(0.38,), firing_seconds=41.0),
        run(repeat, seconds=100.0, impacts=(0.41,), firing_seconds=44.5),
        run(repeat, seconds=90.0, right=False, impacts=(0.37, 0.1), firing_seconds=60.0),
        run(repeat, "none", seconds=50.0),
    ]
    _, _, *rows = repeat.table(runs, "commit abc, windows of 5 s").splitlines()
    assert rows == [
        "| python | commit abc, windows of 5 s | 2 of 3 | 90 | 10% to 41% | 44.5 (41.0 to 60.0) |",
        "| none | commit abc, windows of 5 s | 1 of 1 | 50 | no finding |  |",
    ]


@pytest.mark.parametrize(
    ("seconds", "window_seconds", "late"),
    [
        ([60.0], 20.0, False),
        ([60.1], 20.0, True),
        ([60.1], 5.0, True),  # a shorter window leaves more time, not less
        ([50.0, 59.0, 99.0], 20.0, False),
        ([None, 61.0], 20.0, True),
        ([None], 20.0, False),
        ([70.0], 30.0, False),
    ],
)
def test_the_median_to_firing_must_not_be_above_a_minute(
    repeat: ModuleType, seconds: list[float | None], window_seconds: float, late: bool
) -> None:
    assert repeat.is_late([run(repeat, firing_seconds=each) for each in seconds], window_seconds) is late


def test_void_runs_are_made_again_and_end_the_rest_when_they_are_many(
    repeat: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outside = iter([0.0, 0.11, 0.10, 0.2, 0.3])
    made = []

    def play(fault: str, *_: object) -> Any:
        made.append(fault)
        return repeat.Run(fault, True, next(outside), 1.0, "")

    monkeypatch.setattr(repeat, "play", play)
    runs, void = repeat._repeat(["python", "input"], 2, tmp_path, "otlp", "5")
    assert made == ["python", "python", "python", "input", "input"]
    assert ([one.fault for one in runs], void) == (["python", "python"], 3)


def test_of_a_demo_its_files_are_told(repeat: ModuleType, tmp_path: Path) -> None:
    assert repeat._read(tmp_path / "none.json") == {}
    assert repeat._verdict({}, {}, {}) == "no verdict"
    finding = {"cause": "slow_input", "ranks": [1], "impact_ratio": 0.381, "function": "f", "severity": "critical"}
    report = {"findings": [finding, finding | {"severity": "info", "ranks": [0]}], "reason": "degraded"}
    (tmp_path / "alert.json").write_text(json.dumps({"firing_seconds": 41.5, "notifications": 1}))
    said = repeat._verdict(report, {"rank": 1}, {})
    assert said == "injected on 1: slow_input on [1] (38%, f) (degraded)"
    alarm = repeat._read(tmp_path / "alert.json")
    assert repeat._verdict(report, {"rank": 1}, alarm) == f"{said}, firing after 41.5 s, 1 notification(s)"


def test_the_commit_says_when_the_checkout_differs_from_it(repeat: ModuleType, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
        done = subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    assert repeat.commit(tmp_path / "none") == "unknown"
    git("init", "-q")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    (tmp_path / "other").write_text("not tracked")
    head = git("rev-parse", "--short", "HEAD")
    assert repeat.commit(tmp_path) == head
    (tmp_path / "file").write_text("two")
    assert repeat.commit(tmp_path) == f"{head}-dirty"
