"""The verdict on dumps of flight recorders: who is missing, who is ahead, which collective differs, from where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.localize.hangflight import judge_flights
from eroica_otel.localize.presence import Presence
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Finding, Report
from eroica_otel.offline.flights import read_flights
from flight_files import GOLDEN, STACK, dump, entry, frame, transfer, write


def verdict(folder: Path) -> Report:
    flights = read_flights(folder)
    return judge_flights(flights.run.windows, flights.calls, expected=flights.run.expected)


def only(report: Report) -> Finding:
    (found,) = report.findings
    return found


def told(report: Report) -> tuple[str, tuple[int, ...], str]:
    found = only(report)
    return found.cause, found.ranks, found.confidence


def waits(number: int = 5, name: str = "nccl:all_reduce", **changes: Any) -> dict[str, Any]:
    """Return the dump of a rank that waits in a collective, and has seen the one before it complete."""
    return dump(entry(number - 1, done=True), entry(number, name, **changes))


GONE = dump(entry(4, done=True))
"""A rank that has entered nothing since."""


def test_the_ranks_that_hold_the_lock_of_the_interpreter_in_a_real_job() -> None:
    """fault_injection.log: LOCK_GIL on ranks 9 and 14."""
    report = verdict(GOLDEN / "lock_gil_1st")
    assert told(report) == ("hang_missing_rank", (9, 14), "high")
    assert (report.workers_seen, report.workers_expected, report.missing_ranks) == (16, 16, ())
    group = "process group 'EXPERT_MODEL_PARALLEL_GROUP (72)'"
    assert only(report).evidence[:2] == (
        f"is behind in {group}: it has entered 45,264 collectives, ranks 8, 10, 11, 12, 13, 15 have entered 45,267 and "
        "wait",
        "what it has not entered is number 45,265, all_to_all",
    )
    assert only(report).advice.startswith("find out where this rank stands")
    (victims,) = report.victims
    assert victims.ranks == (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 15)
    assert victims.waits_for == (9, 14)
    assert any(f"{group}: ranks 8, 10, 11, 12, 13, 15 have entered 45,267 and seen 45,264" in n for n in report.notes)


def test_the_ranks_whose_gpu_failed_in_a_real_job() -> None:
    """fault_injection.log: GPU_ERROR on ranks 12 and 14."""
    report = verdict(GOLDEN / "gpu_error_1st")
    assert told(report) == ("hang_missing_rank", (12, 14), "high")
    found = only(report)
    assert (
        "(all_to_all) of process group 'EXPERT_MODEL_PARALLEL_GROUP (74)' has completed on ranks 13, 15, not on "
        in (found.evidence[0])
    )
    assert "Xid" in found.advice
    assert found.function == ""
    assert report.victims[0].ranks == (*range(12), 13, 15)


@pytest.mark.parametrize(("injected", "behind"), [("lock_gil_1st", (9, 14)), ("gpu_error_1st", (12,))])
def test_numbers_alone_as_a_live_window_has_them_name_who_is_behind(injected: str, behind: tuple[int, ...]) -> None:
    """Rank 14 of the second job is behind nowhere: only the kind of a collective tells that it is held up."""
    windows = [replace(window, patterns=()) for window in read_flights(GOLDEN / injected).run.windows]
    report = judge(windows, expected=16, presence={rank: Presence("blocked", 2.0) for rank in range(16)})
    assert told(report) == ("hang_missing_rank", behind, "high")


def test_a_rank_that_is_missing_and_from_where_the_others_wait(tmp_path: Path) -> None:
    last = dump(entry(4, done=True, frames=[frame("barrier", "/job/data.py", 9)]))
    report = verdict(write(tmp_path, [waits(frames=STACK), waits(frames=STACK), last, waits(frames=STACK)]))
    assert told(report) == ("hang_missing_rank", (2,), "high")
    assert only(report).evidence == (
        "is behind in process group '0': it has entered 4 collectives, ranks 0, 1, 3 have entered 5 and wait",
        "what it has not entered is number 5, all_reduce",
        "its last collective was called in barrier (data.py:9)",
        "ranks 0, 1, 3 wait in step (train.py:41)",
    )
    assert report.victims[0].function == "step (train.py:41)"
    assert only(report).stack == ("data:barrier:9",)
    assert "where it stands: ranks 0, 1, 3 in all_reduce 5 of process group '0', called in step (train.py:41)" in (
        report.notes
    )


def test_most_are_behind_one_that_may_have_called_one_too_many(tmp_path: Path) -> None:
    report = verdict(write(tmp_path, [waits(), GONE, GONE, GONE]))
    assert told(report) == ("hang_missing_rank", (1, 2, 3), "low")
    assert "or rank 0 entered one too many: it is ahead" in only(report).evidence


@pytest.mark.parametrize(
    ("other", "here", "there"),
    [
        (entry(5, "nccl:broadcast"), "broadcast", "all_reduce"),
        (entry(5, input_sizes=[[9]]), "all_reduce of 9 values (Float)", "all_reduce of 8 values (Float)"),
        (entry(5, input_dtypes=["Half"]), "all_reduce of 8 values (Half)", "all_reduce of 8 values (Float)"),
    ],
)
def test_a_collective_that_is_another_one_on_one_rank(
    tmp_path: Path, other: dict[str, Any], here: str, there: str
) -> None:
    wrong = dump(entry(4, done=True), other | {"frames": STACK})
    report = verdict(write(tmp_path, [waits(), waits(), wrong, waits()]))
    assert told(report) == ("hang_missing_rank", (2,), "low")
    assert only(report).evidence[:2] == (
        f"collective 5 of process group '0' is {here} on rank 2 and {there} on ranks 0, 1, 3: these never meet",
        "the collective that it waits in was called in step (train.py:41)",
    )


def test_one_rank_with_a_collective_more_than_the_others_is_the_wrong_one(tmp_path: Path) -> None:
    """Its all_reduce is number 6; blamed by counts alone, the three that are behind would be it."""
    more = dump(entry(4, done=True), entry(5, "nccl:barrier", input_sizes=[]), entry(6))
    report = verdict(write(tmp_path, [waits(), more, waits(), waits()]))
    assert told(report) == ("hang_missing_rank", (1,), "low")


def test_of_two_ranks_that_differ_nobody_is_named(tmp_path: Path) -> None:
    report = verdict(write(tmp_path, [waits(), waits(name="nccl:broadcast")]))
    assert report.findings == ()
    assert report.notes[0] == (
        "not enough evidence: collective 5 of process group '0' is all_reduce on rank 0, broadcast on rank 1; either "
        "side may be the wrong one"
    )


def test_uneven_sizes_are_no_difference_where_they_may_be(tmp_path: Path) -> None:
    sizes = [dump(entry(5, "nccl:all_to_all", input_sizes=[[at + 1]])) for at in range(4)]
    shapes = [waits(input_sizes=[[8]]), waits(input_sizes=[[2, 4]]), waits(), waits()]
    for name, dumps in (("sizes", sizes), ("shapes", shapes)):
        report = verdict(write(tmp_path / name, dumps))
        assert report.findings == ()
        assert report.notes[0].startswith("not enough evidence: all 4 ranks wait in nccl:all_")
        assert "entered by all and completed by none: look at the network" in report.notes[0]


def test_who_alone_does_not_get_through_what_others_got_through(tmp_path: Path) -> None:
    through = dump(entry(5, done=True), entry(6))
    report = verdict(write(tmp_path, [through, through, dump(entry(5, frames=STACK), entry(6)), through]))
    assert "the collective that it waits in was called in step (train.py:41)" in only(report).evidence
    assert told(report) == ("hang_missing_rank", (2,), "high")
    assert only(report).evidence[0] == (
        "collective 5 (all_reduce) of process group '0' has completed on ranks 0, 1, 3, not on rank 2, which has "
        "entered it"
    )


def test_a_broadcast_that_has_ended_on_its_root_proves_nothing(tmp_path: Path) -> None:
    root = dump(entry(5, "nccl:broadcast", done=True), entry(6))
    others = dump(entry(5, "nccl:broadcast"), entry(6))
    assert verdict(write(tmp_path, [root, others, others, others])).findings == ()


def test_who_has_not_begun_its_side_of_a_transfer(tmp_path: Path) -> None:
    """A pipeline: rank 3 waits for 2, which waits for 1, which does nothing."""
    dumps = [GONE, GONE, dump(transfer("nccl:recv 2<-1")), dump(transfer("nccl:recv 3<-2"))]
    report = verdict(write(tmp_path, dumps))
    assert told(report) == ("hang_missing_rank", (1,), "high")
    assert only(report).evidence[0] == (
        "has not begun to send to rank 2, which waits for it (a transfer in process group '0')"
    )


def test_a_transfer_that_both_sides_have_begun_blames_neither(tmp_path: Path) -> None:
    dumps = [dump(transfer("nccl:send 0->1")), dump(transfer("nccl:recv 1<-0"))]
    assert verdict(write(tmp_path, dumps)).findings == ()


def test_numbers_of_transfers_are_not_taken_for_collectives(tmp_path: Path) -> None:
    """The status of rank 0 says 900, its transfers; the others have entered as many collectives as it has."""
    status = {"0": {"last_enqueued_collective": 900, "last_started_collective": -1, "last_completed_collective": 899}}
    first = dump(entry(4, done=True), transfer("nccl:send 0->1", 4, done=True), pg_status=status)
    report = verdict(write(tmp_path, [first, GONE, GONE, waits()]))
    assert told(report)[1] == (0, 1, 2)


def test_a_rank_without_a_dump(tmp_path: Path) -> None:
    report = verdict(write(tmp_path, {0: waits(), 1: waits(), 3: waits()}))
    assert (report.missing_ranks, told(report)) == ((2,), ("hang_missing_rank", (2,), "low"))
    assert only(report).evidence == (
        "there is no dump of rank 2, while all ranks with one wait", "ranks 0, 1, 3 wait in nccl:all_reduce",
    )  # fmt: skip


def test_a_rank_that_is_behind_counts_more_than_one_without_a_dump(tmp_path: Path) -> None:
    report = verdict(write(tmp_path, {0: waits(), 1: GONE, 3: waits()}))
    assert (report.missing_ranks, told(report)[1:]) == ((2,), ((1,), "high"))


def test_dumps_in_which_everything_has_ended_show_no_hang(tmp_path: Path) -> None:
    report = verdict(write(tmp_path, [GONE] * 4))
    assert report.findings == ()
    assert report.notes == ("not enough evidence: every collective in these dumps has ended on every rank",)


def test_a_save_that_was_waited_in_is_a_hang_and_no_pause(tmp_path: Path) -> None:
    """Torch waited for its time-out, which no pause takes."""
    stack = [*STACK[:1], frame("save", "/usr/lib/python3/site-packages/torch/serialization.py", 9), *STACK[1:]]
    report = verdict(write(tmp_path, [waits(frames=stack), GONE, waits(frames=stack), waits(frames=stack)]))
    assert told(report)[1:] == ((1,), "high")
