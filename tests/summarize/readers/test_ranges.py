"""Parts of a file for two processes, and what happens where they cannot be found, read or handed over."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path

import msgspec
import pytest

from eroica_otel.errors import TraceError
from eroica_otel.summarize.readers import kineto, second
from eroica_otel.summarize.readers.columns import Part
from eroica_otel.summarize.readers.decode import Decoder
from eroica_otel.summarize.readers.kineto import read_whole
from eroica_otel.summarize.readers.ranges import ranges, read_range
from factories_summarize import Row, kineto_event, kineto_text

HEAD = len(kineto_text([]).partition("[")[0]) + 1


def trace(path: Path, count: int = 200) -> str:
    path.write_text(kineto_text([kineto_event(Row(f"aten::op{i % 3}", i, i + 2)) for i in range(count)]))
    return str(path)


@pytest.mark.parametrize("size", [200, 1000, 5000, 1 << 20])
def test_parts_are_all_of_the_file_but_a_comma_between_two_events_each(tmp_path: Path, size: int) -> None:
    path = trace(tmp_path / "t.json")
    with open(path, "rb") as file:
        found = list(ranges(file.fileno(), HEAD, size))
        texts = [read_range(file.fileno(), begin, end) for begin, end in found]
    assert b",".join(texts) == Path(path).read_bytes()[HEAD:]
    assert all(len(text) <= size for text in texts)
    assert sum(len(msgspec.json.decode(b"[" + text + b"]")) for text in texts[:-1]) + texts[-1].count(b'"ph"') == 200
    assert (len(found) > 1) == (size < 10_000)


def test_parts_without_a_border_are_none(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("[" + "x" * 5000)
    with open(tmp_path / "t.json", "rb") as file, pytest.raises(ValueError, match="no border between two events"):
        list(ranges(file.fileno(), 1, 1000))


def test_a_file_that_has_become_shorter_is_said(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("12345")
    with open(tmp_path / "t.json", "rb") as file, pytest.raises(ValueError, match="the file ends after byte 5"):
        read_range(file.fileno(), 2, 9)


def test_each_part_is_read_by_one_of_two(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json")
    with open(path, "rb") as file:
        *parts, _ = ranges(file.fileno(), HEAD, 500)
        decoder = Decoder()
        with second.Sharer(file.fileno(), parts) as other:
            other.read(decoder)
            rest = other.part()
    places = [batch.place for part in (decoder.part(), rest) for batch in part.batches]
    assert sorted(places) == list(range(len(parts)))


def test_it_shares_a_file_and_answers_with_columns(tmp_path: Path) -> None:
    path, sink = trace(tmp_path / "t.json"), io.BytesIO()
    with open(path, "rb") as file:
        *parts, _ = ranges(file.fileno(), HEAD, 2000)
        pipe = second._piped(b"".join(second._PART.pack(place, *part) for place, part in enumerate(parts)))
        second.share(file.fileno(), pipe, sink)
    os.close(pipe)
    answer = pickle.loads(sink.getvalue())
    assert isinstance(answer, Part)
    assert [batch.place for batch in answer.batches] == list(range(len(parts)))


def test_more_parts_than_the_pipe_holds_leave_the_file_to_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="more parts than the pipe holds"):
        second._piped(b"x" * (1 << 22))
    path = trace(tmp_path / "t.json", 3000)
    assert read_whole(path, 1 << 30, 150, 2).events.total == 3000


@pytest.mark.parametrize("command", ["/bin/false", "/nonexistent"])
def test_a_process_that_does_not_live_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    path = trace(tmp_path / "t.json")
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(second, "_COMMAND", (command,))
    assert read_whole(path, 1 << 30, 500, 2).events.total == 200
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_above_the_limit_is_told_whoever_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trace(tmp_path / "t.json")
    monkeypatch.setattr(kineto, "_processes", lambda path: 2)
    with pytest.raises(TraceError, match="has more than 1000 bytes"):
        read_whole(path, 1000, 500)
