from __future__ import annotations

import json
import logging
import resource
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from eroica_otel import names
from eroica_otel.errors import ConfigError, DeliveryError
from eroica_otel.job import Localizer
from eroica_otel.jobfaults import STAGES
from eroica_otel.joboptions import JobOptions, Judge
from eroica_otel.localize.verdict import judge as real_judge
from eroica_otel.model import Report
from eroica_otel.publish.report import json as report_json
from eroica_otel.webserver import Address
from factories_central import (
    LOOPBACK,
    WINDOW,
    collect,
    fetch,
    identity,
    most_python,
    request,
    send,
    send_windows,
    status_points,
    windows,
)


class Clock:
    """Time that stands still until it is told to pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """Localizers on one state folder, with everything they said."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.clock = folder, Clock()
        self.lines: list[str] = []
        self.verdicts: list[Report] = []
        self._stack = stack

    def localizer(self, judge: Judge = most_python, *, started: bool = True, **options: Any) -> Localizer:
        given = JobOptions(LOOPBACK, LOOPBACK, str(self.folder), renderers={"json": report_json.render})
        made = Localizer(
            replace(given, **options),
            judge,
            progress=self.lines.append,
            verdict=self.verdicts.append,
            clock=self.clock,
            wall=lambda: 1_764_430_100.0,
        )
        self._stack.callback(made.close)
        if started:
            made.start()
        return made

    def restart(self, old: Localizer, judge: Judge = most_python) -> Localizer:
        """End a localizer as far as the next one can see it, and start the next."""
        old.receiver.stop()
        old.metrics.stop()
        old._folder.close()
        self._stack.pop_all()
        return self.localizer(judge)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(tmp_path / "state", stack)


def scrape(localizer: Localizer) -> dict[str, list[tuple[Mapping[str, str], float]]]:
    status, body = fetch(f"{localizer.metrics.url}/metrics")
    assert status == 200
    series: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            series.setdefault(sample.name, []).append((sample.labels, sample.value))
    return series


def value(localizer: Localizer, metric: names.Metric, **labels: str) -> float:
    found = [number for given, number in scrape(localizer)[metric.name] if labels.items() <= given.items()]
    assert len(found) == 1
    return found[0]


def states(localizer: Localizer, state: str, size: int = 4) -> None:
    for rank in range(size):
        assert send(localizer.receiver.url, request(status_points(identity(rank), state)).SerializeToString())[0] == 200


def test_a_window_is_judged_when_all_have_delivered_and_only_once(bench: Bench) -> None:
    localizer = bench.localizer()
    given = windows(slow=[2])
    send_windows(localizer.receiver.url, given[:3])
    localizer.round()
    assert bench.verdicts == []
    assert bench.lines[-1] == f"window {WINDOW} of llm-7b (degraded): patterns from 3 of 4 workers"
    send_windows(localizer.receiver.url, given[3:])
    localizer.round()
    localizer.round()
    (report,) = bench.verdicts
    assert [finding.ranks for finding in report.findings] == [(2,)]
    assert value(localizer, names.ANOMALIES, training_job="llm-7b", team="vision") == 1
    assert value(localizer, names.IMPACT, rank="2", host="host-1") == 0.4
    assert value(localizer, names.VICTIMS) == 3
    assert value(localizer, names.LOCALIZER_WINDOW, reason="degraded") == WINDOW


def test_every_scraped_name_and_label_is_that_of_names_py(bench: Bench) -> None:
    localizer = bench.localizer(real_judge, thresholds={"material": 0.05})
    send_windows(localizer.receiver.url, windows(slow=[2]))
    localizer.round()
    for name, samples in scrape(localizer).items():
        for labels, _ in samples:
            assert sorted(labels) == sorted(names.BY_NAME[name].labels), name


def test_missing_workers_are_named_after_the_wait(bench: Bench) -> None:
    localizer = bench.localizer()
    send_windows(localizer.receiver.url, windows(slow=[2])[:3])
    bench.clock.now += 14
    localizer.round()
    assert bench.verdicts == []
    bench.clock.now += 1
    localizer.round()
    assert bench.verdicts[0].missing_ranks == (3,)
    assert value(localizer, names.LOCALIZER_SEEN) == 3
    assert value(localizer, names.LOCALIZER_EXPECTED) == 4


