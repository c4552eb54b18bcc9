"""Events of 26 bytes, which take several times as much memory."""

from __future__ import annotations

import gzip
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from eroica_otel.commands.main import main
from eroica_otel.errors import TraceError
from eroica_otel.offline import guard
from eroica_otel.offline.guard import EVENT_BYTES, watch_of
from eroica_otel.offline.member import Member, Request, read_member
from eroica_otel.offline.problem import Problem
from eroica_otel.offline.tally import Tally
from eroica_otel.profile import samples
from factories_summarize import Row, capture, write_kineto
from trace_files import kineto, write

MIB = 1 << 20
SMALL = b'{"ph":"X","ts":1,"dur":1},'
COUNT = 900_000


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Return a trace that is small while it is packed."""
    head, events = _split()
    path = tmp_path / "rank0.json.gz"
    path.write_bytes(gzip.compress(head + SMALL * COUNT + events, 1))
    return path


def _split() -> tuple[bytes, bytes]:
    text = json.dumps(kineto()).encode()
    place = text.index(b'"traceEvents": [') + len(b'"traceEvents": [')
    return text[:place], text[place:]


def free(monkeypatch: pytest.MonkeyPatch, count: int | None) -> None:
    monkeypatch.setattr(guard, "free_memory_bytes", lambda pid: count)


def test_events_that_would_take_more_memory_than_is_free_are_refused_on_the_way(
    many: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    free(monkeypatch, 20 * MIB)
    assert main(["analyze", str(many)]) == 3
    said = capsys.readouterr().err
    found = re.search(r"rank0\.json\.gz: memory would run out: the (\d+) events in its first (\d+) bytes take", said)
    assert found is not None
    events, position = map(int, found.groups())
    # After the first piece, which is of two times 8 MiB; the file has 22.
    assert position <= 16 * MIB
    assert events == pytest.approx(position / len(SMALL), rel=0.01)
    assert "20.0 MiB are free; profile fewer iterations; --limit GB reads" in said


def test_a_limit_that_is_given_counts_alone(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 20 * MIB)
    assert main(["analyze", str(many), "--limit", "1"]) == 0


def test_they_are_read_where_there_is_room(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, COUNT * EVENT_BYTES + MIB)
    assert main(["patterns", str(many)]) == 0


def test_files_that_are_read_at_a_time_share_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 300 * EVENT_BYTES)
    watch_of("t.json", beside=3).held(100, 2600)
    with pytest.raises(TraceError, match=r"more, 3 files at a time, .* \(--jobs 1\), or profile fewer iterations"):
        watch_of("t.json", beside=3).held(101, 2626)
    watch_of("t.json", beside=3, guarded=False).held(101, 2626)


def test_a_capture_folder_is_watched_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Row("aten::mm", 10 * place, 10 * place + 5) for place in range(10)]
    trace = write_kineto(tmp_path / samples.TRACE, rows)
    samples.write(tmp_path, capture(trace=trace))
    request = Request(str(tmp_path))
    size = os.path.getsize(trace)
    with Tally([size]) as tally:
        assert isinstance(read_member(replace(request, tally=tally.path)), Member)
        assert tally.share(()) == 1
    free(monkeypatch, 9 * EVENT_BYTES)
    outcome = read_member(request)
    assert isinstance(outcome, Problem)
    assert f"memory would run out: the 10 events in its first {size} bytes take" in outcome.text
    assert isinstance(read_member(replace(request, guarded=False)), Member)


def test_reading_ends_where_whoever_looked_on_has_gone(tmp_path: Path) -> None:
    path = str(write(tmp_path / "rank0.json"))
    (tmp_path / "tally").write_bytes(b"")
    watch_of(path, tally=str(tmp_path / "tally")).read(100)
    outcome = read_member(Request(path, tally=str(tmp_path / "gone")))
    assert isinstance(outcome, Problem)
    assert re.fullmatch(rf"{re.escape(path)}: given up after \d+ bytes; start it again", outcome.text)


def test_where_nobody_knows_what_is_free_all_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, None)
    watch_of("t.json").held(1 << 40, 1 << 45)
