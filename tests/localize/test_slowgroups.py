"""Process groups that transfer slower than others of their kind, and when nobody can say so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eroica_otel.localize.slowgroups import slow_groups
from eroica_otel.localize.verdict import judge, scene_of_windows
from eroica_otel.model import WorkerWindow
from factories_localize import Rank, window_of
from scenarios import grouped

SLOW, USUAL = 0.04, 0.02


def ranks(slow: int = 1, of: int = 4, fastest: float = SLOW) -> list[Rank]:
    return grouped(slow, of, (fastest, USUAL), "nvlink", (0.4, 0.8))


def slow_in(found: list[Rank], **changes: Any) -> list[str]:
    scene = scene_of_windows(window_of(found, **{"transfer_ms": 50.0} | changes))
    assert scene is not None
    return [group.name for group, _ in slow_groups(scene)]


def windows(found: list[Rank]) -> list[WorkerWindow]:
    return window_of(found, transfer_ms=50.0)


def test_a_group_whose_fastest_call_is_slower_than_those_of_others_is_named_with_what_it_costs() -> None:
    (finding,) = judge(windows(ranks(fastest=0.045)), expected=8).findings
    assert (finding.cause, finding.ranks, finding.hosts, finding.scope) == (
        "nvlink_degraded", (2, 3), ("node-1",), "node",
    )  # fmt: skip
    # one call an iteration, 25 ms longer than the others', in iterations of 100 ms
    assert finding.impact_seconds == pytest.approx(0.025)
    assert finding.impact_ratio == pytest.approx(0.25)
    assert finding.severity == "critical"
    assert "its fastest call takes 45 ms" in finding.evidence[0]
    assert finding.evidence[1] == "it uses 40 % of the rate of NVLink, 80 % on its peers"


def test_what_nobody_can_say() -> None:
    assert slow_in(ranks(of=4)) == ["pair-1"]
    assert slow_in(ranks(of=2)) == []  # of two groups either may be right
    assert slow_in(ranks(fastest=1.3 * USUAL)) == []  # as groups differ
    assert slow_in(ranks(), transfer_ms=450.0) == []  # 20 ms of 500


def test_groups_of_another_kind_are_not_compared() -> None:
    across = [replace(one, host=f"node-{at}") if at in (2, 3) else one for at, one in enumerate(ranks())]
    assert slow_in(across) == []  # two hosts, the others one
    larger = [
        replace(one, groups=tuple(replace(each, bytes=64 << 20) for each in one.groups)) if at in (2, 3) else one
        for at, one in enumerate(ranks())
    ]
    assert slow_in(larger) == []


def test_where_half_of_the_groups_are_slow_none_is_named() -> None:
    half = [*ranks(0, 2), *ranks(0, 2)]
    named = [replace(one, groups=tuple(replace(g, group=f"{at // 2}") for g in one.groups), host=f"node-{at // 2}")
             for at, one in enumerate(half)]  # fmt: skip
    assert slow_in(named) == []


def test_without_a_rate_that_explains_it_it_is_only_told() -> None:
    bare = [replace(one, link=None) for one in ranks()]
    (finding,) = judge(windows(bare), expected=8).findings
    assert (finding.cause, finding.severity, finding.ranks) == ("unknown", "info", (2, 3))