def judged_without_3(bench: Bench, slow: list[int], judge: Judge = most_python) -> Localizer:
    """Return a localizer that has judged a window of which rank 3 is missing."""
    localizer = bench.localizer(judge)
    send_windows(localizer.receiver.url, windows(slow)[:3])
    bench.clock.now += 15
    localizer.round()
    assert [report.missing_ranks for report in bench.verdicts] == [(3,)]
    return localizer


def test_a_late_worker_brings_a_second_verdict_that_replaces_the_first(bench: Bench) -> None:
    localizer = judged_without_3(bench, [3])
    assert localizer.open_findings() == ()
    bench.clock.now += 59
    send_windows(localizer.receiver.url, windows([3])[3:])
    for _ in range(3):
        localizer.round()
    first, second = bench.verdicts
    assert [item.ranks for item in second.findings] == [item.ranks for item in localizer.open_findings()] == [(3,)]
    assert second.notes == (*first.notes, "judged again: rank 3 came after the first verdict")
    assert (second.missing_ranks, value(localizer, names.LOCALIZER_SEEN)) == ((), 4)
    assert value(localizer, names.LOCALIZER_REJUDGED) == 1


def test_a_finding_of_the_first_verdict_that_the_second_does_not_make_is_gone(bench: Bench) -> None:
    def only_when_incomplete(windows: Any, reference: Any = (), *, expected: int, **known: Any) -> Report:
        made = most_python(windows, reference, expected=expected, **known)
        return made if made.missing_ranks else replace(made, findings=(), victims=())

    localizer = judged_without_3(bench, [1], only_when_incomplete)
    assert [item.ranks for item in localizer.open_findings()] == [(1,)]
    send_windows(localizer.receiver.url, windows([1])[3:])
    localizer.round()
    assert localizer.open_findings() == ()
    assert value(localizer, names.ANOMALIES) == 0


def test_a_worker_that_is_later_than_a_minute_changes_nothing(bench: Bench) -> None:
    localizer = judged_without_3(bench, [3])
    bench.clock.now += 60
    localizer.round()
    send_windows(localizer.receiver.url, windows([3])[3:])
    localizer.round()
    assert len(bench.verdicts) == 1
    assert value(localizer, names.LOCALIZER_REJUDGED) == 0


def test_of_several_late_workers_those_of_one_minute_count(bench: Bench) -> None:
    localizer = bench.localizer()
    send_windows(localizer.receiver.url, windows([3])[:2])
    bench.clock.now += 15
    localizer.round()
    send_windows(localizer.receiver.url, windows([3])[3:])
    localizer.round()
    assert len(bench.verdicts) == 1
    bench.clock.now += 60
    localizer.round()
    send_windows(localizer.receiver.url, windows([3])[2:3])
    localizer.round()
    assert [report.missing_ranks for report in bench.verdicts] == [(2, 3), (2,)]


def test_a_late_worker_does_not_replace_a_newer_verdict(bench: Bench) -> None:
    localizer = judged_without_3(bench, [])
    send_windows(localizer.receiver.url, windows([2], window_id=WINDOW + 60))
    localizer.round()
    send_windows(localizer.receiver.url, windows([3])[3:])
    localizer.round()
    assert [report.window_id for report in bench.verdicts] == [WINDOW, WINDOW + 60]
    assert [item.ranks for item in localizer.open_findings()] == [(2,)]


def test_the_reference_is_judged_kept_and_given_to_later_windows(bench: Bench) -> None:
    localizer = bench.localizer()
    for window_id, reason in ((WINDOW, "reference"), (WINDOW + 60, "degraded"), (WINDOW + 120, "reference")):
        send_windows(localizer.receiver.url, windows(window_id=window_id, reason=reason))
        localizer.round()
    assert [report.notes for report in bench.verdicts] == [
        ("0 reference workers", "0 earlier verdicts"),
        ("4 reference workers", "1 earlier verdicts"),
        ("4 reference workers", "2 earlier verdicts"),
    ]


