"""What the fuzzer found, and what was found while it was written (python -m bench.fuzz): the smallest input of each."""

from __future__ import annotations

import gzip
import json
import sqlite3
import tracemalloc
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eroica_otel import kinds
from eroica_otel.errors import TraceError
from eroica_otel.model import Identity
from eroica_otel.summarize.intervals import Intervals, merge
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers import cut, decode
from eroica_otel.summarize.readers.any import read_trace, workers_in
from eroica_otel.summarize.readers.kineto import read_whole
from eroica_otel.summarize.readers.pythonstacks import DEEPEST, frame_of
from eroica_otel.traces import Trace
from factories_summarize import Row, kineto_event, kineto_text

OPERATOR = kineto_event(Row("aten::mm", 1000, 3000))
WHO = Identity("job", 0, "node")
DEEP = "[" * 100_000 + "]" * 100_000  # Python 3.13 lets C recurse 10,000 deep
YEAR_NS = 31_556_952 * 10**9


def _read(path: Path, bodies: Sequence[str], base: int = 0, header: str = "") -> Trace:
    path.write_text(kineto_text(bodies, base, header))
    return read_trace(path)


@pytest.mark.parametrize("place", ["args", "header", "tid"])
def test_what_nests_too_deep_is_an_error_where_it_is_needed_else_not_told(tmp_path: Path, place: str) -> None:
    bodies, header = [OPERATOR], ""
    if place == "args":
        bodies = [OPERATOR.replace('"dur"', f'"args": {{"x": {DEEP}}}, "dur"'), OPERATOR]
    elif place == "header":
        header = f'"distributedInfo": {{"rank": {DEEP}}},'
    else:
        bodies = [OPERATOR.replace('"tid": 1', f'"tid": {DEEP}')]
    with pytest.raises(TraceError, match=r"t\.json: .*after 0 events.*recursion.*export it again"):
        _read(tmp_path / "t.json", bodies, header=header)


def test_two_lists_of_events_are_an_error_however_the_file_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    events = ",".join([OPERATOR] * 20)
    path.write_text(f'{{"traceEvents": [{events}], "traceEvents": [{OPERATOR}]}}')
    for chunk in (300, 1 << 20):
        for processes in (1, 2):
            with pytest.raises(TraceError, match=r"t\.json: .*traceEvents stands there twice"):
                read_whole(str(path), 1 << 30, chunk, processes)


def test_events_inside_of_something_else_are_no_trace(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(f'{{"other": {{"traceEvents": [{OPERATOR}]}}}}')
    with pytest.raises(TraceError, match="not at the top"):
        read_trace(tmp_path / "t.json")


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(kineto_text([OPERATOR]), "utf-8-sig")
    assert read_trace(tmp_path / "t.json").events.total == 1


@pytest.mark.parametrize("base", [2**62, 2**63 - 1, 2**63, 2**70, -1])
def test_a_base_that_is_no_time_of_day_counts_as_not_told(tmp_path: Path, base: int) -> None:
    assert _read(tmp_path / "t.json", [OPERATOR], base).events.start_ns.tolist() == [1000]


def test_events_a_century_apart_have_shares_that_sum_to_one(tmp_path: Path) -> None:
    far = [kineto_event(Row(f"aten::op{i}", at, at + YEAR_NS // 10)) for i in range(40) for at in (0, 80 * YEAR_NS)]
    window = summarize_trace(_read(tmp_path / "t.json", far), WHO)
    assert sum(window.kinds.values()) == pytest.approx(1.0)
    assert window.kinds["compute"] == pytest.approx(0.2 / 80.1, rel=1e-6)


def test_unions_of_many_functions_over_a_long_time_do_not_overflow() -> None:
    start = np.array([0, 5, 0, 2 * YEAR_NS], np.int64)
    end = np.array([10, 20, 7, 80 * YEAR_NS], np.int64)
    merged = merge(Intervals(start, end, np.array([3, 3, 10**6, 10**6], np.int64)))
    assert [column.tolist() for column in merged] == [[0, 0, 2 * YEAR_NS], [20, 7, 80 * YEAR_NS], [3, 10**6, 10**6]]


def test_times_beyond_what_fits_with_a_base_are_counted(tmp_path: Path) -> None:
    bodies = [OPERATOR, *(OPERATOR.replace('"ts": 1.000', f'"ts": {at}') for at in (3e15, -4e14))]
    trace = _read(tmp_path / "t.json", bodies)
    assert (trace.events.total, dict(trace.skipped)) == (1, {"time out of range": 2})


def test_one_number_of_many_digits_costs_no_memory_for_the_others(tmp_path: Path) -> None:
    fine = OPERATOR.replace('"ts": 1.000', '"ts": 1694128201556123.4')
    long = OPERATOR.replace('"ts": 1.000', f'"ts": 1694128201556124.{"3" * 200_000}')
    (tmp_path / "t.json").write_text(kineto_text([fine] * 1000 + [long]))
    tracemalloc.start()
    trace = read_trace(tmp_path / "t.json")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert trace.events.start_ns[[0, -1]].tolist() == [1694128201556123400, 1694128201556124333]
    assert peak < 50_000_000  # as one table the digits would take 200 MB


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 20])
def test_a_thread_of_many_digits_is_one_with_a_name(tmp_path: Path, digits: str) -> None:
    trace = _read(tmp_path / "t.json", [OPERATOR.replace('"tid": 1', f'"tid": "{digits}"')])
    assert trace.events.thread.tolist()[0] < -1


def test_a_line_of_many_digits_is_no_frame_and_a_long_path_is_read_at_once() -> None:
    assert frame_of(f"a.py({'9' * 5000}): f") is None
    frame = frame_of(f"{'x/' * 100_000}site-packages/b/c.py(7): f")
    assert frame is not None
    assert (frame.module, frame.line) == ("b.c", 7)
    assert frame_of(f"{'/lib/python3' * 20_000}(7): f") is not None


@pytest.mark.parametrize("name", ["9" * 200_000, "_" * 200_000, "one_shot_reduce" * 10_000, "symm_mem" * 20_000])
def test_a_long_name_of_a_kernel_is_classified_at_once(name: str) -> None:
    # By a time that grows with the square, this would take half an hour.
    assert kinds.classify("kernel", name) == kinds.classify("kernel", name[:2000])


def _calls(depth: int) -> list[dict[str, Any]]:
    """Return one call inside of the other, each 2 us shorter."""
    return [
        {
            "ph": "X", "cat": "python_function", "name": f"a.py({i}): f{i}", "tid": 1, "ts": i, "dur": 2 * (depth - i),
            "args": {"Python id": i, "Python parent id": i - 1},
        }
        for i in range(depth)
    ]  # fmt: skip


def test_a_stack_without_end_is_cut_and_costs_no_memory(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": _calls(4 * DEEPEST)}))
    python = read_trace(tmp_path / "t.json").python
    assert python is not None
    assert max(len(stack) for stack in python.stacks) == DEEPEST
    assert python.start_ns.size == 4 * DEEPEST  # what is called beyond counts as its caller


def test_a_file_without_a_border_between_events_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut, "LARGEST_BYTES", 10_000)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 5_000_000))
    with pytest.raises(TraceError, match=r"t\.json\.gz: 1\d{4} bytes from byte 17 on without a border .*again"):
        read_whole(str(path), 1 << 30, 1000)


