from __future__ import annotations

from dataclasses import replace
from typing import Any

from eroica_otel import names
from eroica_otel.export.points import window_points
from eroica_otel.model import Point, WorkerWindow
from eroica_otel.query.decode import decode
from eroica_otel.vectors import IN_A_VECTOR, MISSING, PARTS, SHARE, WHOLE, Vector, points, slot_of, vectors
from factories_central import all_reduce, collect, pattern, window


def given(**changes: Any) -> WorkerWindow:
    bare = pattern("dddddddddddd", beta=0.05, mu=None, sigma=None, resource="", stack=())
    functions = (all_reduce(beta=0.3), pattern(beta=0.1, noise_seconds=0.003), bare)
    made = window(3, patterns=functions, host_use={"process_disk_read": 2e9, "process_cpu": 0.5}, **changes)
    return replace(made, identity=replace(made.identity, restart=2))


def laid(made: WorkerWindow) -> list[Vector]:
    return vectors(point for point in collect(made) if point.name in IN_A_VECTOR)


def told(vector: Vector) -> list[Point]:
    """Return what a vector says, by the way of its dictionary."""
    slots = [slot_of(slot.name, slot.all_labels() | {"dict": vector.dict, "slot": "0"}) for slot in vector.slots]
    return points(slots, vector.values, given().identity.labels())


def test_a_window_comes_back_out_of_its_vectors() -> None:
    made = given()
    assert decode(point for vector in laid(made) for point in told(vector)) == made


def test_a_blocked_window_too() -> None:
    made = given(reason="blocked", iterations=0, progress={"0": (7, 6), "tp": (3, None)}, silent_seconds=12.5)
    assert decode(point for vector in laid(made) for point in told(vector)) == made


def test_everything_that_a_window_is_made_of_is_in_a_vector() -> None:
    made = given(reason="blocked", progress={"0": (7, 6)}, silent_seconds=12.5, unknown={"warp": (None, 0.5)})
    assert {point.name for point in window_points(made)} <= IN_A_VECTOR
    assert all(names.BY_NAME[name].type == names.GAUGE for name in IN_A_VECTOR)


def test_equal_lists_of_functions_have_one_dictionary_whatever_the_values_and_their_order() -> None:
    one, other = laid(given()), laid(given(seconds=7.0, floor=0.5))
    assert [vector.dict for vector in one] == [vector.dict for vector in other]
    assert [vector.slots for vector in one] == [vector.slots for vector in other]
    turned = replace(given(), patterns=given().patterns[::-1])
    assert laid(turned) == one


def test_a_function_more_is_another_dictionary_but_its_use_not_measured_is_none() -> None:
    made = given()
    more = replace(made, patterns=(*made.patterns, pattern("eeeeeeeeeeee")))
    assert laid(more)[1].dict != laid(made)[1].dict
    unmeasured = replace(made, patterns=tuple(replace(one, mu=None, sigma=None) for one in made.patterns))
    assert [vector.dict for vector in laid(unmeasured)] == [vector.dict for vector in laid(made)]
    values = dict(zip(laid(unmeasured)[1].slots, laid(unmeasured)[1].values, strict=True))
    assert {value for slot, value in values.items() if slot.name == names.PATTERN_MU.name} == {MISSING}


def test_shares_are_apart_from_counts_so_that_one_decimal_exponent_holds_each_vector() -> None:
    """An int64 with the exponent of the smallest digit: 18 digits from the largest value to the last place kept."""
    whole, share = laid(given())
    assert (whole.part, share.part) == PARTS == (WHOLE, SHARE)
    assert max(share.values) < 1e3  # with places down to 1e-15
    assert 2e9 in whole.values
    assert all(round(value, 3) == value for value in whole.values)  # up to 1e15 bytes


def test_a_stack_is_told_with_its_function_and_does_not_make_another_dictionary() -> None:
    made = given()
    bare = replace(made, patterns=tuple(replace(one, stack=()) for one in made.patterns))
    assert [vector.dict for vector in laid(bare)] == [vector.dict for vector in laid(made)]
    assert laid(bare) != laid(made)


def test_what_another_program_says_of_a_slot_does_not_reach_the_workers_labels() -> None:
    slot = slot_of(names.PATTERN_BETA.name, {"function_id": "a", "rank": "9", "training_job": "b", "evil": "c"})
    (point,) = points([slot], [0.5], {"rank": "1"})
    assert point == Point(names.PATTERN_BETA.name, {"rank": "1", "function_id": "a"}, 0.5)
