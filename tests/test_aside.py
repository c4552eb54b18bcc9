"""Calls in a thread of their own: answers come when they come, and a call that hangs holds up nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eroica_otel.aside import Aside


def test_each_question_has_one_answer() -> None:
    numbers = iter([1, 2, 3])
    aside = Aside(lambda: next(numbers), "test")
    assert aside.answer() is None
    for expected in (1, 2, 3):
        assert aside.ask()
        assert aside.answer(10) == expected
    aside.close()


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_what_is_raised_is_no_answer_and_the_next_question_is_asked(error: type[Exception]) -> None:
    seen: list[int] = []

    def call() -> int:
        seen.append(1)
        if len(seen) == 1:
            raise error
        return 5

    aside = Aside(call, "test")
    assert aside.ask()
    assert aside.answer(10) is None
    assert aside.ask()
    assert aside.answer(10) == 5
    aside.close()


def test_a_file_that_never_answers_is_asked_once_and_held_against_nobody(tmp_path: Path) -> None:
    """A pipe into which nobody writes, until somebody does."""
    pipe = tmp_path / "counter"
    os.mkfifo(pipe)
    file = os.open(pipe, os.O_RDWR)
    aside = Aside(lambda: int(os.read(file, 8)), "test")
    assert aside.ask()
    assert aside.answer() is None
    assert not aside.ask()
    assert not aside.ask()
    assert (aside.busy, aside.unanswered) == (True, 2)
    os.write(file, b"42")
    assert aside.answer(10) == 42
    aside.close()
    os.close(file)