def test_a_restarted_job_finds_its_reference_after_a_restart_of_ours(bench: Bench) -> None:
    localizer = bench.localizer()
    send_windows(localizer.receiver.url, windows(reason="reference"))
    localizer.round()
    localizer = bench.restart(localizer)
    second_run = [
        replace(item, identity=replace(item.identity, run_id="run-2")) for item in windows(window_id=WINDOW + 9)
    ]
    send_windows(localizer.receiver.url, second_run)
    localizer.round()
    assert bench.verdicts[-1].notes[0] == "4 reference workers"


def test_two_jobs_at_once(bench: Bench) -> None:
    localizer = bench.localizer()
    other = [replace(item, identity=replace(item.identity, training_job="other", team="")) for item in windows()]
    mixed = [item for pair in zip(windows(slow=[1]), other, strict=True) for item in pair]
    send_windows(localizer.receiver.url, mixed)
    localizer.round()
    assert {report.training_job: len(report.findings) for report in bench.verdicts} == {"llm-7b": 1, "other": 0}
    assert value(localizer, names.ANOMALIES, training_job="llm-7b") == 1
    assert value(localizer, names.ANOMALIES, training_job="other", team="") == 0


def test_a_rank_with_a_double_is_counted_named_and_not_judged(bench: Bench) -> None:
    localizer = bench.localizer()
    send_windows(localizer.receiver.url, windows(slow=[3])[:3])
    for run_id in ("run-1", "run-2", "run-1"):
        who = identity(3, run_id=run_id)
        send_windows(localizer.receiver.url, [replace(windows(slow=[3])[3], identity=who)])
    localizer.round()
    (report,) = bench.verdicts
    assert report.findings == ()
    assert report.missing_ranks == (3,)
    assert "rank 3 is reported by 2 live processes (host-1 run run-1, host-1 run run-2)" in report.notes[-1]
    assert value(localizer, names.DUPLICATES) == 2


def test_two_trainings_of_one_name_are_told_with_the_remedy_and_are_no_failure_of_ours(bench: Bench) -> None:
    localizer = bench.localizer(real_judge)
    for run_id in ("run-1", "run-2", "run-1", "run-2"):
        who = [identity(rank, run_id=run_id) for rank in range(4)]
        send_windows(
            localizer.receiver.url, [replace(item, identity=who[item.identity.rank]) for item in windows(slow=[3])]
        )
    localizer.round()
    (report,) = bench.verdicts
    told = (
        "2 trainings deliver under the name 'llm-7b', so all of its ranks are left out (rank 0: host-0 run run-1 and "
        "host-0 run run-2); give each training a name of its own, EROICA_TRAINING_JOB=NAME, or stop the one that is "
        "not wanted"
    )
    assert report.notes == (f"cannot be judged: {told}",)
    assert (report.training_job, report.window_id, report.workers_seen, report.findings) == ("llm-7b", WINDOW, 4, ())
    assert bench.lines[:2] == ["llm-7b: 8 processes deliver as 4 of 4 workers; 4 degraded", told]
    assert value(localizer, names.LOCALIZER_FAILURES, stage="judge") == 0
    assert value(localizer, names.DUPLICATES) == 8
    assert names.LOCALIZER_SUCCESS.name not in scrape(localizer)
    assert fetch(f"{localizer.metrics.url}/report/llm-7b.json")[0] == 200


def test_a_finding_ends_when_the_job_is_healthy_for_two_minutes(bench: Bench) -> None:
    localizer = bench.localizer()
    send_windows(localizer.receiver.url, windows(slow=[2]))
    localizer.round()
    for open_ in (1, 1, 1, 0):
        states(localizer, "healthy")
        localizer.round()
        assert value(localizer, names.ANOMALIES) == open_
        bench.clock.now += 40
    assert names.IMPACT.name not in scrape(localizer)


def test_a_finding_ends_when_its_job_is_silent_for_five_minutes(bench: Bench) -> None:
    localizer = bench.localizer()
    send_windows(localizer.receiver.url, windows(slow=[2]))
    localizer.round()
    bench.clock.now += 299
    localizer.round()
    assert len(localizer.open_findings()) == 1
    bench.clock.now += 1
    localizer.round()
    assert localizer.open_findings() == ()
    bench.clock.now += 3600
    localizer.round()
    assert names.ANOMALIES.name not in scrape(localizer)


