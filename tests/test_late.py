"""A capture is held back for samples that come late, and never for longer than was allowed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eroica_otel.late import Late
from factories_rings import GPU, MS, every, leave, resource
from factories_worker import FakeClock

END = 5_000 * MS


def meta(folder: Path, end: object = END) -> Path:
    path = folder / "meta.json"
    path.write_text(json.dumps({"end_ns": end}))
    return path


def test_without_the_option_or_a_folder_nothing_is_held_back(tmp_path: Path) -> None:
    assert Late(str(tmp_path), 0.0).settled(tmp_path / "none")
    assert Late("", 60.0).settled(tmp_path / "none")


def test_a_capture_waits_for_a_sample_of_its_end(tmp_path: Path) -> None:
    clock = FakeClock()
    late = Late(str(tmp_path), 60.0, clock)
    path = meta(tmp_path)
    assert not late.settled(path)
    leave(tmp_path, "nsys", [resource("sm", GPU)], every(100, 1_000 * MS, END - 100 * MS, 50.0))
    clock.now += 1
    assert not late.settled(path), "the rows of another window, or not yet all of this one's"
    leave(tmp_path, "nsys", [resource("sm", GPU)], every(100, 1_000 * MS, END, 50.0))
    assert not late.settled(path), "one look a second"
    clock.now += 1
    assert late.settled(path)


def test_no_capture_waits_longer_than_was_allowed_and_the_next_one_has_its_own_time(tmp_path: Path) -> None:
    clock = FakeClock()
    late = Late(str(tmp_path / "none"), 60.0, clock)
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        meta(folder)
    assert not late.settled(first / "meta.json")
    clock.now += 60
    assert late.settled(first / "meta.json")
    assert not late.settled(second / "meta.json")
    clock.now += 59
    assert not late.settled(second / "meta.json")
    clock.now += 1
    assert late.settled(second / "meta.json")


def test_two_captures_wait_beside_each_other(tmp_path: Path) -> None:
    clock = FakeClock()
    late = Late(str(tmp_path), 60.0, clock)
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    paths = [meta(folders[0]), meta(folders[1], END + 10_000 * MS)]
    assert [late.settled(path) for path in paths] == [False, False]
    leave(tmp_path, "nsys", [resource("sm", GPU)], every(100, 1_000 * MS, END, 50.0))
    clock.now += 1
    assert [late.settled(path) for path in paths] == [True, False]
    clock.now += 59
    assert late.settled(paths[1])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"end_ns": "soon"}', '{"end_ns": null}'])
def test_a_damaged_capture_is_held_back_like_any_other_and_raises_nothing(text: str, tmp_path: Path) -> None:
    path, clock = tmp_path / "meta.json", FakeClock()
    path.write_text(text)
    late = Late(str(tmp_path), 60.0, clock)
    assert not late.settled(path)
    clock.now += 60
    assert late.settled(path)
