"""What must never change a pattern: order of events, how they are cut, when it was, by which clock it was told."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cases import Case, random_case
from eroica_otel.model import KINDS, Capture, WorkerWindow
from eroica_otel.summarize.critical import charge
from eroica_otel.summarize.pattern import summarize
from factories_summarize import Row, events, write_kineto

WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""The smallest window that fails costs minutes to find, and these are small already."""
EXAMPLES = settings(max_examples=150, deadline=None, phases=WITHOUT_SHRINKING)
CASES = st.randoms(use_true_random=False).map(random_case)
STACKED = ("cpu_op", "user_annotation")
EPOCH = 1_790_857_026_123_456_789
SCALE = 12


class Told(NamedTuple):
    """What a window says about its functions; calls are left out where an event is cut in two."""

    kinds: dict[str, object]
    patterns: dict[str, tuple[object, ...]]


def told(window: WorkerWindow, *, calls: bool = True) -> Told:
    return Told(
        {kind: pytest.approx(share) for kind, share in window.kinds.items()},
        {
            one.function_id: (
                one.function, one.kind, one.family, one.resource, pytest.approx(one.beta),
                None if one.mu is None else pytest.approx(one.mu, abs=1e-7),
                None if one.sigma is None else pytest.approx(one.sigma, abs=1e-6),
                None if one.noise_seconds is None else pytest.approx(one.noise_seconds),
                one.collectives if calls else None,
            )
            for one in window.patterns
        },
    )  # fmt: skip


def summary(case: Case) -> WorkerWindow:
    return summarize(case.capture, top=10**6, trace=case.trace())


def assert_same(first: Case, second: Case, *, calls: bool = True) -> None:
    # Only one side may hold approximations: two of them never are equal.
    expected, found = told(summary(first), calls=calls), summary(second)
    assert dict(found.kinds) == expected.kinds
    assert {one.function_id for one in found.patterns} == set(expected.patterns)
    for one in found.patterns:
        plain = (one.function, one.kind, one.family, one.resource, one.beta, one.mu, one.sigma, one.noise_seconds)
        assert (*plain, one.collectives if calls else None) == expected.patterns[one.function_id]


def shifted(capture: Capture, by: int) -> Capture:
    """Return the same capture at another time."""
    return replace(
        capture,
        start_ns=capture.start_ns + by,
        end_ns=capture.end_ns + by,
        iteration_ns=capture.iteration_ns + by,
        stack_ns=capture.stack_ns + by,
        gc_ns=capture.gc_ns + by,
        nic_ns=capture.nic_ns + by,
    )


def moved(rows: Iterable[Row], by: int) -> list[Row]:
    return [row._replace(start=row.start + by, end=row.end + by) for row in rows]


@EXAMPLES
@given(CASES, st.randoms(use_true_random=False))
def test_the_order_in_which_events_come_changes_nothing(case: Case, rng: random.Random) -> None:
    # Of two events of a thread that begin and end together the later in order is the inner one: there order tells.
    kept = {(row.thread, row.start, row.end, row.category in STACKED or place): place
            for place, row in enumerate(case.rows)}  # fmt: skip
    places = sorted(kept.values())
    mixed = rng.sample(places, len(places))
    assert_same(_chosen(case, places), _chosen(case, mixed))


def _chosen(case: Case, places: list[int]) -> Case:
    collectives = {new: case.collectives[old] for new, old in enumerate(places) if old in case.collectives}
    return Case([case.rows[place] for place in places], case.capture, collectives, case.calls)


@EXAMPLES
@given(CASES, st.data())
def test_an_event_cut_in_two_changes_nothing(case: Case, data: st.DataObject) -> None:
    free = [row for row in case.rows if row.category not in STACKED or _alone(row, case.rows)]
    if not free:
        return
    row = data.draw(st.sampled_from(free))
    middle = data.draw(st.integers(row.start, row.end))
    at = case.rows.index(row)
    rows = [*case.rows[:at], row._replace(end=middle), row._replace(start=middle), *case.rows[at + 1 :]]
    assert_same(Case(case.rows, case.capture, {}, case.calls), Case(rows, case.capture, {}, case.calls), calls=False)


def _alone(row: Row, rows: list[Row]) -> bool:
    """Whether nothing begins inside the event on its thread: cut there, the second half would be the inner one."""
    inside = [one for one in rows if one.category in STACKED and one.thread == row.thread]
    return sum(row.start <= one.start < row.end for one in inside) == (row.end > row.start)


