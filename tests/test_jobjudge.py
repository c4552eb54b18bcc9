from __future__ import annotations

import threading

import pytest

from eroica_otel.jobjudge import Judging, Work
from eroica_otel.model import Report
from factories_central import report

A, B = ("", "a"), ("", "b")
PATIENCE_SECONDS = 60.0


class Held:
    """A judge that answers when it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def __call__(self) -> Report:
        assert self.go.wait(PATIENCE_SECONDS)
        return report()


def work(key: tuple[str, str], judge: object, done: list[tuple[str, str]]) -> Work:
    return Work(key, judge, lambda one: done.append(one.key))  # type: ignore[arg-type]


def test_a_job_is_judged_beside_one_that_is_slow() -> None:
    done: list[tuple[str, str]] = []
    slow, woken = Held(), threading.Event()
    judging = Judging(woken.set)
    judging.begin(work(A, slow, done))
    judging.begin(work(B, report, done))
    assert woken.wait(PATIENCE_SECONDS)
    assert judging.collect()
    assert done == [B]
    assert (judging.under_way(), judging.may_begin(A), judging.may_begin(B)) == ((A,), False, True)
    slow.go.set()
    assert judging.collect(None)
    assert done == [B, A]
    assert judging.under_way() == ()


def test_who_waits_for_verdicts_is_woken_when_one_can_be_collected() -> None:
    woken, done = threading.Event(), list[tuple[str, str]]()
    judging = Judging(woken.set)
    judging.begin(work(A, report, done))
    assert woken.wait(PATIENCE_SECONDS)
    assert judging.collect()
    assert done == [A]


def test_not_more_than_so_many_at_once() -> None:
    held, judging = Held(), Judging(lambda: None, at_once=2)
    done: list[tuple[str, str]] = []
    judging.begin(work(A, held, done))
    assert judging.may_begin(B)
    judging.begin(work(B, held, done))
    assert not judging.may_begin(("", "c"))
    held.go.set()
    assert judging.collect(None)
    assert judging.may_begin(("", "c"))


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), MemoryError(), OSError(28, "full"), KeyError("y")])
def test_what_a_judge_raises_is_raised_where_it_is_collected(error: Exception) -> None:
    def fails() -> Report:
        raise error

    found: list[Work] = []
    judging = Judging(lambda: None)
    judging.begin(Work(A, fails, found.append))
    assert judging.collect(None)
    with pytest.raises(type(error)):
        found[0].report()


def test_a_judge_that_nobody_foresaw_counts_as_one_without_a_verdict() -> None:
    one = Work(A, lambda: None, lambda work: None)  # type: ignore[arg-type, return-value]
    one.run()
    with pytest.raises(RuntimeError, match="no verdict"):
        one.report()
