from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eroica_otel import names
from eroica_otel.errors import QueryError
from eroica_otel.export.points import exact, window_points
from eroica_otel.model import Collective, Identity, Pattern, Point, WorkerWindow
from eroica_otel.query.decode import decode, identity
from factories_central import WINDOW, all_reduce, collect, pattern, status_points, window
from factories_central import identity as build_identity

_share = st.floats(0, 1).map(exact)
_optional = st.none() | _share
_text = st.text(st.characters(codec="utf-8", exclude_characters=">"), min_size=1, max_size=20).filter(str.strip)


@st.composite
def _windows(draw: st.DrawFn) -> WorkerWindow:
    ids = draw(st.lists(st.text("0123456789abcdef", min_size=12, max_size=12), unique=True, max_size=8))
    patterns = [
        Pattern(
            function_id=function_id, function=draw(_text), kind="python", family="other", resource="cpu",
            beta=draw(_share), mu=draw(_optional), sigma=draw(_optional), noise_seconds=draw(_optional),
            stack=tuple(draw(st.lists(st.just("train:main:10"), max_size=4))),
        )
        for function_id in sorted(ids)  # equal shares come by id
    ]  # fmt: skip
    who = Identity(draw(_text), draw(st.integers(0, 9999)), draw(_text), world_size=draw(st.integers(1, 9999)))
    return replace(
        window(who=who, patterns=patterns),
        reason=draw(st.sampled_from(["reference", "degraded", "manual"])),
        throttled_ratio=draw(_optional),
        run_delay_ratio=draw(_optional),
        cpu_seconds=draw(_optional),
    )


@given(_windows())
def test_inverts_the_export(given: WorkerWindow) -> None:
    assert decode(collect(given)) == given


@given(st.floats(1e-6, 1e6))
def test_values_leave_with_nine_digits_which_are_more_than_a_float32_has(value: float) -> None:
    assert float(f"{exact(value):.9g}") == exact(value)
    assert abs(exact(value) - value) <= 5e-9 * value  # half a step of a float32 is 3e-8
    assert exact(float(f"{value:.9g}")) == float(f"{value:.9g}")


def test_unix_times_keep_their_milliseconds() -> None:
    assert exact(1_764_430_005.51234) == 1_764_430_005.512


def test_inverts_collectives_peaks_and_absent_values() -> None:
    given = window(patterns=(all_reduce(mu=None, sigma=None), pattern(noise_seconds=0.003)), throttled_ratio=None)
    assert decode(collect(given)) == given


BLOCKED: dict[str, Any] = {
    "reason": "blocked",
    "iterations": 0,
    "silent_seconds": 34.0,
    "progress": {"0": (42, 41), "tp": (7, None)},
}


def test_inverts_a_blocked_window() -> None:
    given = window(**BLOCKED)
    assert decode(collect(given)) == given


def test_counts_of_collectives_belong_to_blocked_windows_only() -> None:
    counts = [Point(names.COLLECTIVE_SEQUENCE.name, build_identity().labels() | {"group": "0"}, 42.0)]
    given = window(reason="manual")
    assert decode(collect(given) + counts) == given


def test_groups_of_one_worker_are_bounded_and_whole_numbers() -> None:
    many = decode(collect(window(**BLOCKED | {"progress": {f"group {i}": (1, 0) for i in range(200)}})))
    assert many is not None
    assert len(many.progress) == 64
    with pytest.raises(QueryError, match="eroica_collective_sequence"):
        decode(collect(window(**BLOCKED | {"progress": {"0": (-1, None)}})))


def test_time_in_unknown_categories_arrives_and_is_bounded() -> None:
    decoded = decode(collect(window(unknown={"warp_drive": (3, 0.25), "others": (1, 0.5)})))
    assert decoded is not None
    assert decoded.unknown == {"warp_drive": (None, 0.25), "others": (None, 0.5)}
    many = decode(collect(window(unknown={f"category {at}": (1, 0.1) for at in range(50)} | {"odd": (1, -1.0)})))
    assert many is not None
    assert len(many.unknown) == 8
    assert all(seconds == 0.1 for _, seconds in many.unknown.values())


