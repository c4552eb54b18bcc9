from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from eroica_otel.offline import pool
from eroica_otel.offline.member import Member, Request, read_member
from eroica_otel.offline.problem import Problem
from eroica_otel.offline.tally import Tally, note
from eroica_otel.profile import samples
from trace_files import write


def test_who_reads_notes_its_bytes_and_who_is_done_counts_whole() -> None:
    with Tally([100, 300]) as tally:
        assert tally.share(()) == 0
        assert note(tally.path, 1, 150)
        assert tally.share(()) == pytest.approx(150 / 400)
        assert tally.share({0}) == pytest.approx(250 / 400)
        assert tally.share({0, 1}) == 1
    assert not os.path.exists(tally.path)
    assert not note(tally.path, 0, 100)
    assert not os.path.exists(tally.path)


def test_files_without_bytes_and_a_folder_that_takes_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with Tally([0]) as empty, Tally([5, 5]) as tally:
        assert empty.share({0}) == 0
        assert tally.path == ""
        assert tally.share({1}) == 0.5


def test_the_reader_of_a_trace_notes_how_far_it_is(tmp_path: Path) -> None:
    path = str(write(tmp_path / "rank0.json"))
    with Tally([os.path.getsize(path), os.path.getsize(path)]) as tally:
        assert isinstance(read_member(Request(path, tally=tally.path, place=1)), Member)
        assert tally.share(()) == 0.5


@pytest.mark.parametrize("folder", [False, True])
def test_a_file_or_capture_folder_is_told_of_while_it_is_read(
    folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, seen = str(write(tmp_path / samples.TRACE)), threading.Event()
    path = str(tmp_path) if folder else file
    told: list[tuple[int, int, str, float]] = []

    def read(request: Request) -> Problem:
        note(request.tally, request.place, os.path.getsize(file) // 2)
        assert seen.wait(60)
        return Problem(path, "read")

    def tell(*news: object) -> None:
        told.append(news)  # type: ignore[arg-type]
        if told[-1][3]:
            seen.set()

    monkeypatch.setattr(pool, "read_member", read)
    monkeypatch.setattr(pool, "LOOK_SECONDS", 0.01)
    pool.read_all([Request(path)], told=tell)
    halves = [news for news in told if 0 < news[3] < 1]
    assert halves[0][:3] == (0, 1, path)
    assert halves[0][3] == pytest.approx(0.5, abs=0.01)
    assert told[-1] == (1, 1, path, 1.0)