def test_pieces_are_decoded_as_before_where_the_text_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "SMALL_BYTES", 100)
    bodies = [OPERATOR.replace('"dur": 2.000', '"dur": nan'), OPERATOR]
    trace = _read(tmp_path / "t.json", bodies, header='"deviceProperties": [{"id": nan, "name": "GPU"}],')
    assert (trace.devices, trace.events.total, dict(trace.skipped)) == (("GPU",), 1, {"no time": 1})


def test_a_step_that_takes_no_time_marks_no_iteration(tmp_path: Path) -> None:
    steps = [kineto_event(Row(f"ProfilerStep#{i}", 1000, 1000, "user_annotation")) for i in range(2)]
    trace = _read(tmp_path / "t.json", [*steps, OPERATOR])
    assert trace.steps.number.size == 0
    assert summarize_trace(trace, WHO).kinds["compute"] == 1.0


def _export(path: Path, tables: Mapping[str, Sequence[Sequence[object]]]) -> Path:
    """Write tables, each given as its columns and rows."""
    with closing(sqlite3.connect(path)) as database:
        for name, (columns, *rows) in tables.items():
            database.execute(f"CREATE TABLE {name} ({', '.join(map(str, columns))})")
            database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
        database.commit()
    return path


KERNELS: Sequence[Sequence[object]] = (("start", "end", "streamId", "shortName"), (5, 25, 7, 1))


def test_times_of_an_export_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    rows = (*KERNELS, (5, 2**63 - 1, 7, 1))
    session = (("utcEpochNs",), (2**63 - 1,))
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": rows, "TARGET_INFO_SESSION_START_TIME": session}
    trace = read_trace(_export(tmp_path / "t.sqlite", tables))
    assert (trace.events.start_ns.tolist(), trace.events.end_ns.tolist()) == ([5], [25])
    assert sum(trace.skipped.values()) == 1


def test_a_name_in_a_message_stays_on_one_line(tmp_path: Path) -> None:
    path = _export(tmp_path / "t.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": KERNELS})
    path.write_bytes(path.read_bytes().replace(b"(start, end", b"(st\nrt\x01e\xff"))
    with pytest.raises(TraceError) as raised:
        read_trace(path)
    assert str(raised.value).isprintable()


def test_a_view_that_never_ends_is_no_table(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS start, n + 1 AS end FROM c"
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as database:
        database.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}")
    with pytest.raises(TraceError, match="an SQLite file without kernels"):
        workers_in(tmp_path / "t.sqlite")


def test_an_empty_export_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "t.sqlite").write_bytes(b"")
    with pytest.raises(TraceError, match="the file is empty; copy it again"):
        read_trace(tmp_path / "t.sqlite")
    assert workers_in(tmp_path / "t.sqlite") == (str(tmp_path / "t.sqlite"),)
