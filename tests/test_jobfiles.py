from __future__ import annotations

from pathlib import Path

import pytest

from eroica_otel.jobfiles import JOBS_KEPT, ReportFiles, folder_of, safe
from eroica_otel.model import Report
from eroica_otel.publish.report import json
from eroica_otel.query.store import JobKey
from factories_central import WINDOW, report


def files(folder: Path) -> ReportFiles:
    return ReportFiles(str(folder), {"json": json.render, "html": lambda given: f"page {given.window_id}"}, {})


def deliver(made: ReportFiles, key: JobKey, window_id: int = WINDOW) -> None:
    for path, render, held in made.paths(key, report(training_job=key[1], window_id=window_id)):
        made.write(path, render, held)


def held(folder: Path) -> dict[str, tuple[str, int]]:
    """Return job and window of every report.json below the folder, by its place."""
    found = {str(path.parent.relative_to(folder)): read(path) for path in folder.rglob("report.json")}
    return {place: (one.training_job, one.window_id) for place, one in found.items()}


def read(path: Path) -> Report:
    assert path.with_suffix(".html").read_text() == f"page {json.parse(path.read_text()).window_id}"
    return json.parse(path.read_text())


def test_one_job_needs_no_folder_of_its_own(tmp_path: Path) -> None:
    made = files(tmp_path)
    deliver(made, ("", "a"), 1)
    deliver(made, ("", "a"), 2)
    assert held(tmp_path) == {".": ("a", 2)}


def test_with_a_second_job_each_has_its_newest_verdict(tmp_path: Path) -> None:
    made = files(tmp_path)
    for job, window_id in (("a", 1), ("a", 2), ("b", 3)):
        deliver(made, ("", job), window_id)
    assert held(tmp_path) == {".": ("b", 3), "a": ("a", 2), "b": ("b", 3)}
    deliver(made, ("", "a"), 4)
    assert held(tmp_path) == {".": ("a", 4), "a": ("a", 4), "b": ("b", 3)}


def test_one_name_in_two_teams_is_two_jobs(tmp_path: Path) -> None:
    made = files(tmp_path)
    for window_id, team in enumerate(("", "vision", "speech")):
        deliver(made, (team, "a"), window_id)
    assert held(tmp_path) == {".": ("a", 2), "a": ("a", 0), "vision/a": ("a", 1), "speech/a": ("a", 2)}


def test_what_an_earlier_run_left_is_not_lost(tmp_path: Path) -> None:
    deliver(files(tmp_path), ("vision", "a"), 1)
    later = files(tmp_path)
    later.resume([("speech", "b"), ("vision", "a")])
    deliver(later, ("speech", "b"), 2)
    assert held(tmp_path) == {".": ("b", 2), "vision/a": ("a", 1), "speech/b": ("b", 2)}


def test_a_file_that_is_no_verdict_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{")
    made = files(tmp_path)
    made.resume([])
    deliver(made, ("", "b"))
    assert held(tmp_path) == {".": ("b", WINDOW)}


def test_the_number_of_folders_is_bounded(tmp_path: Path) -> None:
    made = files(tmp_path)
    for number in range(JOBS_KEPT + 5):
        deliver(made, ("", f"job-{number}"))
    assert len(held(tmp_path)) == JOBS_KEPT + 1
    assert held(tmp_path)["."] == (f"job-{JOBS_KEPT + 4}", WINDOW)


def test_a_folder_that_was_removed_is_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        deliver(files(tmp_path / "gone"), ("", "a"))


HOSTILE = ["../../x", "/etc/x", "a/b", "con", "NUL.txt", "report.json", "a\nb", "j" * 10_000, ".", "..", "", " ", "ünï",
           "a.", "-rf", "x\x00y", "\ud800"]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leaves_the_folder(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "deep" / "reports"
    inside.mkdir(parents=True)
    made = files(inside)
    deliver(made, ("", "a"), 1)
    deliver(made, ("team/..", name), 2)
    assert sorted(held(inside)) == sorted([".", "a", "/".join(folder_of(("team/..", name)))])
    assert {path.relative_to(tmp_path).parts[:2] for path in tmp_path.rglob("*") if path.is_file()} == {
        ("deep", "reports")
    }


def test_names_stay_as_they_are_where_they_can_and_apart_where_not() -> None:
    assert [safe(name) for name in ("llm-7b", "run_2.1", "_x")] == ["llm-7b", "run_2.1", "_x"]
    assert len({safe(name).lower() for name in HOSTILE}) == len(HOSTILE)
    assert all(len(safe(name)) <= 80 for name in HOSTILE)
    assert safe("a/b").startswith("a-b-")