def test_findings_and_windows_survive_a_restart_and_are_there_before_ready(bench: Bench) -> None:
    localizer = bench.localizer()
    send_windows(localizer.receiver.url, windows(slow=[2]))
    localizer.round()
    send_windows(localizer.receiver.url, windows(slow=[2], window_id=WINDOW + 60)[:2])
    before = localizer.open_findings()
    localizer = bench.restart(localizer)
    assert localizer.open_findings() == before
    assert fetch(f"{localizer.metrics.url}/-/ready")[0] == 200
    assert value(localizer, names.IMPACT, rank="2", host="host-1") == 0.4
    assert fetch(f"{localizer.metrics.url}/report/llm-7b.json")[0] == 200
    localizer.round()
    assert len(bench.verdicts) == 1
    send_windows(localizer.receiver.url, windows(slow=[2], window_id=WINDOW + 60)[2:])
    localizer.round()
    assert [report.workers_seen for report in bench.verdicts] == [4, 4]


def test_a_restored_finding_of_a_job_that_never_returns_ends(bench: Bench) -> None:
    localizer = bench.localizer()
    send_windows(localizer.receiver.url, windows(slow=[2]))
    localizer.round()
    localizer = bench.restart(localizer)
    (bench.folder / "localizer" / "journal").unlink()
    bench.clock.now += 299
    localizer.round()
    assert len(localizer.open_findings()) == 1
    bench.clock.now += 1
    localizer.round()
    assert localizer.open_findings() == ()


def broken(windows: object, reference: object = (), *, expected: int, **known: object) -> Report:
    raise ZeroDivisionError("no iterations")


