from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.errors import ConfigError, TraceError
from eroica_otel.offline import member, pool
from eroica_otel.offline.load import Options, Run, in_common, load
from eroica_otel.offline.problem import Problem
from trace_files import GEMM, START_US, event, kineto, write


def ranks(run: Run) -> list[int]:
    return [window.identity.rank for window in run.windows]


def test_a_folder_becomes_the_workers_of_one_run(tmp_path: Path) -> None:
    for rank in (1, 0):
        write(tmp_path / "llm-7b" / f"file{rank}.json", rank=rank, world=4)
    run = load([tmp_path / "llm-7b"], Options(roles={1: "last"}))
    assert ranks(run) == [0, 1]
    assert (run.expected, run.problems, run.notes) == (4, (), ())
    identity = run.windows[1].identity
    assert (identity.training_job, identity.role, identity.world_size) == ("llm-7b", "last", 4)
    # All windows of a run carry one id, the second in which the first of them ended.
    assert {window.window_id for window in run.windows} == {START_US // 1_000_000}
    assert {(window.iterations, window.seconds) for window in run.windows} == {(3, 0.003)}


def test_a_role_of_nobody_is_told(tmp_path: Path) -> None:
    run = load([write(tmp_path / "rank0.json")], Options(roles={0: "a", 7: "a"}))
    assert run.notes == ("--role names ranks of which there is no trace: 7",)


@pytest.mark.parametrize(
    ("files", "expected"), [((0,), 1), ((3,), 4), ((0, 3), 4)], ids=["alone", "one of at least 4", "two of at least 4"]
)
def test_how_many_workers_there_are_where_no_trace_says(files: tuple[int, ...], expected: int, tmp_path: Path) -> None:
    for rank in files:
        write(tmp_path / f"rank{rank}.json", rank=None)
    assert load([tmp_path]).expected == expected


def test_only_the_steps_that_all_have_are_compared(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", rank=0, steps=(5, 6, 7, 8))
    write(tmp_path / "rank1.json", rank=1, steps=(6, 7, 8, 9))
    run = load([tmp_path])
    assert [window.iterations for window in run.windows] == [3, 3]
    assert [member.steps for member in run.members.values()] == [(6, 7, 8)] * 2
    assert [window.start_iteration for window in run.windows] == [6, 6]
    assert run.notes == ("the traces hold different steps; those that all of them have are compared (6 to 8)",)


@pytest.mark.parametrize(
    ("steps", "common"),
    [
        ([range(5, 9), range(6, 10)], (6, 7, 8)),
        ([range(5, 10), (5, 6, 9)], (5, 6)),  # over 7 and 8 one would be charged with what the other has not recorded
        ([(3, 4, 8, 9, 10), range(3, 11)], (8, 9, 10)),
        ([(1, 3, 5), (1, 3, 5, 7)], (1, 3, 5)),  # that one counts by two is nobody's lack
        ([(1, 2), (8, 9)], ()),
        ([(4, 5)], (4, 5)),
        ([], ()),
    ],
    ids=str,
)
def test_steps_that_all_have_are_one_row_without_those_that_some_have(
    steps: list[Sequence[int]], common: tuple[int, ...]
) -> None:
    assert in_common(steps) == common


def test_a_gap_in_the_steps_of_one_makes_it_no_slower_than_the_others(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", rank=0, steps=range(5, 10))
    parts = [kineto(1, steps=(5, 6)), kineto(1, steps=(9,), start_us=START_US + 4000)]
    write(tmp_path / "rank1.json", parts[0] | {"traceEvents": [one for part in parts for one in part["traceEvents"]]})
    windows = load([tmp_path]).windows
    assert [(window.iterations, window.seconds) for window in windows] == [(2, 0.002)] * 2
    assert windows[0].kinds == windows[1].kinds


def test_steps_that_nobody_shares_are_compared_all_the_same_and_told_of(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", rank=0, steps=(1, 2))
    write(tmp_path / "rank1.json", rank=1, steps=(8, 9, 10))
    run = load([tmp_path])
    assert [window.iterations for window in run.windows] == [2, 3]
    assert run.apart
    assert run.notes == (
        "the traces have no step in common, so they are of different iterations: findings have low confidence",
    )


def test_a_trace_that_cannot_be_read_again_for_the_common_steps_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "rank0.json", rank=0, steps=(5, 6, 7, 8))
    write(tmp_path / "rank1.json", rank=1, steps=(6, 7, 8))
    really = member.read_member

    def once(request: member.Request) -> member.Member | Problem:
        return Problem(request.path, f"{request.path}: gone") if request.steps else really(request)

    monkeypatch.setattr(pool, "read_member", once)
    run = load([tmp_path])
    assert ranks(run) == [1]
    assert [problem.text for problem in run.problems] == [f"{tmp_path / 'rank0.json'}: gone"]


def test_what_cannot_be_used_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", rank=0)
    (tmp_path / "rank1.json").write_text('{"traceEvents": [{"ph": "X", "na')
    (tmp_path / "rank2.json").write_bytes(b"")
    write(tmp_path / "a" / "rank3.json", rank=3)
    write(tmp_path / "b" / "rank3.json", rank=3)
    (tmp_path / "report.json").write_text('{"schema": 1, "findings": []}')
    (tmp_path / "notes.txt").write_text("")
    run = load([tmp_path])
    assert ranks(run) == [0]
    cut, empty, contested = (problem.text for problem in run.problems)
    assert "rank1.json" in cut
    assert "rank2.json: the file is empty" in empty
    assert "rank 3 is claimed by 2 files" in contested
    assert run.notes == (
        f"not looked at, because its name is that of no trace: {tmp_path / 'notes.txt'}",
        f"no trace but JSON of another kind: {tmp_path / 'report.json'}",
    )


@pytest.mark.parametrize("content", [b"{" + b" " * 199, bytes(range(200)), b'{"deviceProperties": [], "sche'])
def test_what_may_be_the_trace_of_a_rank_is_a_problem_and_no_other_json(tmp_path: Path, content: bytes) -> None:
    write(tmp_path / "rank0.json", rank=0)
    for name in ("rank3.json", "worker_b.json"):
        (tmp_path / name).write_bytes(content)
    run = load([tmp_path])
    assert ranks(run) == [0]
    assert [problem.path for problem in run.problems] == [str(tmp_path / "rank3.json"), str(tmp_path / "worker_b.json")]
    assert run.notes == ()


def test_a_rank_that_nothing_tells_is_an_error_that_shows_the_flag(tmp_path: Path) -> None:
    for name in ("first.json", "second.json"):
        write(tmp_path / name, rank=None)
    with pytest.raises(ConfigError, match=r"give --rank first\.json=N \(and 1 more problem\)"):
        load([tmp_path])
    assert ranks(load([tmp_path], Options(ranks={"first.json": 1, "second.json": 0}))) == [0, 1]


@pytest.mark.parametrize(
    ("content", "error", "text"),
    [
        (None, ConfigError, "holds no trace"),
        ('{"traceEvents": [', TraceError, "rank0.json"),
        ('{"schema": 1}', TraceError, "rank0.json"),
    ],
)
def test_nothing_at_all_ends_it(content: str | None, error: type[Exception], text: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "rank0.json").write_text(content)
    with pytest.raises(error, match=text):
        load([tmp_path])


def test_no_paths() -> None:
    with pytest.raises(ConfigError, match="there is no trace"):
        load([])


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"marks": "none"}, "no ProfilerStep and no optimizer marks the iterations, so the whole trace counts as one"),
        ({"marks": "updates"}, "they go from one optimizer update to the next"),
        ({"extra": [event(GEMM, "kernel", START_US, -5)]}, "or only after a repair: negative duration 1"),
    ],
)
def test_what_a_reader_should_know_of_the_traces(changes: dict[str, Any], note: str, tmp_path: Path) -> None:
    notes = load([write(tmp_path / "rank0.json", **changes)]).notes
    assert any(note in one for one in notes), notes


