"""Many jobs on one localizer, two localizers on the same jobs, and the end: who waits for whom, what is the same."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eroica_otel import job as job_module
from eroica_otel import names
from eroica_otel.job import Localizer
from eroica_otel.joboptions import JobOptions, Judge
from eroica_otel.jobpolicy import JobRule, Policies
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.verdict import judge as real_judge
from eroica_otel.model import Point, Report, WorkerWindow
from factories_central import (
    LOOPBACK,
    WINDOW,
    identity,
    most_python,
    request,
    send,
    send_windows,
    status_points,
    windows,
)
from factories_localize import stuck

PATIENCE_SECONDS = 60.0
OF_THE_PROCESS = {names.LOCALIZER_DURATION.name, names.LOCALIZER_SUCCESS.name}
"""Series of a job that tell what this localizer did and when, beside those that are of no job."""

Make = Callable[..., "Station"]


class Station:
    """A localizer on a folder, with its verdicts; its clocks stand still, the monotonic one counts from ``boot``."""

    def __init__(self, state: Path, judge: Judge, boot: float = 0.0, **options: Any) -> None:
        self.now, self.verdicts, self.lines = 1000.0, list[Report](), list[str]()
        self.given = threading.Event()
        self.localizer = Localizer(
            replace(JobOptions(LOOPBACK, LOOPBACK, str(state)), **options),
            judge,
            progress=self.lines.append,
            verdict=self.take,
            clock=lambda: self.now - boot,
            wall=lambda: WINDOW + 2600.0 + self.now,
        )
        self._open = True
        self.localizer.start()

    def close(self) -> None:
        """End it, once."""
        if self._open:
            self._open = False
            self.localizer.close()

    def take(self, report: Report) -> None:
        self.verdicts.append(report)
        self.given.set()

    def deliver(self, given: Sequence[WorkerWindow], state: str = "degraded") -> None:
        send_windows(self.localizer.receiver.url, given, state)

    def series(self) -> set[tuple[str, tuple[tuple[str, str], ...], float]]:
        """Return the series of jobs on /metrics, each with its value."""
        shown = self.localizer.metrics.publication
        assert shown is not None
        return {_flat(point) for point in shown.points
                if "training_job" in point.labels and point.name not in OF_THE_PROCESS}  # fmt: skip


def _flat(point: Point) -> tuple[str, tuple[tuple[str, str], ...], float]:
    return point.name, tuple(sorted(point.labels.items())), point.value


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as stack:

        def made(name: str = "state", judge: Judge = real_judge, **options: Any) -> Station:
            station = Station(tmp_path / name, judge, **options)
            stack.callback(station.close)
            return station

        yield made


def of_job(name: str, given: Sequence[WorkerWindow]) -> list[WorkerWindow]:
    return [replace(one, identity=replace(one.identity, training_job=name)) for one in given]


class Slow:
    """A judge that does not end with one job before it is let go."""

    def __init__(self, job: str) -> None:
        self.job, self.go, self.began = job, threading.Event(), threading.Event()

    def __call__(self, windows: Sequence[WorkerWindow], reference: Any = (), *, expected: int, **known: Any) -> Report:
        if windows[0].identity.training_job == self.job:
            self.began.set()
            assert self.go.wait(PATIENCE_SECONDS)
        return most_python(windows, reference, expected=expected, **known)


def test_a_slow_job_holds_nobody_up_and_its_own_windows_stay_in_order(make: Make) -> None:
    slow, stop = Slow("slow"), threading.Event()
    station = make(judge=slow)
    rounds = threading.Thread(target=station.localizer.run, args=(stop,))
    for window_id in (WINDOW, WINDOW + 60):
        station.deliver(of_job("slow", windows([1], window_id=window_id)))
    rounds.start()
    assert slow.began.wait(PATIENCE_SECONDS)
    station.deliver(of_job("quick", windows([2])))
    assert station.given.wait(PATIENCE_SECONDS)
    assert [report.training_job for report in station.verdicts] == ["quick"]
    station.given.clear()
    slow.go.set()
    while len(station.verdicts) < 3:
        assert station.given.wait(PATIENCE_SECONDS)
        station.given.clear()
    stop.set()
    station.localizer.wake()
    rounds.join()
    assert [report.window_id for report in station.verdicts[1:]] == [WINDOW, WINDOW + 60]
    assert {item.ranks for item in station.localizer.open_findings()} == {(1,), (2,)}


def test_a_report_that_is_slow_to_write_holds_up_no_verdict(make: Make, tmp_path: Path) -> None:
    go, began, stop = threading.Event(), threading.Event(), threading.Event()

    def slowly(report: Report) -> str:
        if report.training_job == "slow":
            began.set()
            assert go.wait(PATIENCE_SECONDS)
        return report.training_job

    folder = tmp_path / "reports"
    folder.mkdir()
    station = make(judge=most_python, folder=str(folder), renderers={"txt": slowly})
    rounds = threading.Thread(target=station.localizer.run, args=(stop,))
    station.deliver(of_job("slow", windows([1])))
    rounds.start()
    assert began.wait(PATIENCE_SECONDS)
    station.deliver(of_job("quick", windows([2])))
    while len(station.verdicts) < 2:
        assert station.given.wait(PATIENCE_SECONDS)
        station.given.clear()
    assert [report.training_job for report in station.verdicts] == ["slow", "quick"]
    go.set()
    stop.set()
    station.localizer.wake()
    rounds.join()
    written = {path.parent.name: path.read_text() for path in folder.rglob("report.*") if path.parent != folder}
    assert written == {"slow": "slow", "quick": "quick"}
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["report.txt"]


def test_a_broken_job_costs_its_own_verdict_only(make: Make) -> None:
    def breaks(windows: Sequence[WorkerWindow], reference: Any = (), *, expected: int, **known: Any) -> Report:
        if windows[0].identity.training_job == "broken":
            raise ZeroDivisionError("no iterations")
        return most_python(windows, reference, expected=expected, **known)

    station = make(judge=breaks)
    station.deliver(of_job("broken", windows([1])))
    station.deliver(of_job("whole", windows([2])))
    station.localizer.round()
    assert [(report.training_job, len(report.findings)) for report in station.verdicts] == [("whole", 1)]


def test_the_end_judges_what_is_complete(make: Make) -> None:
    station, stop = make(judge=most_python), threading.Event()
    station.deliver(windows([2]))
    stop.set()
    station.localizer.run(stop)
    assert [report.findings[0].ranks for report in station.verdicts] == [(2,)]


def test_the_end_leaves_a_verdict_that_does_not_come_to_the_next_start(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "LAST_SECONDS", 0.0)
    slow, stop = Slow("llm-7b"), threading.Event()
    station = make(judge=slow)
    station.deliver(windows([2]))
    stop.set()
    station.localizer.run(stop)
    assert station.lines[-1] == "llm-7b: its window is still being judged; the next start judges it anew"
    station.close()
    assert station.verdicts == []
    second = make(judge=most_python)
    second.localizer.round()
    assert [(report.window_id, report.findings[0].ranks) for report in second.verdicts] == [(WINDOW, (2,))]
    slow.go.set()


def test_a_round_is_told_and_a_localizer_without_one_is_not_alive(make: Make) -> None:
    station = make()
    station.localizer.round()
    shown = station.localizer.metrics.publication
    assert shown is not None
    assert [point.value for point in shown.points if point.name == names.LOCALIZER_ROUND.name] == [WINDOW + 3600.0]
    station.now += job_module.STUCK_SECONDS - 1
    assert station.localizer.alive()
    station.now += 1
    assert not station.localizer.alive()
    station.localizer.round()
    assert station.localizer.alive()


def test_a_job_is_judged_by_its_own_thresholds_which_are_told(make: Make) -> None:
    rule = JobRule("tolerant-*", thresholds={"material_ratio": 1.0, "gap_ratio": 1.0, "drift_unknown_ratio": 1.0})
    station = make(policies=Policies(rules=(rule,)))
    for name in ("tolerant-1", "strict"):
        station.deliver(of_job(name, windows([2])))
    station.localizer.round()
    found = {report.training_job: [one.ranks for one in report.findings if one.severity != "info"]
             for report in station.verdicts}  # fmt: skip
    assert found == {"tolerant-1": [], "strict": [(2,)]}
    told = {(labels, value) for name, labels, value in station.series() if name == names.JOB_THRESHOLD.name}
    assert {(dict(labels)["training_job"], dict(labels)["threshold"], value) for labels, value in told} == {
        ("tolerant-1", name, 1.0) for name in rule.thresholds
    }
    note = "judged by thresholds of this job's own: drift_unknown_ratio = 1, gap_ratio = 1, material_ratio = 1"
    assert {report.training_job: note in report.notes for report in station.verdicts} == {
        "tolerant-1": True,
        "strict": False,
    }


def test_a_critical_finding_is_kept_by_the_threshold_of_its_job(make: Make) -> None:
    """A finding of 40 % was critical; at 30 % it still is, unless its job keeps it from 35 % only."""

    def falls(windows: Sequence[WorkerWindow], reference: Any = (), *, expected: int, **known: Any) -> Report:
        made = most_python(windows, reference, expected=expected, **known)
        if windows[0].window_id == WINDOW:
            return made
        return replace(made, findings=tuple(replace(f, severity="warning", impact_ratio=0.3) for f in made.findings))

    rule = JobRule("b", thresholds={"critical_kept_ratio": 0.35, "critical_ratio": 0.4})
    station = make(judge=falls, policies=Policies(Policy(), (rule,)))
    for name in ("a", "b"):
        for window_id in (WINDOW, WINDOW + 60):
            station.deliver(of_job(name, windows([2], window_id=window_id)))
            station.localizer.round()
    severities = {dict(labels)["training_job"]: dict(labels)["severity"]
                  for name, labels, _ in station.series() if name == names.IMPACT.name}  # fmt: skip
    assert severities == {"a": "critical", "b": "warning"}


PHASES = (
    [of_job(name, windows(reason="reference")) for name in "abc"],
    [of_job(name, windows([rank], window_id=WINDOW + 60)) for rank, name in enumerate("abc")],
)


def test_two_localizers_show_the_same_whatever_the_order_in_which_they_hear_of_it(make: Make) -> None:
    first, second = make("first"), make("second")
    for phase in PHASES:
        every = [one for given in phase for one in given]
        mixed = random.Random(6).sample(every, len(every))
        assert [one.identity for one in mixed] != [one.identity for one in every]
        first.deliver(every)
        second.deliver(mixed)
        for station in (first, second):
            station.localizer.round()
    assert {report.training_job for report in first.verdicts} == {"a", "b", "c"}
    assert {name for name, _, _ in first.series()} >= {
        names.IMPACT.name,
        names.VICTIMS.name,
        names.FUNCTION_MEDIAN.name,
    }
    assert first.series() == second.series()


def test_a_localizer_that_heard_late_of_a_rank_shows_the_same_in_the_end(make: Make) -> None:
    first, second = make("first"), make("second")
    for station in (first, second):
        station.deliver(windows(reason="reference"))
        station.localizer.round()
    given = windows([2], window_id=WINDOW + 60)
    first.deliver(given)
    first.localizer.round()
    second.deliver([one for one in given if one.identity.rank != 2])
    for station in (first, second):
        station.now += 15
        station.localizer.round()
    assert first.series() != second.series()
    second.deliver(given[2:3])
    second.localizer.round()
    assert first.series() == second.series()


def test_a_hang_has_the_same_window_for_both_whoever_reported_it_first(make: Make) -> None:
    first, second = make("first"), make("second")
    hung = [stuck(rank, identity=identity(rank), window_id=WINDOW + 7 * rank) for rank in range(4)]
    first.deliver(hung, "blocked")
    second.deliver(hung[::-1], "blocked")
    for station in (first, second):
        station.localizer.round()
    assert [report.window_id for report in first.verdicts] == [WINDOW + 21]
    assert first.series() == second.series()


def test_a_finding_ends_when_all_looks_of_two_minutes_found_the_job_healthy_whatever_process_looked(
    make: Make,
) -> None:
    """As by cron: each look is a process of its own, with a clock of its own."""
    station = make(judge=most_python)
    station.deliver(windows([2]))
    station.localizer.round()
    now = station.now
    for later, open_ in ((0.0, 1), (100.0, 1), (20.0, 0)):
        station.close()
        now += later
        station = make(judge=most_python, boot=now - 700.0)
        station.now = now
        for rank in range(4):
            body = request(status_points(identity(rank), "healthy")).SerializeToString()
            assert send(station.localizer.receiver.url, body)[0] == 200
        station.localizer.round()
        assert len(station.localizer.open_findings()) == open_