def test_order_of_the_points_does_not_matter() -> None:
    given = window(patterns=(pattern(), pattern("dddddddddddd", beta=0.2), all_reduce(collectives=())))
    assert decode(list(reversed(collect(given)))) == given


def test_points_without_a_window_give_none_and_still_an_identity() -> None:
    who = build_identity(3, restart=2)
    points = status_points(who)
    assert decode(points) is None
    assert identity(points) == who


def test_a_stack_beyond_the_twelve_largest_is_absent() -> None:
    many = [pattern(f"{index:012x}", beta=0.5 - index / 100) for index in range(13)]
    decoded = decode(window_points(window(patterns=many)))
    assert decoded is not None
    assert [bool(item.stack) for item in decoded.patterns] == [True] * 12 + [False]


def test_a_value_that_is_not_finite_is_a_value_that_was_not_measured() -> None:
    labels = build_identity().labels()
    gap = names.WINDOW_GAP.name
    points = [point for point in collect(window()) if point.name != gap] + [Point(gap, labels, math.nan)]
    decoded = decode(points)
    assert decoded is not None
    assert decoded.sampler_gap_seconds is None


def test_the_newer_of_two_window_ids_counts() -> None:
    late = window(window_id=WINDOW + 60, reason="manual")
    points = [
        Point(names.WINDOW_ID.name, late.identity.labels() | {"reason": "reference"}, float(WINDOW)),
        *collect(late),
    ]
    assert decode(points) == late
    assert decode([*points[1:], points[0]]) == late


@pytest.mark.parametrize("rank", ["", "-1", "1.5", "x", "٣", "9" * 12])
def test_a_rank_that_no_worker_has_is_refused(rank: str) -> None:
    labels = build_identity().labels() | {"rank": rank}
    with pytest.raises(QueryError, match="rank"):
        identity([Point(names.WORLD_SIZE.name, labels, 4.0)])


@pytest.mark.parametrize("value", [-1.0, 1e300])
def test_a_count_that_does_not_fit_is_refused(value: float) -> None:
    points = [point for point in collect(window()) if point.name != names.WINDOW_ID.name]
    labels = build_identity().labels() | {"reason": "manual"}
    with pytest.raises(QueryError, match="eroica_window_id"):
        decode([*points, Point(names.WINDOW_ID.name, labels, value)])


def test_a_window_without_a_length_is_refused() -> None:
    points = [point for point in collect(window()) if point.name != names.WINDOW_SECONDS.name]
    with pytest.raises(QueryError, match="eroica_window_seconds"):
        decode(points)


@pytest.mark.parametrize("world_size", [2**21 + 1, 2**53, 1e300])
def test_a_world_that_no_job_has_is_refused(world_size: float) -> None:
    with pytest.raises(QueryError, match="eroica_world_size"):
        identity([Point(names.WORLD_SIZE.name, build_identity().labels(), float(world_size))])


def test_a_rank_beyond_every_world_is_refused() -> None:
    with pytest.raises(QueryError, match="rank=2097152"):
        identity(status_points(build_identity(2**21)))


def test_a_reason_that_no_worker_gives_is_refused() -> None:
    with pytest.raises(QueryError, match="reason='party'"):
        decode(collect(window(reason="party")))


def test_of_too_many_patterns_the_largest_are_kept_and_the_rest_is_counted() -> None:
    many = [pattern(f"{index:012x}", beta=index / 2000) for index in range(2000)]
    decoded = decode(collect(window(patterns=many)))
    assert decoded is not None
    assert (len(decoded.patterns), decoded.patterns[0].beta, decoded.dropped) == (1024, 1999 / 2000, 976)
    assert decoded.floor == decoded.patterns[-1].beta == 976 / 2000


def test_groups_resources_and_kinds_are_bounded() -> None:
    many = all_reduce(
        collectives=tuple(Collective(str(index), 1, None, 0.001) for index in range(500)),
        peaks={f"nic_{index}": 0.5 for index in range(500)},
    )
    decoded = decode(collect(window(patterns=(many,), kinds={"compute": 0.5, **{f"k{i}": 0.1 for i in range(500)}})))
    assert decoded is not None
    assert len(decoded.patterns[0].collectives) == 64
    assert len(decoded.patterns[0].peaks) == 8
    assert decoded.kinds == {"compute": 0.5}
