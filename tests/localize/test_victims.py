"""Who waits for whom, where process groups are known and where not: stopped processes and standstills."""

from __future__ import annotations

import pytest

from eroica_otel.localize.presence import Presence
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Collective, Report, WorkerWindow
from factories_localize import IN_AUGMENT, Rank, rank, stuck, window_of


def waits(report: Report) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(one.ranks, one.waits_for) for one in report.victims]


@pytest.mark.parametrize(
    ("pairs", "victims"), [(True, [((3,), (2,))]), (False, [((0, 1, 3, 4, 5), (2,))])], ids=["pairs", "unknown"]
)
def test_of_a_stopped_process(pairs: bool, victims: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    def member(at: int) -> Rank:
        groups = (Collective(f"pair-{at // 2}", 1, 1024, 0.001),) if pairs else ()
        return rank(stopped_seconds=3.0 if at == 2 else 0.0, groups=groups)

    assert waits(judge(window_of([member(at) for at in range(6)]), expected=6)) == victims


def test_nobody_where_the_stopped_process_is_in_no_group_with_others() -> None:
    ranks = [rank(groups=(Collective(f"alone-{at}", 1, 1024, 0.001),)) for at in range(4)]
    ranks[1] = rank(groups=ranks[1].groups, stopped_seconds=3.0)
    assert waits(judge(window_of(ranks), expected=4)) == []


def still(*windows: WorkerWindow) -> Report:
    presence = {one.identity.rank: Presence("blocked", 2.0, False, one.identity.host, "all") for one in windows}
    return judge(windows, expected=len(windows), presence=presence)


DONE, BEHIND, WAITS = (4, 4), (4, 4), (5, 4)


def test_in_a_standstill_who_is_in_no_group_with_it_is_none() -> None:
    """Rank 0 waits for rank 1; ranks 2 and 3 wait for each other."""
    report = still(
        stuck(0, progress={"a": WAITS}), stuck(1, IN_AUGMENT, progress={"a": BEHIND}),
        stuck(2, progress={"b": WAITS}), stuck(3, progress={"b": WAITS}),
    )  # fmt: skip
    assert waits(report) == [((0,), (1,))]


def test_a_standstill_goes_on_from_group_to_group() -> None:
    """Rank 0 waits for rank 1, ranks 2 and 3 for rank 0 and rank 4 for rank 3."""
    report = still(
        stuck(0, world=5, progress={"tp": WAITS, "dp": DONE}), stuck(1, IN_AUGMENT, world=5, progress={"tp": BEHIND}),
        stuck(2, world=5, progress={"dp": WAITS}), stuck(3, world=5, progress={"dp": WAITS, "pp": DONE}),
        stuck(4, world=5, progress={"pp": WAITS}),
    )  # fmt: skip
    assert waits(report) == [((0, 2, 3, 4), (1,))]


def test_who_tells_no_groups_may_wait_for_anybody() -> None:
    known = {"a": WAITS}
    report = still(stuck(0, progress=known), stuck(1, IN_AUGMENT, progress={"a": BEHIND}), stuck(2), stuck(3))
    assert waits(report) == [((0, 2, 3), (1,))]
    mute = still(stuck(0, progress=known), stuck(1, IN_AUGMENT), stuck(2, progress={"b": WAITS}), stuck(3))
    assert waits(mute) == [((0, 2, 3), (1,))]
