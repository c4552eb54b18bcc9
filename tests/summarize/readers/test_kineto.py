"""The reader against the json module, on a real trace of a gloo job and on everything that can be wrong with a file."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from eroica_otel.errors import TraceError
from eroica_otel.summarize.readers.kineto import read
from factories_summarize import Row, kineto_event, kineto_text, write_kineto

REAL = Path(__file__).parents[2] / "golden" / "kineto_gloo.json"
"""torch 2.13, CPU, two processes: the end of a backward, cut out of a longer trace."""
EPOCH = 1_790_857_026_000_000_000


def _rows(path: Path) -> list[tuple[int, int, str, str]]:
    trace = json.loads(path.read_text(), parse_float=Decimal)
    return sorted(
        (
            int(Decimal(event["ts"]) * 1000) + trace["baseTimeNanoseconds"],
            int(Decimal(event["dur"]) * 1000),
            event["name"],
            event["cat"],
        )
        for event in trace["traceEvents"]
        if event["ph"] == "X" and event["cat"] != "Trace"
    )


def _read_rows(path: Path, chunk_bytes: int = 1 << 20) -> list[tuple[int, int, str, str]]:
    events = read(str(path), (0, 0), chunk_bytes)
    columns = zip(events.start_ns.tolist(), events.end_ns.tolist(), events.name, events.category, strict=True)
    return sorted((start, end - start, events.names[n], events.categories[c]) for start, end, n, c in columns)


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 4096, 700, 64])
def test_a_real_trace_gives_what_json_gives_whatever_the_chunks(chunk_bytes: int) -> None:
    assert _read_rows(REAL, chunk_bytes) == _rows(REAL)


def test_the_collective_of_a_job_with_one_group_belongs_to_it() -> None:
    events = read(str(REAL), (0, 0))
    assert list(events.collectives.values()) == [("0", None)]
    assert {events.names[events.name[place]] for place in events.collectives} == {"gloo:all_reduce"}


def test_without_a_word_on_groups_the_group_is_unknown(tmp_path: Path) -> None:
    path = write_kineto(tmp_path / "t.json", [Row("gloo:all_reduce", 0, 5, "user_annotation")])
    assert list(read(path, (0, 0)).collectives.values()) == [("", None)]


def test_group_and_bytes_of_a_kernel_come_from_its_arguments(tmp_path: Path) -> None:
    kernel = Row("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 100, 900, "kernel", 20)
    arguments = {"Process Group Name": "3", "In msg nelems": 1000, "dtype": "BFloat16", "stream": 20}
    bodies = [kineto_event(Row("aten::mm", 500, 600)), kineto_event(kernel, arguments=arguments)]
    (tmp_path / "t.json").write_text(kineto_text(bodies))
    events = read(str(tmp_path / "t.json"), (0, 0))
    # the kernel comes later in the file and first in time
    assert dict(events.collectives) == {0: ("3", 2000)}


def test_realtime_becomes_monotonic_and_the_base_counts(tmp_path: Path) -> None:
    rows = [Row("aten::mm", EPOCH + 1_000_000_001, EPOCH + 1_000_000_007)]
    for base in (0, EPOCH):  # epoch microseconds with decimals, and microseconds since the base
        events = read(write_kineto(tmp_path / "t.json", rows, base), (EPOCH, EPOCH))
        assert (events.start_ns.tolist(), events.end_ns.tolist()) == ([1_000_000_001], [1_000_000_007])


@pytest.mark.parametrize("wholes", [3, 0])
def test_epoch_microseconds_are_exact_with_decimals_and_without(tmp_path: Path, wholes: int) -> None:
    starts = [EPOCH + 1000 * place for place in range(wholes)] + [EPOCH + 50_001]
    bodies = [kineto_event(Row("aten::mm", start, start + 2007)) for start in starts]
    bodies = [body.replace('.000, "dur"', ', "dur"') for body in bodies]  # as torch of 2021 wrote them
    assert [".001" in body for body in bodies] == [False] * wholes + [True]
    (tmp_path / "t.json").write_text(kineto_text(bodies))
    events = read(str(tmp_path / "t.json"), (0, 0))
    assert (events.start_ns.tolist(), events.end_ns.tolist()) == (starts, [start + 2007 for start in starts])


def test_a_clock_that_is_slewed_during_the_window_is_followed(tmp_path: Path) -> None:
    second = 1_000_000_000
    rows = [Row("aten::mm", EPOCH + place * second, EPOCH + place * second + 10) for place in range(11)]
    events = read(write_kineto(tmp_path / "t.json", rows), (EPOCH, EPOCH + 1000))
    # 1,000 ns too many by the end of the trace: 100 in each of its 10 seconds
    assert events.start_ns.tolist() == [place * second - 100 * place for place in range(11)]


def test_events_come_out_sorted_and_zero_durations_stay(tmp_path: Path) -> None:
    rows = [Row("b", 30, 40), Row("a", 10, 10), Row("c", 20, 90, thread=2)]
    events = read(write_kineto(tmp_path / "t.json", rows), (0, 0))
    assert [events.names[n] for n in events.name] == ["a", "c", "b"]
    assert events.thread.tolist() == [1, 2, 1]
    assert events.total == 3


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 150])
def test_brackets_and_quotes_in_names_and_lists_in_arguments_are_no_borders(tmp_path: Path, chunk_bytes: int) -> None:
    nasty = 'f"},\n  {"ph": "X"} \\ ]'
    arguments = {"list": [{"a": 1}, {"b": 2}, {"c": "}, {"}], "Call stack": "x ; y"}
    bodies = [kineto_event(Row(nasty, 10 * i, 10 * i + 5), arguments=arguments) for i in range(30)]
    (tmp_path / "t.json").write_text(kineto_text(bodies))
    events = read(str(tmp_path / "t.json"), (0, 0), chunk_bytes)
    assert events.names == (nasty,)
    assert events.start_ns.tolist() == [10 * i for i in range(30)]


def test_named_streams_keep_apart_from_thread_numbers(tmp_path: Path) -> None:
    bodies = [
        kineto_event(Row("k", i, i + 1, "Kernel")).replace('"tid": 1', f'"tid": "stream {7 + i % 2}"') for i in range(4)
    ]
    (tmp_path / "t.json").write_text(kineto_text(bodies))
    assert read(str(tmp_path / "t.json"), (0, 0)).thread.tolist() == [-2, -3, -2, -3]


def test_a_trace_without_events_is_empty(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(kineto_text([]))
    events = read(str(tmp_path / "t.json"), (5, 5))
    assert (events.total, events.start_ns.size, events.names) == (0, 0, ())


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 512])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_short_says_where(tmp_path: Path, share: float, chunk_bytes: int) -> None:
    text = REAL.read_bytes()
    path = tmp_path / "t.json"
    path.write_bytes(text[: int(len(text) * share)])
    with pytest.raises(TraceError, match=r"t\.json: cut short or not JSON after \d+ events, in the part from byte \d+"):
        read(str(path), (0, 0), chunk_bytes)


@pytest.mark.parametrize("text", ["", "[1, 2]", "not json at all", '{"schemaVersion": 1'])
def test_a_file_that_is_no_trace_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(TraceError, match=r"t\.json: no traceEvents"):
        read(str(tmp_path / "t.json"), (0, 0))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"gone\.json: cannot be read: No such file"):
        read(str(tmp_path / "gone.json"), (0, 0))


@pytest.mark.parametrize(("right", "wrong"), [('"ts": 0.000', '"ts": "soon"'), ('"tid": 1', '"tid": [1]')])
def test_an_event_with_a_wrong_type_is_refused(tmp_path: Path, right: str, wrong: str) -> None:
    (tmp_path / "t.json").write_text(kineto_text([kineto_event(Row("a", 0, 1)).replace(right, wrong)]))
    with pytest.raises(TraceError, match=r"t\.json: .*after 0 events"):
        read(str(tmp_path / "t.json"), (0, 0))
