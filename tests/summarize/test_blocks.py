"""A window that is charged in small blocks says what it says as a whole, wherever its events come from."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import CPU, GLOO, GPU, LATEST, random_case
from eroica_otel.model import Capture, WorkerWindow
from eroica_otel.summarize import blocks, pattern
from eroica_otel.summarize.critical import Charged, charge
from eroica_otel.summarize.inmemory import InMemory
from eroica_otel.summarize.pattern import summarize
from eroica_otel.summarize.readers import kineto
from eroica_otel.summarize.readers.kineto import read, scan
from eroica_otel.summarize.spill import Spill
from factories_summarize import Row, capture, events, kineto_event, kineto_text

CASES = 300


def small_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(blocks, "BLOCK_EVENTS", size)


def rows_of(rng: random.Random) -> list[Row]:
    """Return events: long and short, nested and crossing, with equal starts, before, across and after the window."""
    gpu = rng.random() < 0.5
    kinds = [*CPU, *GLOO, *(GPU if gpu else [])]
    rows: list[Row] = []
    for _ in range(rng.randrange(60)):
        start = rng.choice((rng.randrange(LATEST), rng.randrange(LATEST), 20))
        end = start + rng.choice((0, 0, 1, 2, 3, 5, 9, 30, 60))
        name, category = rng.choice(kinds)
        rows.append(Row(name, start, end, category, rng.choice((1, 1, 2, 8))))
    return rows


def told_by(charged: Charged) -> tuple[Any, ...]:
    """Return all that a window is told from, with functions by name and without an order."""
    names = [(function.kind, function.identity) for function in charged.functions]
    pieces = sorted((names[number], start, end) for start, end, number in zip(*charged.pieces, strict=True))
    spans = zip(charged.moves.start.tolist(), charged.moves.end.tolist(), charged.moves.function, strict=True)
    moves = sorted(
        (*span, names[number], str(one)) for (*span, number), one in zip(spans, charged.moves.told, strict=True)
    )
    return pieces, moves, dict(charged.kind_ns), charged.idle_ns, dict(charged.unknown), charged.events, charged.gpu


def write(path: Path, rows: list[Row], rng: random.Random) -> str:
    """Write rows in the order given, collectives with group and size."""
    bodies = []
    for row in rows:
        group = {"Process Group Name": rng.choice("01"), "In msg nelems": 3, "dtype": "float"}
        bodies.append(kineto_event(row, arguments=group))
    path.write_text(kineto_text(bodies))
    return str(path)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_blocks_of_a_file_in_any_order_and_the_whole_are_charged_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    rng = random.Random(size)
    moved = 0
    for _ in range(CASES):
        rows = rows_of(rng)
        if rng.random() < 0.5:
            rows.sort(key=lambda row: row.start)
        path = write(tmp_path / "t.json", rows, rng)
        offset = rng.choice(((0, 0), (0, 0), (0, 5), (0, -4), (3, 2000)))
        window: Capture = random_case(rng).capture
        whole_events = read(path, offset)
        small_blocks(monkeypatch, 1 << 40)
        whole = told_by(charge(window, whole_events))
        small_blocks(monkeypatch, size)
        monkeypatch.setattr("eroica_otel.summarize.spill.HELD_BYTES", rng.choice((0, 2000, 1 << 20)))
        with Spill(str(tmp_path)) as spill:
            found = scan(path, offset, spill, rng.choice((64, 700, 3000, 1 << 20)))
            assert told_by(charge(window, found, spill=spill)) == whole, (rows, offset)
        assert told_by(charge(window, InMemory(whole_events))) == whole, (rows, offset)
        moved += len(whole[1]) > 0
    assert moved > CASES // 2


@pytest.mark.parametrize("size", [1, 3, 10])
def test_every_pattern_of_a_window_in_blocks_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    rng = random.Random(100 + size)
    for _ in range(CASES):
        case = random_case(rng)
        small_blocks(monkeypatch, 1 << 40)
        whole = summarize(case.capture, top=10**6, trace=case.trace())
        small_blocks(monkeypatch, size)
        assert_same(summarize(case.capture, top=10**6, trace=case.trace()), whole)


def assert_same(found: WorkerWindow, expected: WorkerWindow) -> None:
    """Compare two windows; only sums of floats may differ, by their order."""
    by_id = {one.function_id: one for one in expected.patterns}
    assert len(found.patterns) == len(by_id)
    for one in found.patterns:
        other = by_id[one.function_id]
        assert one.mu == pytest.approx(other.mu, abs=1e-9)
        assert one.sigma == pytest.approx(other.sigma, abs=1e-6)
        assert replace(one, mu=None, sigma=None) == replace(other, mu=None, sigma=None)
    assert replace(found, patterns=()) == replace(expected, patterns=())


@pytest.mark.parametrize("processes", [1, 2])
def test_a_captured_trace_is_summarised_from_a_file_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    path, window = _large(tmp_path)
    expected = summarize(window)
    seen: list[int] = []
    write_one = Spill._write

    def counted(self: Spill, array: Any) -> None:
        seen.append(array.size)
        write_one(self, array)

    monkeypatch.setattr(Spill, "_write", counted)
    monkeypatch.setattr("eroica_otel.summarize.spill.HELD_BYTES", 0)
    monkeypatch.setattr(kineto, "_processes", lambda path: processes)
    monkeypatch.setattr(pattern, "scan", partial(scan, chunk_bytes=4096))
    small_blocks(monkeypatch, 50)
    assert_same(summarize(window), expected)
    assert len(seen) > 8
    assert sorted(one.name for one in tmp_path.iterdir()) == [Path(path).name]


def _large(tmp_path: Path, count: int = 600) -> tuple[str, Capture]:
    rows = [Row(f"aten::op{i % 5}", 10 * i, 10 * i + 8) for i in range(count)]
    rows += [Row("gloo:all_reduce", 70 * i, 70 * i + 30, "user_annotation", 9) for i in range(count // 7)]
    rows += [Row("long", 5, 10 * count, "user_annotation", 9)]
    path = write(tmp_path / "trace.json", rows, random.Random(1))
    samples = [(at, at // 100 % 4) for at in range(0, 10 * count, 100)]
    return path, capture(end=10 * count, trace=path, samples=samples, cpu=[at // 2 for at, _ in samples])


@pytest.mark.parametrize("broken", ["no folder", "full", "full later"])
def test_without_room_for_a_file_memory_takes_its_place_and_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    _, window = _large(tmp_path)
    expected = summarize(window)
    monkeypatch.setattr("eroica_otel.summarize.spill.HELD_BYTES", 0)
    small_blocks(monkeypatch, 50)
    left = [0 if broken == "full" else 5]

    def full(file: int, data: memoryview, place: int) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return file and len(data.tobytes()) and pwrite(file, data[:100], place)

    pwrite = os.pwrite
    if broken == "no folder":
        monkeypatch.setattr("tempfile.TemporaryFile", _refused)
    else:
        monkeypatch.setattr("os.pwrite", full)
    problems: list[tuple[str, str]] = []
    found = summarize(window, failed=lambda stage, why: problems.append((stage, why)))
    assert_same(found, expected)
    (problem,) = problems
    assert problem[0] == "summarize"
    assert "memory is used instead" in problem[1]
    assert ("Permission denied" if broken == "no folder" else "No space left") in problem[1]


def _refused(**arguments: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_window_that_needs_no_file_opens_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, window = _large(tmp_path)
    monkeypatch.setattr("tempfile.TemporaryFile", _refused)
    problems: list[tuple[str, str]] = []
    summarize(window, failed=lambda stage, why: problems.append((stage, why)))
    assert problems == []


def test_a_kernel_for_any_collective_is_named_in_blocks_too(tmp_path: Path) -> None:
    generic = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
    launch = {"External id": 1, "Collective name": "allreduce", "Process Group Name": "2", "In msg nelems": 100,
              "dtype": "BFloat16"}  # fmt: skip
    bodies = [
        kineto_event(Row(generic, 200, 250, "kernel", 9), arguments={"External id": 2}),
        kineto_event(Row(generic, 100, 150, "kernel", 9), arguments={"External id": 1}),
        kineto_event(Row("record_param_comms", 0, 10), arguments=launch),
    ]
    header = f'"distributedInfo": {json.dumps({"rank": 0, "pg_config": []})},'
    (tmp_path / "t.json").write_text(kineto_text(bodies, header=header))
    window = summarize(capture(end=300, trace=str(tmp_path / "t.json"), gpu=True))
    moved = {one.function: [(call.group, call.bytes) for call in one.collectives] for one in window.patterns}
    assert moved == {"ncclDevKernel_Generic_1: allreduce": [("2", 200)], "ncclDevKernel_Generic_1": [("", None)]}


def test_unknown_categories_are_counted_wherever_the_events_are(tmp_path: Path) -> None:
    rows = [Row("x", 0, 10, "quantum_events"), Row("y", 500, 510, "quantum_events"), Row("aten::mm", 0, 10)]
    path = write(tmp_path / "t.json", rows, random.Random(1))
    with Spill() as spill:
        found = charge(capture(end=10), scan(path, (0, 0), spill))
    assert found.unknown == charge(capture(end=10), events(rows)).unknown == {"quantum_events": (2, 20e-9)}


def test_what_lasts_is_carried_and_blocks_grow_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch, 2)
    rows = [Row("aten::mm", at, 1000) for at in range(200)]
    source = InMemory(events(rows))
    found = list(source.blocks(np.ones(1, bool), 0, 1000))
    assert (found[0].low, found[-1].high) == (0, 1000)
    assert all(before.high == after.low for before, after in pairwise(found))
    # each is at least as large as what it carries, so that they are few, and all is there once it has begun
    assert len(found) < 12
    assert [block.rows.start.size for block in found] == [min(block.high, 200) for block in found]


def test_a_window_before_or_after_all_events_is_idle(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [Row("aten::mm", 100, 200)], random.Random(1))
    for start, end in ((0, 50), (300, 400)):
        window = replace(capture(start=start, end=end), trace=path)
        assert summarize(window).kinds["idle"] == 1.0


def test_a_category_of_which_no_event_could_be_used_is_not_unknown(tmp_path: Path) -> None:
    bodies = [kineto_event(Row("aten::mm", 0, 10)), kineto_event(Row("x", 20, 15, "warp"))]
    (tmp_path / "t.json").write_text(kineto_text(bodies).replace('"dur": -1.995', '"dur": -0.005'))
    path = str(tmp_path / "t.json")
    with Spill() as spill:
        found = charge(capture(end=10), scan(path, (0, 0), spill))
    assert found.unknown == charge(capture(end=10), read(path, (0, 0))).unknown == {}
    assert found.events == 1
