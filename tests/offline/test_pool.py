from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.offline import pool
from eroica_otel.offline.member import Member, Request
from eroica_otel.offline.pool import read_all
from eroica_otel.offline.problem import Problem
from trace_files import write


class Deadly(str):
    """A path that ends the process which takes it over."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return os._exit, (9,)


def test_every_file_is_told_of_and_the_order_is_that_of_the_requests(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / f"rank{rank}.json", rank=rank)) for rank in range(3)]
    (tmp_path / "rank1.json").write_text('{"traceEvents": [')
    told: list[tuple[int, int, str, float]] = []
    outcomes = read_all([Request(path) for path in paths], told=lambda *news: told.append(news))
    assert [type(outcome) for outcome in outcomes] == [Member, Problem, Member]
    assert [outcome.path for outcome in outcomes] == paths
    files = [news[:3] for news in told]
    # Small files may all be done before anybody asks, and then come in any order.
    assert sorted({(done, count) for done, count, _ in files}) == [(1, 3), (2, 3), (3, 3)]
    assert {path for _, _, path in files} == {*paths}
    assert told[-1][3] == 1.0


def test_nothing_to_read() -> None:
    assert read_all([]) == []


def test_a_fault_of_ours_costs_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = str(write(tmp_path / "rank0.json"))

    def read(request: Request) -> str:
        if request.path != good:
            raise TypeError("no such thing")
        return "read"

    monkeypatch.setattr(pool, "read_member", read)
    outcomes: list[Any] = [*read_all([Request(good), Request("bad.json")])]
    fine, failed = outcomes
    assert fine == "read"
    assert isinstance(failed, Problem)
    assert failed.text == (
        "bad.json: reading it failed in an unforeseen way (TypeError: no such thing); please report this"
    )


def test_an_interrupt_does_not_wait_for_the_file_that_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    left, ended = threading.Event(), threading.Event()
    read: list[bool] = []

    def endless(request: Request) -> Problem:
        read.append(left.wait(60))
        ended.set()
        return Problem(request.path, "read")

    def interrupt(*news: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pool, "read_member", endless)
    monkeypatch.setattr(pool, "LOOK_SECONDS", 0.01)
    with pytest.raises(KeyboardInterrupt):
        read_all([Request("rank0.json")], told=interrupt)
    left.set()
    assert ended.wait(60)
    assert read == [True]  # it was still being read when the interrupt came through


def test_a_process_that_dies_takes_no_other_file_with_it(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / f"rank{rank}.json", rank=rank)) for rank in range(2)]
    requests = [Request(paths[0]), Request(Deadly(tmp_path / "deadly.json")), Request(paths[1])]
    first, dead, last = read_all(requests, jobs=2)
    assert [type(outcome) for outcome in (first, last)] == [Member, Member]
    assert isinstance(dead, Problem)
    assert "the process that read it was ended from outside; did memory run out?" in dead.text