def test_a_judge_that_fails_is_counted_said_once_and_the_service_goes_on(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    localizer = bench.localizer(broken)
    for window_id in (WINDOW, WINDOW + 1):
        send_windows(localizer.receiver.url, windows(window_id=window_id))
        localizer.round()
        localizer.round()
    assert value(localizer, names.LOCALIZER_FAILURES, stage="judge") == 2
    assert caplog.text.count("ZeroDivisionError") == 1
    assert {labels["stage"] for labels, _ in scrape(localizer)[names.LOCALIZER_FAILURES.name]} == set(STAGES)


def test_reports_are_written_for_each_verdict(bench: Bench, tmp_path: Path) -> None:
    path = str(tmp_path / "report.json")
    localizer = bench.localizer(outputs={path: report_json.render})
    for window_id, slow in ((WINDOW, [1]), (WINDOW + 60, [2])):
        send_windows(localizer.receiver.url, windows(slow, window_id=window_id))
        localizer.round()
        written = json.loads(Path(path).read_text())
        assert (written["window_id"], written["findings"][0]["ranks"]) == (window_id, slow)


def test_a_report_that_cannot_be_written_costs_the_report_only(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    localizer = bench.localizer(outputs={str(tmp_path / "gone" / "report.json"): report_json.render})
    for window_id in (WINDOW, WINDOW + 60):
        send_windows(localizer.receiver.url, windows([1], window_id=window_id))
        localizer.round()
    assert len(bench.verdicts) == 2
    assert value(localizer, names.LOCALIZER_FAILURES, stage="report") == 2
    assert caplog.text.count("report failed") == 1


def test_a_full_disk_stops_neither_deliveries_nor_verdicts(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    localizer = bench.localizer()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    caplog.set_level(logging.WARNING)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        send_windows(localizer.receiver.url, windows(slow=[2]))
        localizer.round()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(bench.verdicts) == 1
    assert value(localizer, names.ANOMALIES) == 1
    assert value(localizer, names.LOCALIZER_FAILURES, stage="journal") == 4
    assert value(localizer, names.LOCALIZER_FAILURES, stage="state") == 1
    assert caplog.text.count("cannot be written") == 1


def test_progress_tells_the_states_of_the_workers(bench: Bench) -> None:
    localizer = bench.localizer()
    states(localizer, "learning", size=3)
    localizer.round()
    localizer.round()
    assert bench.lines == ["llm-7b: 3 of 4 workers; 3 learning"]
    states(localizer, "healthy", size=1)
    localizer.round()
    assert len(bench.lines) == 1
    bench.clock.now += 1
    localizer.round()
    assert bench.lines[1:] == ["llm-7b: 3 of 4 workers; 2 learning, 1 healthy"]


@pytest.mark.parametrize("flag", ["--listen", "--metrics"])
def test_a_taken_port_frees_everything_else(bench: Bench, flag: str) -> None:
    first = bench.localizer()
    taken = Address("127.0.0.1", first.receiver.port, flag)
    options: dict[str, Any] = {"listen": taken} if flag == "--listen" else {"metrics": taken}
    with pytest.raises(DeliveryError, match=flag):
        bench.localizer(state=str(bench.folder) + "2", **options)
    bench.localizer(state=str(bench.folder) + "2")


def test_two_localizers_on_one_folder(bench: Bench) -> None:
    bench.localizer()
    with pytest.raises(ConfigError, match="in use"):
        bench.localizer()


def test_the_real_judge_names_the_slow_rank(bench: Bench) -> None:
    localizer = bench.localizer(real_judge)
    for window_id, reason, slow in ((WINDOW, "reference", ()), (WINDOW + 60, "degraded", (2,))):
        send_windows(localizer.receiver.url, windows(slow, window_id=window_id, reason=reason))
        localizer.round()
    healthy, faulty = bench.verdicts
    assert [finding.ranks for finding in healthy.findings if finding.severity != "info"] == []
    assert [(finding.ranks, finding.function_id) for finding in faulty.findings if finding.severity != "info"] == [
        ((2,), "aaaaaaaaaaaa")
    ]
    assert len(scrape(localizer)[names.FUNCTION_REFERENCE.name]) == len(scrape(localizer)[names.FUNCTION_MEDIAN.name])


def test_a_worker_that_claims_an_enormous_world_is_refused_and_the_others_are_judged(bench: Bench) -> None:
    localizer = bench.localizer(real_judge)
    for size in (2**53, 2**21 + 1):
        claimed = request(status_points(identity(0, world_size=size, training_job="liar")))
        assert send(localizer.receiver.url, claimed.SerializeToString())[0] == 400
    send_windows(localizer.receiver.url, windows(slow=[2]))
    localizer.round()
    assert [report.training_job for report in bench.verdicts] == ["llm-7b"]
    assert value(localizer, names.LOCALIZER_REQUESTS, outcome="malformed") == 2


def test_the_largest_world_with_one_worker_is_judged_after_the_wait(bench: Bench) -> None:
    localizer = bench.localizer(real_judge)
    send_windows(localizer.receiver.url, [replace(windows()[0], identity=identity(0, world_size=2**21))])
    bench.clock.now += 15
    localizer.round()
    (report,) = bench.verdicts
    assert (report.workers_seen, report.workers_expected, len(report.missing_ranks)) == (1, 2**21, 1000)


def test_a_window_of_the_far_future_is_refused(bench: Bench) -> None:
    localizer = bench.localizer()
    late = request(collect(windows(window_id=WINDOW + 10**8)[0])).SerializeToString()
    status, answer = send(localizer.receiver.url, late)
    assert (status, b"lies in the future" in answer) == (400, True)


def out_of_memory(windows: object, reference: object = (), *, expected: int, **known: object) -> Report:
    raise MemoryError


def test_a_judge_without_memory_does_not_end_the_service(bench: Bench) -> None:
    localizer = bench.localizer(out_of_memory)
    send_windows(localizer.receiver.url, windows())
    localizer.round()
    assert value(localizer, names.LOCALIZER_FAILURES, stage="judge") == 1


def test_only_the_newest_jobs_are_remembered(bench: Bench) -> None:
    localizer = bench.localizer()
    for number in range(130):
        who = identity(0, training_job=f"job-{number}", world_size=1)
        send_windows(localizer.receiver.url, [replace(windows()[0], identity=who)])
        localizer.round()
    assert len(localizer._records) == 128
