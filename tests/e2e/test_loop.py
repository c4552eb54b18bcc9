"""The whole loop with a real training of four processes: what the demo shows, and what kills in the middle do to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from eroica_otel import names
from eroica_otel.commands.window import request
from eroica_otel.demo.stage import JOB, RANKS, Fault, Stage, free_port
from eroica_otel.model import Point
from eroica_otel.publish.report import json as report_json
from eroica_otel.publish.report import terminal
from jobs import helper_of, scrape, value, wait_until

WINDOW_SECONDS = 5.0
"""16 iterations, without which there is no noise level, also where one takes 0.3 s because the machine is busy."""
PATIENCE_SECONDS = 120.0


def test_the_demo_names_rank_function_and_cause(tmp_path: Path) -> None:
    command = ["demo", "--fault", "python", "--rank", "1", "--out", str(tmp_path)]
    demo = subprocess.run(
        [sys.executable, "-m", "eroica_otel.commands.main", *command], capture_output=True, text=True, timeout=300
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr + (tmp_path / "demo.log").read_text()
    report = report_json.parse((tmp_path / "report.json").read_text())
    assert (report.training_job, report.reason, report.workers_seen, report.missing_ranks) == (JOB, "degraded", 4, ())
    (finding,) = [finding for finding in report.findings if finding.severity != "info"]
    assert (finding.verdict, finding.cause, finding.kind, finding.ranks) == (
        "culprit",
        "python_overhead",
        "python",
        (1,),
    )
    assert finding.function.startswith("augment (train.py:")
    assert [frame.split(":")[1] for frame in finding.stack][-2:] == ["train", "augment"]
    assert 0.1 < finding.impact_ratio < 0.5
    (victims,) = report.victims
    assert victims.ranks
    assert set(victims.ranks) <= {0, 2, 3}
    assert victims.waits_for == (1,)
    injected = json.loads((tmp_path / "injected.json").read_text())
    assert (injected["fault"], injected["rank"]) == ("python", 1)
    assert "augment" in (tmp_path / "report.html").read_text()
    for words in ("python_overhead", "patterns received", "degraded", "victims"):
        assert words in demo.stdout
    assert not list((tmp_path / "workers").glob("*/status")), "the workers left files behind"


@pytest.fixture(scope="module")
def port() -> int:
    return free_port() // 10 * 10 or 20000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Stage]:
    """A training that was watched until its reference window was judged; the tests below run in this order on it."""
    environment = os.environ | {
        "OTEL_METRICS_EXPORTER": "otlp,prometheus",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
        "EROICA_TEAM": "research",
    }
    with Stage(tmp_path_factory.mktemp("stage"), WINDOW_SECONDS, environment) as running:
        _until(running, lambda: running.judged("reference") is not None, "the reference window to be judged")
        _until(running, lambda: all(w.ratio is not None for w in running.workers()), "the baselines")
        yield running


def _until(stage: Stage, reached: object, what: str) -> None:
    def alive_and_reached() -> bool:
        assert callable(reached)
        stage.check()
        return bool(reached())

    wait_until(alive_and_reached, f"{what}; see {stage.log}", PATIENCE_SECONDS)


def _family(name: str) -> str:
    for suffix in ("_bucket", "_sum", "_count"):
        if name.removesuffix(suffix) in names.BY_NAME:
            return name.removesuffix(suffix)
    return name


def _wrong_labels(points: list[Point]) -> list[str]:
    wrong = []
    for point in points:
        metric = names.BY_NAME.get(_family(point.name))
        if metric is None or set(point.labels) - {"le"} != set(metric.labels):
            wrong.append(f"{point.name} {sorted(point.labels)}")
    return wrong


def test_every_scraped_series_is_in_names_and_every_name_of_a_cpu_job_is_scraped(stage: Stage, port: int) -> None:
    late = {names.WINDOW_AFTER.name, names.DEGRADATION_RATIO.name}
    wait_until(
        lambda: all(late <= {point.name for point in scrape(port + rank)} for rank in range(RANKS)),
        "what needs some iterations after the window",
    )
    pages = {rank: scrape(port + rank) for rank in range(RANKS)}
    for rank, points in pages.items():
        assert _wrong_labels(points) == []
        assert {point.labels["rank"] for point in points} == {str(rank)}
        assert {point.labels["team"] for point in points} == {"research"}
        missing = {m.name for m in names.ALL if m.component == names.WORKER and m.cpu_job}
        assert missing - {_family(point.name) for point in points} == set()
        assert len(points) <= 320
    central = [point for point in stage.series() if point.name.startswith("eroica_")]
    assert _wrong_labels(central) == []
    wanted = {m.name for m in names.ALL if m.component == names.LOCALIZER and m.cpu_job}
    assert wanted - {_family(point.name) for point in central} == set()


def test_all_ranks_profile_the_same_iterations(stage: Stage, port: int) -> None:
    seen = defaultdict(set)
    for rank in range(RANKS):
        points = scrape(port + rank)
        for metric in (names.WINDOW_ID, names.WINDOW_START, names.WINDOW_ITERATIONS):
            seen[metric.name].add(value(points, metric.name))
    assert {name: len(values) for name, values in seen.items()} == dict.fromkeys(seen, 1)


def _iterations(stage: Stage) -> int:
    return min((worker.iterations for worker in stage.workers()), default=0)


def test_a_killed_helper_costs_nobody_anything(stage: Stage, port: int) -> None:
    request(stage.workers_folder, JOB)
    _until(stage, lambda: any("profiling" in worker.activity for worker in stage.workers()), "the window to begin")
    victim = stage.workers()[2]
    os.kill(helper_of(victim.pid), signal.SIGKILL)
    before = _iterations(stage)
    _until(stage, lambda: _iterations(stage) > before + 20, "training to go on")
    _until(stage, lambda: stage.judged("manual") is not None, "the window to be judged with all four")
    report = report_json.parse((stage.out / "report.json").read_text())
    assert (report.reason, report.workers_seen) == ("manual", RANKS)
    assert [finding for finding in report.findings if finding.severity != "info"] == []
    _until(
        stage,
        lambda: value(scrape(port + victim.identity.local_rank), names.FAILURES.name, stage="helper") == 1,
        "the death to be counted",
    )


def test_a_killed_localizer_costs_training_nothing_and_remembers(stage: Stage) -> None:
    window = stage.judged("manual")
    os.kill(stage.pid("localizer"), signal.SIGKILL)
    before = _iterations(stage)
    wait_until(lambda: _iterations(stage) > before + 40, "training to go on without anybody to deliver to")
    stage.restart_localizer()
    _until(stage, lambda: stage.judged("manual") == window, "the verdict from before the kill to be shown again")


def test_the_verdict_on_a_slow_input_names_the_function_that_waits(stage: Stage) -> None:
    began = int(time.time())
    stage.inject(Fault("input", 3, 0.06))
    _until(stage, lambda: (stage.judged("degraded") or 0) >= began, "the degraded window to be judged")
    report = report_json.parse((stage.out / "report.json").read_text())
    (finding,) = [finding for finding in report.findings if finding.severity != "info"]
    assert (finding.cause, finding.ranks) == ("slow_input", (3,))
    assert finding.function.startswith("RemoteText.fetch_remote (train.py:")


def test_a_worker_that_dies_with_its_window_is_named_and_the_others_are_judged(stage: Stage) -> None:
    earlier = {worker.window_id for worker in stage.workers()}
    helper = helper_of(stage.workers()[1].pid)
    os.kill(helper, signal.SIGSTOP)  # so that it cannot deliver before it dies
    request(stage.workers_folder, JOB)
    _until(
        stage,
        lambda: all(worker.window_id not in earlier for worker in stage.workers()) and len(stage.workers()) == RANKS,
        "all ranks to have captured a window",
    )
    victim = stage.workers()[1]
    window = victim.window_id
    for pid in (helper, victim.pid):
        os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: report_json.parse((stage.out / "report.json").read_text()).window_id == window,
        "the window to be judged without the dead rank",
        PATIENCE_SECONDS,
    )
    report = report_json.parse((stage.out / "report.json").read_text())
    assert (report.workers_seen, report.missing_ranks) == (RANKS - 1, (1,))
    assert all(1 not in finding.ranks for finding in report.findings)
    assert "missing   rank 1" in terminal.render(report)
    others = [path for path in stage.workers_folder.glob("*/") if path.name != f"pid-{victim.pid}"]
    wait_until(lambda: not any(path.exists() for path in others), "the other helpers to end and clean up")
