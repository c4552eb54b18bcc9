"""Inside the loop that trains, between two runs of it, or outside: real functions, looked at from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from eroica_otel.profile.glance import glance
from eroica_otel.profile.place import Where, loops


class Stage:
    """A thread that runs a training function and stops where it is told, to be looked at."""

    def __init__(self) -> None:
        self.where = Where()
        self.reached, self.go_on = threading.Event(), threading.Event()

    def fetch(self) -> None:
        self.where.see(False)

    def step(self) -> None:
        self.where.see(True)

    def stop_here(self) -> None:
        self.reached.set()
        assert self.go_on.wait(30)


@contextmanager
def stopped(training: Callable[[Stage], None]) -> Iterator[str]:
    """Run ``training`` up to its stop; give where it is."""
    stage = Stage()
    thread = threading.Thread(target=training, args=(stage,), daemon=True)
    thread.start()
    try:
        assert stage.reached.wait(30)
        assert thread.ident is not None
        yield stage.where.of(glance(thread.ident).places)
    finally:
        stage.go_on.set()
        thread.join(30)


def epoch(stage: Stage, hang: bool) -> None:
    for batch in range(3):
        stage.fetch()
        if hang and batch == 2:
            helper(stage)
        stage.step()


def helper(stage: Stage) -> None:
    for _ in range(1):
        stage.stop_here()


def hangs_in_the_loop(stage: Stage) -> None:
    for _ in range(2):
        epoch(stage, hang=True)


def validates_after_each_epoch(stage: Stage) -> None:
    for _ in range(2):
        epoch(stage, hang=False)
        helper(stage)


def exports_at_the_end(stage: Stage) -> None:
    for _ in range(2):
        epoch(stage, hang=False)
    helper(stage)


def exports_after_validation(stage: Stage) -> None:
    epoch(stage, hang=False)
    for _ in range(5):
        stage.fetch()
    helper(stage)


def one_function(stage: Stage) -> None:
    while True:
        stage.fetch()
        stage.step()
        break_now = True
        if break_now:
            break
    stage.stop_here()


def nested_in_one_function(stage: Stage) -> None:
    for _ in range(2):
        for _ in range(2):
            stage.fetch()
            stage.step()
        stage.stop_here()


def without_inputs(stage: Stage) -> None:
    for number in range(3):
        stage.step()
        if number == 2:
            stage.stop_here()


def without_any_loop(stage: Stage) -> None:
    stage.fetch()
    stage.step()
    stage.stop_here()


@pytest.mark.parametrize(
    ("training", "place"),
    [
        (hangs_in_the_loop, "inside"),
        (validates_after_each_epoch, "between"),
        (exports_at_the_end, "outside"),
        (exports_after_validation, "outside"),
        (one_function, "outside"),
        (nested_in_one_function, "between"),
        (without_inputs, "inside"),
        (without_any_loop, ""),
    ],
)
def test_the_place_is_told_from_where_the_events_came(training: Callable[[Stage], None], place: str) -> None:
    with stopped(training) as found:
        assert found == place


def test_before_an_event_nothing_is_known() -> None:
    assert Where().of(glance(threading.get_ident()).places) == ""


def test_a_loop_of_an_event_loop_is_nobodys_training() -> None:
    """A notebook: the kernel's loop runs cells; the cell that trained is over, and the kernel waits."""
    names = {"__name__": "ipykernel.kernel", "stage": None}
    source = "def kernel(cell, idle):\n    for run in (cell, idle):\n        run()\n"
    exec(source, names)
    stage = Stage()
    kernel = SimpleNamespace(run=names["kernel"]).run
    thread = threading.Thread(target=kernel, args=(lambda: epoch(stage, hang=False), stage.stop_here), daemon=True)
    thread.start()
    try:
        assert stage.reached.wait(30)
        assert thread.ident is not None
        assert stage.where.of(glance(thread.ident).places) == "outside"
    finally:
        stage.go_on.set()
        thread.join(30)


def test_loops_are_found_in_the_byte_code() -> None:
    assert len(loops(nested_in_one_function.__code__)) >= 2
    assert loops(exports_after_validation.__code__) != ()
    assert loops(without_any_loop.__code__) == ()
