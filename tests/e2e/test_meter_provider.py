"""A real training with a meter provider of its own: the helper's series come out of the training process, and go."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from eroica_otel import names
from eroica_otel.commands.main import main
from jobs import helper_of, job, value, wait_until

LOOP = Path(__file__).with_name("metered_loop.py")


def test_series_come_by_the_trainings_provider_go_with_the_handle_and_end_as_finished(tmp_path: Path) -> None:
    with job(tmp_path, script=LOOP, EROICA_REFERENCE="0", OTEL_METRICS_EXPORTER="otlp") as training:

        def shown(metric: names.Metric, **labels: str) -> float:
            return value(training.points(), metric.name, **labels)

        wait_until(lambda: shown(names.WORKER_STATE, state="healthy") == 1, "the loop to be learned")
        wait_until(lambda: main(["window", "--dir", str(training.folder)]) == 0, "a worker that can take a window")
        wait_until(lambda: shown(names.WINDOW_ID, reason="manual") > 0, "the window")
        points = training.points()
        assert abs(value(points, names.KIND_BETA.name) - 1) < 1e-3
        assert value(points, names.PATTERN_BETA.name) > 0
        assert value(points, names.ITERATION_PERIOD.name + "_count") > 0
        assert value(points, "mine_steps_total") > value(points, names.ITERATION_PERIOD.name + "_count")
        # Nothing went out of the helper, although a delivery by OTLP is asked for.
        assert names.DELIVERIES.name not in {point.name for point in points}
        before = shown(names.ITERATIONS)
        os.kill(helper_of(training.process.pid), signal.SIGKILL)
        wait_until(lambda: shown(names.FAILURES, stage="helper") == 1, "the helper to be started again")
        assert shown(names.ITERATIONS) > before
        log = training.end()
    assert "series on the meter provider that was given" in log
    # Histograms are the provider's own sums, which nobody can take away.
    periods = {names.ITERATION_DURATION.name, names.ITERATION_PERIOD.name}
    left = next(line for line in log.splitlines() if line.startswith("left ")).split()[1:]
    assert {name for name in left if not any(name.startswith(one) for one in periods)} == set()
    # The provider's last collect comes after the training's end, of a second worker on the same instruments.
    assert "last finished" in log.splitlines()
