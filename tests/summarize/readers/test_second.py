"""Two processes read what one reads, in the same order, and a failure of the second one costs time alone."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from eroica_otel.errors import TraceError
from eroica_otel.summarize.readers import kineto, second
from eroica_otel.summarize.readers.columns import Part
from eroica_otel.summarize.readers.decode import Decoder
from eroica_otel.summarize.readers.kineto import read_whole
from eroica_otel.summarize.readers.watch import Watch
from eroica_otel.traces import Trace
from factories_summarize import Row, kineto_event, kineto_text

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def _write(path: Path, count: int = 600, spoil: str = "") -> str:
    """Write events that all start together, so that only the order in the file tells them apart."""
    bodies = []
    for i in range(count):
        row = Row(NCCL, 1000, 2000 + i, "kernel", i % 5) if i % 7 == 0 else Row(f"aten::op{i % 11}", 1000, 2000 + i)
        bodies.append(kineto_event(row, arguments={"External id": i, "Process Group Name": str(i)}))
    path.write_text(kineto_text(bodies).replace('"aten::op5"', f'"aten::op5{spoil}"', 1))
    return str(path)


def _rows(trace: Trace) -> list[tuple[str, str, int, int, int]]:
    events = trace.events
    columns = (events.start_ns.tolist(), events.end_ns.tolist(), events.thread.tolist())
    return [
        (events.names[name], events.categories[category], *times)
        for name, category, *times in zip(events.name, events.category, *columns, strict=True)
    ]


@pytest.mark.parametrize("spoil", ["", '}, {\\"ph\\": 1', "}, {"])
def test_two_read_what_one_reads(tmp_path: Path, spoil: str) -> None:
    path = _write(tmp_path / "t.json", spoil=spoil)
    alone, together = (read_whole(path, 1 << 30, 4096, processes) for processes in (1, 2))
    assert _rows(together) == _rows(alone)
    assert alone.events.total == 600
    assert dict(together.events.collectives) == dict(alone.events.collectives)
    assert alone.events.collectives[0] == ("0", None)


def test_damage_is_told_with_its_place_whoever_finds_it(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.json", spoil='" 5')
    messages = []
    for processes in (1, 2):
        with pytest.raises(TraceError) as raised:
            read_whole(path, 1 << 30, 4096, processes)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_a_second_process_that_dies_costs_time_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path / "t.json")
    monkeypatch.setattr(second, "_COMMAND", ("/bin/false",))
    assert _rows(read_whole(path, 1 << 30, 4096, 2)) == _rows(read_whole(path, 1 << 30, 4096, 1))
    monkeypatch.setattr(second, "_COMMAND", ("/nonexistent",))
    assert read_whole(path, 1 << 30, 4096, 2).events.total == 600


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("processes", [1, 2])
def test_who_watches_is_told_how_far_it_is_and_may_end_it(tmp_path: Path, packed: bool, processes: int) -> None:
    path = Path(_write(tmp_path / "t.json"))
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    read: list[int] = []
    held: list[tuple[int, int]] = []
    whole = read_whole(str(path), 1 << 30, 4096, processes, Watch(read.append, lambda *news: held.append(news)))
    assert read[-1] == path.stat().st_size
    events, position = held[-1]
    assert whole.events.total > 0.8 * events > 0
    assert position > 4000

    def end(events: int, position: int) -> None:
        raise TraceError("enough")

    with pytest.raises(TraceError, match="enough"):
        read_whole(str(path), 1 << 30, 4096, processes, Watch(held=end))


def test_one_that_died_before_its_last_piece_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second, "_COMMAND", ("/bin/false",))
    raised: list[bool] = []

    def ask() -> None:
        with second.Second() as other:
            other._process.wait()
            assert other.take(0, b"{}")  # stays in the pipe's buffer until it is closed
            with pytest.raises(second.SecondFailedError):
                other.part()
            raised.append(True)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(60)
    assert raised == [True]


def test_it_takes_pieces_and_answers_with_columns() -> None:
    text = ",".join(kineto_event(Row("aten::mm", i, i + 1)) for i in range(3)).encode()
    source, sink = io.BytesIO(struct.pack("<QQ", 4, len(text)) + text), io.BytesIO()
    second.serve(source, sink)
    part = pickle.loads(sink.getvalue())
    assert isinstance(part, Part)
    assert [batch.place for batch in part.batches] == [4]
    np.testing.assert_array_equal(part.batches[0].slot.arrays[0], [0, 1, 2])


def test_what_it_cannot_read_it_says() -> None:
    source, sink = io.BytesIO(struct.pack("<QQ", 0, 3) + b"{]}"), io.BytesIO()
    second.serve(source, sink)
    assert "malformed" in pickle.loads(sink.getvalue())


@pytest.mark.parametrize(
    ("size", "packed", "processes"), [(100, False, 1), (5000, False, 2), (5000, True, 2), (90, True, 1)]
)
def test_only_a_large_file_is_read_by_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, packed: bool, processes: int
) -> None:
    monkeypatch.setattr(kineto, "LARGE_BYTES", 4000)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    (tmp_path / "t").write_bytes((b"\x1f\x8b" if packed else b"{ ") + b" " * size)
    assert kineto._processes(str(tmp_path / "t")) == processes
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert kineto._processes(str(tmp_path / "t")) == 1
    assert kineto._processes(str(tmp_path / "gone")) == 1


def test_a_decoder_keeps_apart_what_several_pieces_say() -> None:
    decoder = Decoder()
    for place, name in ((0, "a"), (1, "b"), (2, "a")):
        decoder.add(place, kineto_event(Row(name, place, place + 1)).encode())
    part = decoder.part()
    assert part.labels == [("cpu_op", "a"), ("cpu_op", "b")]
    assert [batch.slot.arrays[2].tolist() for batch in part.batches] == [[0], [1], [0]]


@pytest.mark.parametrize("size", [1, 300, 5000, 1 << 30])
@pytest.mark.parametrize("spoil", ["", "}, {", '}, {\\"ph\\": 1'])
def test_how_much_is_decoded_at_a_time_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, spoil: str
) -> None:
    path = _write(tmp_path / "t.json", 60, spoil)
    whole = _rows(read_whole(path, 1 << 30, 1 << 20, 1))
    monkeypatch.setattr("eroica_otel.summarize.readers.decode.SMALL_BYTES", size)
    assert _rows(read_whole(path, 1 << 30, 1 << 20, 1)) == whole
    assert len(whole) == 60


def test_objects_in_arguments_that_look_like_events_are_no_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = {"shapes": [{"name": "a"}, {"name": "b"}, {"ph": "X"}]}
    bodies = [kineto_event(Row("aten::mm", i, i + 1), arguments=inside) for i in range(40)]
    bodies[5] = bodies[5].replace('"dur": 0.001', '"dur": -1')
    (tmp_path / "t.json").write_text(kineto_text(bodies))
    for size in (1, 100, 1 << 20):
        monkeypatch.setattr("eroica_otel.summarize.readers.decode.SMALL_BYTES", size)
        for processes in (1, 2):
            trace = read_whole(str(tmp_path / "t.json"), 1 << 30, 512, processes)
            assert (trace.events.total, dict(trace.skipped)) == (39, {"negative duration": 1})
