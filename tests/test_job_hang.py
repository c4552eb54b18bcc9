"""Hangs through the whole localizer: what comes when, which clock it carries, what is said and when it ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.job import Localizer
from eroica_otel.joboptions import JobOptions
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Report, WorkerWindow
from eroica_otel.publish.series import OpenFinding
from factories_central import LOOPBACK, WINDOW, identity, request, send, send_windows, status_points, windows
from factories_localize import IN_AUGMENT, IN_SAVE, stuck

HOUR = 3600


class Ward:
    """A localizer whose clock stands still, with the verdicts it gave."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.now, self.verdicts = 1000.0, list[Report]()
        self._folder, self._stack = folder, stack
        self.localizer = self._start()

    def _start(self) -> Localizer:
        options = JobOptions(LOOPBACK, LOOPBACK, str(self._folder))
        made = Localizer(
            options, judge, progress=lambda line: None, verdict=self.verdicts.append, clock=lambda: self.now,
            wall=lambda: WINDOW + 2.0 * HOUR,
        )  # fmt: skip
        self._stack.callback(made.close)
        made.start()
        return made

    def restart(self) -> None:
        """End the localizer as far as the next one can see it, and start the next."""
        self.localizer.close()
        self._stack.pop_all()
        self.localizer = self._start()

    def report(self, *given: WorkerWindow, state: str = "blocked") -> None:
        """Deliver windows, each beside the state of its worker."""
        send_windows(self.localizer.receiver.url, given, state)
        self.localizer.round()

    def live(self, state: str, *ranks: int, run_id: str = "run-1", world: int = 4) -> None:
        """Deliver what ranks show outside windows."""
        for rank in ranks:
            who = identity(rank, run_id=run_id, world_size=world)
            body = request(status_points(who, state)).SerializeToString()
            assert send(self.localizer.receiver.url, body)[0] == 200
        self.localizer.round()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.localizer.round()

    @property
    def open(self) -> tuple[OpenFinding, ...]:
        return tuple(item for record in self.localizer._records.values() for item in record.life.open)

    def causes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return causes and ranks of the latest verdict."""
        return [(finding.cause, finding.ranks) for finding in self.verdicts[-1].findings]


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[Ward]:
    with ExitStack() as stack:
        yield Ward(tmp_path / "state", stack)


def hung(rank: int, *stack: tuple[str, ...], run_id: str = "run-1", world: int = 4, **changes: Any) -> WorkerWindow:
    who = identity(rank, run_id=run_id, world_size=world)
    given: dict[str, Any] = {"identity": who, "window_id": WINDOW}
    return stuck(rank, *stack, **given | changes)


def everyone(culprit: int = 2, **changes: Any) -> list[WorkerWindow]:
    return [hung(rank, *((IN_AUGMENT,) if rank == culprit else ()), **changes) for rank in range(4)]


def test_a_complete_blocked_window_is_judged_at_once(ward: Ward) -> None:
    ward.report(*everyone())
    assert ward.causes() == [("hang_in_python", (2,))]
    assert [item.finding.impact_ratio for item in ward.open] == [1.0]
    assert len(ward.verdicts) == 1


@pytest.mark.parametrize("skew", [0, 40, HOUR, -HOUR])
def test_a_frozen_rank_that_opened_a_window_of_its_own_is_of_the_same_hang_whatever_its_clock_says(
    ward: Ward, skew: int
) -> None:
    ward.report(*[hung(rank) for rank in (0, 1, 3)])
    ward.wait(10)
    ward.report(hung(2, stopped_seconds=9.0, window_id=WINDOW + skew))
    ward.report(hung(2, stopped_seconds=9.0, window_id=WINDOW + skew))
    (report,) = ward.verdicts
    assert (report.workers_seen, report.window_id) == (4, max(WINDOW, WINDOW + skew))
    assert ward.causes() == [("process_stopped", (2,))]


def test_each_rank_has_opened_its_own(ward: Ward) -> None:
    ward.report(*[replace(window, window_id=WINDOW + 7 * window.identity.rank) for window in everyone()])
    (report,) = ward.verdicts
    assert report.workers_seen == 4


def test_a_second_hang_is_another_window(ward: Ward) -> None:
    ward.report(*everyone())
    ward.wait(30)
    ward.report(*everyone(1, window_id=WINDOW + 30))
    assert ward.causes() == [("hang_in_python", (1,))]
    assert [item.finding.ranks for item in ward.open] == [(1,)]
    assert len(ward.verdicts) == 2


def test_a_dead_rank_is_named_when_it_has_been_silent_for_a_minute(ward: Ward) -> None:
    ward.live("healthy", 0, 1, 2, 3)
    ward.wait(20)
    ward.report(*[hung(rank) for rank in (0, 1, 2)])
    for _ in range(3):
        ward.wait(10)
        ward.live("blocked", 0, 1, 2)
    assert ward.verdicts == []
    ward.wait(9)
    assert ward.verdicts == []
    ward.wait(1)
    assert ward.causes() == [("hang_missing_rank", (3,))]
    assert ward.verdicts[-1].missing_ranks == (3,)
    assert [(who.rank, who.host) for who in ward.open[0].workers] == [(3, "host-1")]


def test_a_rank_that_lives_but_does_not_report_is_waited_for_and_may_come_late(ward: Ward) -> None:
    ward.live("healthy", 0, 1, 2, 3)
    ward.report(*[hung(rank) for rank in (0, 1, 3)])
    for _ in range(2):
        ward.wait(10)
        ward.live("blocked", 0, 1, 2, 3)
    ward.wait(5)
    assert ward.verdicts[-1].findings == ()
    assert ward.verdicts[-1].notes[0].startswith("not enough evidence")
    ward.report(hung(2, IN_AUGMENT))
    assert ward.causes() == [("hang_in_python", (2,))]
    assert ward.verdicts[-1].notes[-1] == "judged again: rank 2 came after the first verdict"


def test_who_comes_after_all_is_over_opens_no_verdict_of_its_own(ward: Ward) -> None:
    ward.report(*everyone())
    ward.wait(30)
    lonely = replace(hung(2, stopped_seconds=9.0), identity=identity(4, world_size=4), window_id=WINDOW + 9)
    ward.report(lonely)
    ward.wait(600)
    assert len(ward.verdicts) == 1


def test_a_worker_that_claims_an_enormous_world_hangs_alone(ward: Ward) -> None:
    world = 2**20
    ward.report(hung(0, world=world))
    for _ in range(4):
        ward.wait(10)
        ward.live("blocked", 0, world=world)
    (report,) = ward.verdicts
    assert report.findings == ()
    assert report.notes[0].startswith("not enough evidence: rank 0 waits")


def test_a_pause_names_nobody(ward: Ward) -> None:
    ward.live("paused", 0)
    ward.report(*[hung(rank) for rank in (1, 2, 3)])
    ward.report(hung(0, IN_SAVE), state="paused")
    (report,) = ward.verdicts
    assert report.notes[0] == "rank 0 saves a checkpoint (torch.serialization:save); the others wait for it"
    assert ward.open == ()


def test_a_hang_ends_two_minutes_after_the_job_goes_on(ward: Ward) -> None:
    ward.report(*everyone())
    for seconds in (1, 40, 40, 39):
        ward.wait(seconds)
        ward.live("healthy", 0, 1, 2, 3)
        assert ward.open
    ward.wait(1)
    assert ward.open == ()


def test_a_hang_ends_at_once_when_the_job_ended(ward: Ward) -> None:
    ward.report(*everyone())
    ward.live("finished", 0, 1, 2, 3)
    assert ward.open == ()


def test_a_frozen_trainer_whose_state_is_withheld_does_not_end_its_hang(ward: Ward) -> None:
    ward.live("healthy", 0, world=1)
    ward.report(hung(0, stopped_seconds=9.0, world=1), state="")
    assert ward.causes() == [("process_stopped", (0,))]
    ward.live("", 0, world=1)
    for _ in range(5):
        ward.wait(50)
        ward.live("", 0, world=1)
    assert ward.open


def test_a_hang_survives_a_restart_of_the_localizer_and_is_not_judged_again(ward: Ward) -> None:
    ward.report(*[hung(rank) for rank in (0, 1, 3)], hung(2, stopped_seconds=9.0, window_id=WINDOW + HOUR))
    ward.restart()
    ward.report(*[hung(rank) for rank in (0, 1, 3)], hung(2, stopped_seconds=9.0, window_id=WINDOW + HOUR))
    ward.wait(100)
    assert [item.finding.cause for item in ward.open] == ["process_stopped"]
    assert len(ward.verdicts) == 1


def ordinary(skew: int, reason: str, slow: Sequence[int] = ()) -> list[WorkerWindow]:
    return windows(slow=slow, window_id=WINDOW + skew, reason=reason)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_windows_of_deciders_an_hour_apart_are_ordered_by_arrival(ward: Ward, ahead: int) -> None:
    ward.report(*ordinary(ahead, "degraded", slow=[1]))
    assert [item.finding.ranks for item in ward.open] == [(1,)]
    ward.wait(60)
    ward.report(*ordinary(60, "manual"))
    assert ward.open == ()
    assert [report.window_id for report in ward.verdicts] == [WINDOW + ahead, WINDOW + 60]


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_a_hang_of_a_decider_an_hour_apart_opens_and_ends_as_any_other(ward: Ward, ahead: int) -> None:
    ward.report(*ordinary(0, "manual"))
    ward.wait(60)
    ward.report(*everyone(window_id=WINDOW + ahead))
    assert [item.finding.cause for item in ward.open] == ["hang_in_python"]
    ward.wait(60)
    ward.report(*ordinary(120, "manual"))
    assert ward.open == ()


@pytest.mark.parametrize(("skew", "told"), [(HOUR, "1.0 h"), (-HOUR, "1.0 h"), (-300, "5 min"), (100, ""), (0, "")])
def test_a_clock_that_is_far_from_the_others_is_told_and_names_nobody(ward: Ward, skew: int, told: str) -> None:
    given = ordinary(0, "manual")
    end = given[3].end_timestamp_seconds + skew
    ward.report(*given[:3], replace(given[3], end_timestamp_seconds=end, identity=identity(3, host="far")))
    (report,) = ward.verdicts
    assert report.findings == ()
    notes = [note for note in report.notes if note.startswith("the clock of far is up to")]
    assert [told in note for note in notes] == ([True] if told else [])


def test_an_old_window_that_is_judged_late_changes_nothing(ward: Ward) -> None:
    ward.report(*ordinary(HOUR, "manual")[:3])
    ward.wait(5)
    ward.report(*everyone())
    ward.wait(20)
    assert [report.reason for report in ward.verdicts] == ["blocked", "manual"]
    assert [item.finding.cause for item in ward.open] == ["hang_in_python"]


def test_two_jobs_of_one_name_of_which_one_hangs(ward: Ward) -> None:
    for _ in range(3):
        ward.live("blocked", 0, 1, 2, 3)
        ward.live("healthy", 0, 1, run_id="run-2", world=2)
    ward.report(*everyone(1))
    (report,) = ward.verdicts
    assert report.findings == ()
    assert [note for note in report.notes if "rank 1 is reported by 2 live processes" in note]


def test_all_ranks_of_two_jobs_of_one_name_are_left_out(ward: Ward) -> None:
    for _ in range(3):
        ward.live("blocked", 0, 1, 2, 3)
        ward.live("healthy", 0, 1, 2, 3, run_id="run-2")
    ward.report(*everyone())
    assert ward.verdicts[-1].notes[0].startswith("cannot be judged: 2 trainings deliver under the name")
    assert ward.open == ()


def test_the_health_of_another_job_of_the_same_name_does_not_end_a_hang(ward: Ward) -> None:
    ward.report(*everyone())
    for _ in range(20):
        ward.wait(10)
        ward.live("blocked", 0, 1, 2, 3)
        ward.live("healthy", 0, 1, 2, 3, run_id="run-2")
    assert ward.open


def test_hangs_of_two_runs_are_not_one(ward: Ward) -> None:
    ward.report(*[hung(rank) for rank in (0, 1)])
    ward.report(*[hung(rank, run_id="run-2", window_id=WINDOW + 5) for rank in (2, 3)])
    ward.wait(61)
    assert [report.workers_seen for report in ward.verdicts] == [2, 2]


def test_a_reference_in_which_nothing_moved_is_kept_by_nobody(ward: Ward) -> None:
    still = [replace(window, iterations=0) for window in ordinary(0, "reference")]
    ward.report(*still)
    ward.wait(1)
    ward.report(*ordinary(60, "manual"))
    seen = ward.verdicts[-1].detail
    assert seen is not None
    assert math.isnan(seen.reference_iteration_seconds)


def test_a_blocked_window_is_no_reference_and_no_history_of_a_fault(ward: Ward) -> None:
    ward.report(*everyone())
    ward.wait(1)
    ward.report(*ordinary(60, "degraded", slow=[1]))
    assert "reference" not in " ".join(ward.verdicts[-1].findings[0].evidence)
    assert ward.verdicts[-1].findings[0].persistence == "once"
