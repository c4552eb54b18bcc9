from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.errors import TraceError
from eroica_otel.offline.stretches import SPAN, STEPS, UPDATES, Chosen, choose
from eroica_otel.summarize.readers.any import read_trace
from trace_files import GEMM, START_US, event, write


def chosen(tmp_path: Path, *, iterations: int = 0, take: tuple[int, ...] = (), **changes: Any) -> Chosen:
    return choose(read_trace(write(tmp_path / "t.json", **changes)), iterations, take)


def lengths_us(found: Chosen) -> list[int]:
    """Return the lengths of the iterations of a stretch."""
    assert found.stretch is not None
    borders = (found.stretch.iteration_ns // 1000).tolist()
    assert (found.stretch.start_ns // 1000, found.stretch.end_ns // 1000) == (borders[0], borders[-1])
    return [after - before for before, after in pairwise(borders)]


def test_the_steps_that_the_profiler_marks(tmp_path: Path) -> None:
    found = chosen(tmp_path, steps=(5, 6, 7), step_us=1000)
    assert (found.marked, found.steps) == (STEPS, (5, 6, 7))
    assert lengths_us(found) == [1000, 1000, 1000]
    assert found.stretch is not None
    assert found.stretch.first == 5


def test_some_of_the_steps(tmp_path: Path) -> None:
    found = chosen(tmp_path, steps=(5, 6, 7, 8), step_us=1000, take=(6, 7, 99))
    assert found.steps == (6, 7)
    assert lengths_us(found) == [1000, 1000]
    assert found.stretch is not None
    assert (found.stretch.first, found.stretch.start_ns) == (6, (START_US + 1000) * 1000)


def test_steps_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"t\.json: none of the steps 8 to 9 is in it"):
        chosen(tmp_path, steps=(5, 6), take=(8, 9))


def test_without_steps_the_updates_of_the_first_optimizer_count(tmp_path: Path) -> None:
    second = event("Optimizer.step#Adam.step", "user_annotation", START_US + 1500, 10, 77)
    found = chosen(tmp_path, marks="updates", steps=range(4), step_us=1000, extra=[second])
    assert found.marked == UPDATES
    assert lengths_us(found) == [1000, 1000, 1000]


def test_without_any_mark_the_whole_trace_is_one_window(tmp_path: Path) -> None:
    found = chosen(tmp_path, marks="none", steps=range(4), step_us=1000, work={GEMM: 300})
    assert found.marked == SPAN
    assert lengths_us(found) == [3300]


def test_the_number_of_iterations_can_be_told(tmp_path: Path) -> None:
    told = chosen(tmp_path, marks="none", steps=range(4), step_us=1000, work={GEMM: 200}, iterations=4)
    assert lengths_us(told) == [800, 800, 800, 800]
    marked = chosen(tmp_path, marks="steps", steps=range(4), iterations=2)
    assert len(lengths_us(marked)) == 4