@EXAMPLES
@given(CASES, st.integers(0, 10**6), st.integers(1, SCALE - 1))
def test_one_more_sample_that_says_the_same_changes_nothing(case: Case, place: int, part: int) -> None:
    """Between two samples the thread ran what the later one shows, and used its core evenly."""
    capture = case.capture
    if capture.stack_ns.size < 2:
        return
    wide = replace(
        capture,
        start_ns=capture.start_ns * SCALE,
        end_ns=capture.end_ns * SCALE,
        iteration_ns=capture.iteration_ns * SCALE,
        stack_ns=capture.stack_ns * SCALE,
        cpu_ns=np.maximum.accumulate(capture.cpu_ns) * SCALE,
        gc_ns=capture.gc_ns * SCALE,
        nic_ns=capture.nic_ns * SCALE,
    )
    after = 1 + place % (wide.stack_ns.size - 1)
    more = replace(
        wide,
        stack_ns=_with_one_between(wide.stack_ns, after, part),
        cpu_ns=_with_one_between(wide.cpu_ns, after, part),
        stack_ids=np.insert(wide.stack_ids, after, wide.stack_ids[after]),
    )
    rows = [row._replace(start=row.start * SCALE, end=row.end * SCALE) for row in case.rows]
    assert_same(Case(rows, wide, {}), Case(rows, more, {}))


def _with_one_between(values: NDArray[np.int64], after: int, part: int) -> NDArray[np.int64]:
    step = int(values[after] - values[after - 1])
    return np.insert(values, after, values[after - 1] + step * part // SCALE)


@EXAMPLES
@given(CASES, st.sampled_from([1, 3_600 * 10**9, 2**53 + 1, EPOCH]))
def test_when_it_was_changes_nothing(case: Case, by: int) -> None:
    calls = tuple(call._replace(start=call.start + by, end=call.end + by) for call in case.calls)
    assert_same(case, Case(moved(case.rows, by), shifted(case.capture, by), case.collectives, calls))


@settings(EXAMPLES, max_examples=60)
@given(CASES, st.sampled_from([0, EPOCH - 10**6, EPOCH]), st.sampled_from([0, EPOCH, 10**15 + 7]))
def test_the_base_of_the_traces_times_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, case: Case, base: int, monotonic: int
) -> None:
    """A trace tells realtime, whole or from a base on; samples tell the monotonic clock, wherever that began."""
    path = tmp_path_factory.mktemp("base") / "trace.json"
    text = write_kineto(path, moved(case.rows, EPOCH), base)
    offset = EPOCH - monotonic
    told_by_file = replace(shifted(case.capture, monotonic), trace=text, realtime_offset_ns=(offset, offset))
    found = summarize(told_by_file, top=10**6)
    path.unlink()
    expected = told(summary(case._replace(calls=())), calls=False)
    assert dict(found.kinds) == expected.kinds
    shares = {one.function_id: one.beta for one in found.patterns}
    assert shares == {key: pattern[4] for key, pattern in expected.patterns.items()}
    uses = {one.function_id: (one.resource, one.mu, one.sigma) for one in found.patterns}
    assert uses == {key: (pattern[3], *pattern[5:7]) for key, pattern in expected.patterns.items()}


@EXAMPLES
@given(CASES)
def test_charged_times_and_idle_sum_to_the_window_and_nothing_is_out_of_its_range(case: Case) -> None:
    start, end = case.window
    charged = charge(case.capture, events(case.rows), case.trace().python)
    assert sum(charged.kind_ns.values()) + charged.idle_ns == end - start
    assert set(charged.kind_ns) == set(KINDS)
    pieces = charged.pieces
    assert bool((pieces.start < pieces.end).all())
    assert bool((pieces.start >= start).all())
    assert bool((pieces.end <= end).all())
    for kind, time in charged.kind_ns.items():
        mine = [one for one in zip(*pieces, strict=True) if charged.functions[one[2]].kind == kind]
        assert len({now for low, high, _ in mine for now in range(low, high)}) == time
    for pattern in summary(case).patterns:
        assert 0 < pattern.beta <= 1
        assert pattern.mu is None or 0 <= pattern.mu <= 1
        assert pattern.sigma is None or pattern.sigma >= 0
