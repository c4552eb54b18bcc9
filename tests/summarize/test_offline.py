"""A trace that was read from a file -> the window that a live worker would have made of it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from eroica_otel.errors import TraceError
from eroica_otel.model import Identity
from eroica_otel.profile import samples
from eroica_otel.summarize.offline import Stretch, capture_of, stretch_of, summarize_trace
from eroica_otel.summarize.pattern import summarize
from eroica_otel.summarize.readers.any import read_trace
from eroica_otel.summarize.readers.folder import trace_of
from factories_summarize import Row, capture, write_kineto

WHO = Identity("job", 3, "node", world_size=8)


def _step(number: int, start: int, end: int, category: str = "user_annotation") -> Row:
    return Row(f"ProfilerStep#{number}", start, end, category)


def test_the_marked_steps_are_the_window(tmp_path: Path) -> None:
    rows = [
        Row("k", 5, 8, "kernel", 7),
        _step(4, 10, 50),
        _step(5, 52, 90),
        _step(4, 12, 48, "gpu_user_annotation"),
        *[Row("k", at, at + 20, "kernel", 7) for at in (20, 60)],
        Row("k", 95, 99, "kernel", 7),
    ]
    trace = read_trace(write_kineto(tmp_path / "t.json", rows))
    stretch = stretch_of(trace)
    assert (stretch.start_ns, stretch.end_ns, stretch.first, stretch.note) == (10, 90, 4, "")
    assert stretch.iteration_ns.tolist() == [10, 52, 90]
    window = summarize_trace(trace, WHO, window_id=17)
    assert (window.iterations, window.start_iteration, window.window_id, window.identity) == (2, 4, 17, WHO)
    assert [(p.function, p.beta) for p in window.patterns] == [("k", 0.5)]  # 40 of 80; what lies outside does not count


@pytest.mark.parametrize(("category", "kept"), [("kernel", [6, 7]), ("cpu_op", [6, 7])])
def test_steps_without_work_at_the_ends_do_not_count(tmp_path: Path, category: str, kept: list[int]) -> None:
    steps = [_step(5 + i, 100 * i, 100 * i + 90) for i in range(4)]
    work = [Row("aten::mm", at, at + 10, category, 1) for at in (110, 240)]
    trace = read_trace(write_kineto(tmp_path / "t.json", [*steps, *work]))
    assert trace.steps.number.tolist() == kept


def test_without_steps_the_whole_trace_is_the_window_and_a_note_says_so(tmp_path: Path) -> None:
    rows = [Row("aten::mm", 10, 30), Row("aten::add", 40, 50)]
    trace = read_trace(write_kineto(tmp_path / "t.json", rows))
    stretch = stretch_of(trace)
    assert (stretch.start_ns, stretch.end_ns, stretch.iteration_ns.size) == (10, 50, 0)
    assert "no ProfilerStep" in stretch.note
    window = summarize_trace(trace, WHO)
    assert window.iterations == 0
    assert {p.function: p.beta for p in window.patterns} == {"aten::mm": 0.5, "aten::add": 0.25}


def test_a_stretch_of_the_callers_choice(tmp_path: Path) -> None:
    trace = read_trace(write_kineto(tmp_path / "t.json", [Row("aten::mm", 10, 30), Row("aten::add", 40, 50)]))
    part = Stretch(20, 40, np.array([20, 30, 40], np.int64), 8, "")
    window = summarize_trace(trace, WHO, stretch=part, reason="reference")
    assert (window.iterations, window.start_iteration, window.reason) == (2, 8, "reference")
    assert {p.function: p.beta for p in window.patterns} == {"aten::mm": 0.5}


def test_a_trace_without_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"t\.json: no event with a length"):
        stretch_of(read_trace(write_kineto(tmp_path / "t.json", [Row("aten::mm", 10, 10)])))


def test_offline_and_live_give_the_same_patterns(tmp_path: Path) -> None:
    rows = [
        _step(1, 0, 100),
        Row("aten::mm", 10, 40),
        Row("aten::add", 30, 35),
        Row("gloo:all_reduce", 60, 80, "user_annotation", 2),
    ]
    path = write_kineto(tmp_path / "t.json", rows)
    live = summarize(capture(trace=path))
    offline = summarize_trace(read_trace(path), live.identity)
    assert offline.patterns == live.patterns
    assert dict(offline.kinds) == dict(live.kinds)


def test_samples_of_a_capture_win_over_stacks_in_its_trace(tmp_path: Path) -> None:
    folder = tmp_path / "window-1"
    folder.mkdir()
    write_kineto(folder / "trace.json", [Row("aten::mm", 0, 40), Row("f.py(1): f", 40, 100, "python_function")])
    taken = capture(samples=[(40, 0), (100, 1)], trace="/elsewhere/trace.json")
    samples.write(folder, taken)
    trace = trace_of(samples.read(folder), str(folder))
    assert (trace.format, trace.rank, trace.world_size, trace.host) == ("capture", 0, 4, "host-a")
    window = summarize_trace(trace, WHO)
    assert window.identity == WHO
    assert {p.function: p.beta for p in window.patterns} == {"aten::mm": 0.4, "augment (train.py:40)": 0.6}


def test_a_capture_whose_trace_is_gone_says_so(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for gone in ("/elsewhere/trace.json", "/", str(tmp_path / "pipe")):
        said = f"{tmp_path}: its trace is neither in it nor at {gone}; copy it into the folder as trace.json"
        with pytest.raises(TraceError, match=re.escape(said)):
            trace_of(capture(trace=gone), str(tmp_path))
    without = trace_of(capture(samples=[(50, 1)]), str(tmp_path))
    assert without.events.total == 0
    assert capture_of(without, WHO).identity == WHO
