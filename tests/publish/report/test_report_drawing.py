from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eroica_otel.publish.report.figure import fitted, host_blocks
from eroica_otel.publish.report.labels import Box, Label, Labels, text_width
from eroica_otel.publish.report.markup import element, join, raw
from eroica_otel.publish.report.scale import nice_ticks, rank_ticks, unit_of


@given(st.floats(1e-9, 1e9), st.integers(1, 10))
def test_ticks_are_few_round_and_reach_the_top(top: float, most: int) -> None:
    ticks = nice_ticks(top, most)
    assert ticks[0] == 0
    assert ticks[-1] >= top * (1 - 1e-5)
    assert len(ticks) <= most + 1
    step = ticks[1]
    assert round(step / 10 ** math.floor(math.log10(step) + 1e-9), 6) in (1, 2, 5)


@pytest.mark.parametrize("top", [0.0, -1.0, math.nan, math.inf])
def test_an_axis_without_values_still_has_one(top: float) -> None:
    assert nice_ticks(top, 5) == [0.0, 1.0]


@pytest.mark.parametrize(("seconds", "unit"), [(0.0, "ms"), (0.046, "ms"), (0.0001, "µs"), (12.0, "s")])
def test_units_suit_the_largest_value(seconds: float, unit: str) -> None:
    assert unit_of(seconds)[0] == unit


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, []), (1, [0]), (4, [0, 1, 2, 3]), (64, list(range(0, 64, 4))), (4096, list(range(0, 4096, 256)))],
)
def test_rank_numbers_step_by_powers_of_two(count: int, expected: list[int]) -> None:
    assert rank_ticks(count, 16, 99) == expected


def test_rank_numbers_never_need_more_room_than_there_is() -> None:
    assert len(rank_ticks(64, 16, 3)) <= 3
    assert rank_ticks(64, 16, 0) == [0]


def test_names_do_not_overlap_and_stay_inside() -> None:
    area = Box(0, 0, 400, 200)
    labels = Labels(area, [])
    placed = [labels.place(Label(200, 100, f"rank {i}", 13)) for i in range(30)]
    boxes = []
    for i, one in enumerate(placed):
        if one is not None:
            width = text_width(f"rank {i}", 13)
            left = one.x - {"start": 0.0, "end": width, "middle": width / 2}[one.anchor]
            boxes.append(Box(left, one.y - 12, width, 13))
    assert 4 <= len(boxes) < 30
    assert all(area.holds(box) for box in boxes)
    assert not any(box.overlaps(other) for i, box in enumerate(boxes) for other in boxes[:i])


def test_the_first_culprit_is_named_even_without_room() -> None:
    labels = Labels(Box(0, 0, 10, 10), [])
    assert labels.place(Label(5, 5, "a long name", 13)) is None
    assert labels.place(Label(5, 5, "a long name", 13), must=True) is not None


def test_names_avoid_dots() -> None:
    right = [(x, 100.0) for x in range(210, 300, 5)]
    placed = Labels(Box(0, 0, 400, 200), right).place(Label(200, 100, "rank 2", 13))
    assert placed is not None
    assert placed.anchor == "end"


def test_nodes_are_drawn_only_where_they_are_few_and_known() -> None:
    assert host_blocks(["a", "a", "b"], 8) == [("a", 0, 1), ("b", 2, 2)]
    assert host_blocks(["a", "a"], 8) == []
    assert host_blocks(["a", "b", "c"], 2) == []
    assert host_blocks(["a", ""], 8) == []


def test_long_names_of_nodes_keep_both_ends() -> None:
    name = "gpu-node-with-a-long-name-0042"
    short = fitted(name, text_width("x" * 12, 12))
    assert len(short) <= 12
    assert short.startswith("gpu")
    assert short.endswith("42")
    assert fitted(name, 5) == "…"
    assert fitted(name, 1000) == name


def test_markup_escapes_texts_and_attributes_but_not_itself() -> None:
    inner = element("b", "<i>")
    assert element("p", inner, " & ", class_='"x"', data_label=None) == (
        '<p class="&quot;x&quot;"><b>&lt;i&gt;</b> &amp; </p>'
    )
    assert join(["<", None, raw("<br>")]) == "&lt;<br>"