def test_time_in_categories_that_nobody_knows_goes_with_the_window(tmp_path: Path) -> None:
    extra = [event("x", "warp_drive", START_US, 5), event("y", "warp_drive", START_US + 50, 7)]
    (window,) = load([write(tmp_path / "rank0.json", extra=extra)]).windows
    ((category, (count, seconds)),) = window.unknown.items()
    assert (category, count) == ("warp_drive", 2)
    assert seconds == pytest.approx(12e-6)


def test_told_iterations_are_told_again(tmp_path: Path) -> None:
    run = load([write(tmp_path / "rank0.json", marks="none")], Options(iterations=3))
    assert run.windows[0].iterations == 3
    assert run.notes == ("the whole trace counts as 3 iterations of equal length, as --iterations says",)


def test_traces_that_mark_their_iterations_differently(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", rank=0)
    write(tmp_path / "rank1.json", rank=1, marks="updates")
    assert "the traces mark their iterations in different ways, so times per iteration may not compare" in (
        load([tmp_path]).notes
    )


def test_a_clock_that_counts_from_somewhere_gives_no_time_of_day(tmp_path: Path) -> None:
    at_zero = load([write(tmp_path / "rank0.json", kineto(start_us=1000))])
    # What the trace does not tell is now, and not 1970.
    assert at_zero.windows[0].window_id > START_US // 1_000_000


def test_the_order_of_charging_and_the_held_share_are_those_of_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A level that is left out of the order is never charged."""
    write(tmp_path / "rank0.json", rank=0)
    plain = load([tmp_path]).windows[0].kinds
    assert plain["compute"] > 0
    monkeypatch.setenv("EROICA_ORDER", "communication,memory,host,python")
    assert load([tmp_path]).windows[0].kinds["compute"] == 0
