"""One iteration: who waited for whom is told, nobody is blamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eroica_otel.localize.verdict import judge
from eroica_otel.model import Collective, Identity, Pattern, Report, Victims, WorkerWindow

ALL_REDUCE, SEND = "all_reduce", "send_recv"


def window(rank: int, spent_ms: Mapping[str, float], *, role: str = "", group: str = "", **changes: float) -> (
    WorkerWindow
):  # fmt: skip
    """Return a window of one iteration of 20 ms with this time in collectives and 5 ms of compute."""
    patterns = [
        Pattern(f"{name:>012}", name, "communication", "collective", "", ms / 20,
                collectives=(Collective(group, 1, None, 0.0001),))
        for name, ms in spent_ms.items()
    ]  # fmt: skip
    compute = Pattern("0123456789ab", "gemm", "compute", "gemm", "", 0.25)
    return WorkerWindow(
        Identity("job", rank, "", role=role, world_size=8), 1, "manual",
        seconds=0.02, iterations=int(changes.get("iterations", 1)), patterns=(*patterns, compute),
    )  # fmt: skip


def one_iteration(spent_ms: Sequence[float], name: str = ALL_REDUCE) -> Report:
    windows = [window(rank, {name: ms}) for rank, ms in enumerate(spent_ms)]
    return judge(windows, expected=len(windows))


def test_the_last_to_arrive_has_the_shortest_collective() -> None:
    report = one_iteration([9.0, 8.0, 1.0, 9.5])
    assert report.findings == ()
    assert report.victims == (Victims((0, 1, 3), ALL_REDUCE, (2,)),)
    assert report.notes == (
        "not enough evidence: who waits for whom is inferred from one iteration, which is no evidence of a culprit",
    )


def test_who_waits_less_than_half_of_the_gap_is_neither_late_nor_a_victim() -> None:
    # Least 0.4, median of the others 6: late up to 0.4 + a fifth of the way to the median, victims above half.
    report = one_iteration([4.0, 9.5, 1.8, 8.0, 6.3, 6.0, 1.8, 0.4])
    assert report.victims == (Victims((0, 1, 3, 4, 5), ALL_REDUCE, (7,)),)


def test_several_may_be_late_together() -> None:
    assert one_iteration([8.0, 1.0, 8.2, 1.1]).victims == (Victims((0, 2), ALL_REDUCE, (1, 3)),)


def test_all_that_arrive_together_wait_for_nobody() -> None:
    assert one_iteration([8.0, 8.1, 8.2, 7.9]).victims == ()


def test_a_wait_below_a_twentieth_of_the_iteration_is_none() -> None:
    assert one_iteration([1.5, 1.5, 0.6, 1.5]).victims == ()
    assert one_iteration([1.7, 1.7, 0.6, 1.7]).victims == (Victims((0, 1, 3), ALL_REDUCE, (2,)),)


def test_fewer_than_three_are_not_compared() -> None:
    assert one_iteration([8.0, 1.0]).victims == ()


def test_each_collective_has_its_own_latecomer_and_the_longest_wait_comes_first() -> None:
    spent = [(5.0, 9.0), (1.0, 9.0), (5.0, 2.0), (5.0, 9.0)]
    windows = [window(rank, {ALL_REDUCE: one, SEND: other}) for rank, (one, other) in enumerate(spent)]
    report = judge(windows, expected=4)
    assert report.victims == (Victims((0, 1, 3), SEND, (2,)), Victims((0, 2, 3), ALL_REDUCE, (1,)))


def test_only_ranks_of_one_group_are_compared() -> None:
    spent = [8.0, 8.0, 1.0, 9.0, 1.0, 1.1, 1.0, 1.0]
    windows = [window(rank, {ALL_REDUCE: ms}, group="tp0" if rank < 4 else "tp1") for rank, ms in enumerate(spent)]
    assert judge(windows, expected=8).victims == (Victims((0, 1, 3), ALL_REDUCE, (2,)),)


def test_two_iterations_are_judged_as_always() -> None:
    windows = [window(rank, {ALL_REDUCE: ms}, iterations=2) for rank, ms in enumerate([8.0, 8.0, 1.0, 8.0])]
    report = judge(windows, expected=4)
    assert report.victims == ()
    assert not any("one iteration" in note for note in report.notes)


def test_a_stopped_process_is_proof_even_then() -> None:
    windows = [window(rank, {ALL_REDUCE: ms}) for rank, ms in enumerate([8.0, 8.0, 1.0, 8.0])]
    stopped = WorkerWindow(
        windows[2].identity, 1, "manual", 0.02, 1, windows[2].patterns, stopped_seconds=0.01
    )  # fmt: skip
    report = judge([*windows[:2], stopped, windows[3]], expected=4)
    assert [(finding.cause, finding.ranks) for finding in report.findings] == [("process_stopped", (2,))]
