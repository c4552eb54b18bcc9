"""From the helper's board through the file to a meter provider of the training's own, with OpenTelemetry's real SDK."""

from __future__ import annotations

import json
import os
import stat
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from eroica_otel import names
from eroica_otel.export.board import Board
from eroica_otel.export.budget import MOST_SERIES, fit
from eroica_otel.export.handed import MAGIC, MOST_BYTES, HandBack, read
from eroica_otel.export.instruments import SPARE_SETS
from eroica_otel.export.metered import OLD_SECONDS, Metered
from eroica_otel.export.points import window_points
from eroica_otel.export.standing import standing_points
from eroica_otel.model import Point
from eroica_otel.status import POINTS_FILE, Status
from factories_worker import identity, pattern, status, worker_window

SERIES = {metric.instrument: metric.name for metric in names.OF_WORKER}
Shown = dict[tuple[str, Any], Any]


def standing(given: Status) -> list[Point]:
    return standing_points(
        given, deliveries={}, failures={}, windows={}, dropped=0, missing={}, helper_cpu_seconds=2.0, device={}
    )


class Guarded:
    """What plugin.Guard does: takes what a call raises, by stage."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str]] = []

    def __call__(self, stage: str, call: Callable[[], None]) -> None:
        try:
            call()
        except (TypeError, ValueError, KeyError) as error:
            self.failures.append((stage, str(error)))


class Trained:
    """A training with a meter provider of its own, and the helper's side of it, in one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)
        self.now_ns: int | None = None
        self.guard = Guarded()
        self.board = Board()
        self.problems: list[str] = []
        self.handed = HandBack(folder, self.board, lambda _, why: self.problems.append(why))
        self.metered = Metered(self.provider, lambda: self.now_ns or self.written_ns())
        self.metered.follow(folder, self.guard)

    def written_ns(self) -> int:
        handed = read(self.folder / POINTS_FILE)
        return 0 if handed is None else handed.written_ns

    def hand(self, *points: Point) -> None:
        self.board.stand(points)
        self.handed.renewed()

    def collect(self) -> Shown:
        """Return what the provider exports, histograms as their points."""
        data = self.reader.get_metrics_data()
        found = [
            ((SERIES.get(metric.name, metric.name), tuple(sorted((point.attributes or {}).items()))), point)
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        ]
        assert [key for key, count in Counter(key for key, _ in found).items() if count > 1] == []
        return {key: getattr(point, "value", point) for key, point in found}


@pytest.fixture
def trained(tmp_path: Path) -> Iterator[Trained]:
    made = Trained(tmp_path)
    yield made
    made.provider.shutdown()


def as_shown(points: Iterable[Point]) -> Shown:
    return {(point.name, tuple(sorted(point.labels.items()))): point.value for point in points}


def state(shown: Shown) -> dict[str, float]:
    return {dict(labels)["state"]: value for (name, labels), value in shown.items() if name == names.WORKER_STATE.name}


def test_the_provider_collects_each_point_that_the_helper_shows_and_nothing_else(trained: Trained) -> None:
    assert trained.collect() == {}
    standing_now, window = standing(status(after=None)), window_points(worker_window())
    trained.board.show(window)
    trained.hand(*standing_now)
    # A window's series replace those of the same name that stand outside windows.
    replaced = {point.name for point in window}
    assert trained.collect() == as_shown([*window, *(one for one in standing_now if one.name not in replaced)])
    trained.board.show(())
    trained.hand(*standing_now)
    assert trained.collect() == as_shown(standing_now)
    assert trained.guard.failures == []
    assert trained.problems == []


def test_the_file_is_the_users_alone(trained: Trained) -> None:
    trained.hand(*standing(status()))
    assert stat.S_IMODE((trained.folder / POINTS_FILE).stat().st_mode) == 0o600


def test_iterations_are_recorded_with_the_buckets_of_the_table(trained: Trained) -> None:
    trained.metered.record(identity().labels(), [(0.1, 0.2), (float("nan"), 0.3)])
    shown = {name: point for (name, _), point in trained.collect().items()}
    assert shown[names.ITERATION_DURATION.name].count == 1
    assert shown[names.ITERATION_PERIOD.name].sum == pytest.approx(0.5)
    assert tuple(shown[names.ITERATION_PERIOD.name].explicit_bounds) == tuple(names.ITERATION_BUCKETS_SECONDS)


def test_half_a_write_leaves_what_was_there(trained: Trained) -> None:
    trained.hand(*standing(status()))
    before = trained.collect()
    path = trained.folder / POINTS_FILE
    whole = path.read_bytes()
    trained.now_ns = trained.written_ns()
    for torn in (whole[: len(whole) // 2], whole[:-1] + b"?", b"", b"x" * 100):
        path.write_bytes(torn)
        assert trained.collect() == before
    path.unlink()
    assert trained.collect() == before
    assert trained.guard.failures == []


def test_what_the_helper_has_not_renewed_for_long_is_not_shown(trained: Trained) -> None:
    points = standing(status())
    trained.hand(*points)
    trained.now_ns = trained.written_ns() + int((OLD_SECONDS - 1) * 1e9)
    assert trained.collect() == as_shown(points)
    trained.now_ns += int(2e9)
    assert trained.collect() == {}


def test_a_failure_at_a_collect_is_counted_and_the_trainings_own_series_are_there(trained: Trained) -> None:
    trained.provider.get_meter("mine").create_counter("mine").add(3)
    body = json.dumps({"of": "another version"}).encode()
    head = struct.pack("<8sII", MAGIC, len(body), zlib.crc32(body))
    (trained.folder / POINTS_FILE).write_bytes(head + body)
    trained.now_ns = 1
    assert trained.collect() == {("mine", ()): 3}
    assert [stage for stage, _ in trained.guard.failures] == ["meter"]


def test_a_forked_child_that_collects_shows_nothing_of_its_parents_training(trained: Trained) -> None:
    trained.hand(*standing(status()))
    assert trained.collect() != {}
    child = os.fork()
    if not child:
        try:
            os._exit(min(len(trained.collect()), 100))
        finally:
            os._exit(101)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert trained.collect() != {}


def test_nothing_is_shown_after_the_end_and_once_again_of_the_next_worker(trained: Trained, tmp_path: Path) -> None:
    trained.hand(*standing(status()))
    trained.metered.release()
    assert trained.collect() == {}
    (tmp_path / "next").mkdir()
    trained.metered.follow(tmp_path / "next", trained.guard)
    assert trained.collect() == {}
    trained.handed = HandBack(tmp_path / "next", trained.board, lambda _, why: trained.problems.append(why))
    points = standing(status(rank=1))
    trained.board.stand(points)
    trained.handed.push_now()
    trained.now_ns = 1
    assert trained.collect() == as_shown(points)


def test_the_last_collect_of_a_training_that_ends_says_finished(trained: Trained) -> None:
    trained.hand(*standing(status(state="healthy")))
    assert [name for name, value in state(trained.collect()).items() if value] == ["healthy"]
    trained.hand(*standing(status(state="healthy", iterations=777)))
    trained.metered.finish()
    (trained.folder / POINTS_FILE).unlink()
    shown = trained.collect()
    assert [name for name, value in state(shown).items() if value] == ["finished"]
    assert {value for (name, _), value in shown.items() if name == names.ITERATIONS.name} == {777}


def test_gauges_of_the_training_keep_their_label_sets_when_ours_are_dropped(trained: Trained) -> None:
    mine = [Observation(number, {"of": str(number)}) for number in range(2 * SPARE_SETS)]

    def observe(options: CallbackOptions) -> list[Observation]:
        return mine

    # Made before ours, so that it has been observed when ours are pruned.
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    provider.get_meter("mine").create_observable_gauge("mine", [observe])
    trained.reader, trained.provider = reader, provider
    trained.metered = Metered(provider, lambda: 1)
    trained.metered.follow(trained.folder, trained.guard)
    for window in range(20):
        points = window_points(worker_window(tuple(pattern(100 * window + number) for number in range(20))))
        trained.hand(*points)
        shown = trained.collect()
        assert sum(name == "mine" for name, _ in shown) == len(mine)
        assert len(shown) == len(mine) + len(points)
    consumer: Any = provider._measurement_consumer
    kept = sum(
        len(match._attributes_aggregation)
        for storage in consumer._reader_storages.values()
        for instrument, matches in storage._instrument_view_instrument_matches.items()
        for match in matches
        if instrument.name != "mine"
    )
    assert kept <= 3 * len(points) + SPARE_SETS


def test_the_fullest_worker_with_the_longest_names_fits_and_more_is_told(trained: Trained) -> None:
    stack = tuple(f"modül{number}.{'ä' * 100}:{'ö' * 100}:1" for number in range(9))
    patterns = tuple(pattern(number, function=f"{number:03}" + "ä" * 125, stack=stack) for number in range(50))
    long = identity(training_job="ä" * 128, team="ö" * 128, host="h" * 253, role="r" * 64)
    trained.board.show(window_points(fit(worker_window(patterns, identity=long))))
    trained.hand(*standing(status(identity=long)))
    assert trained.problems == []
    handed = read(trained.folder / POINTS_FILE)
    assert handed is not None
    before = (trained.folder / POINTS_FILE).read_bytes()
    assert len(before) / len(handed.points) * MOST_SERIES < MOST_BYTES
    trained.hand(*(Point("x", {"text": "y" * 1000, "n": str(number)}, 1.0) for number in range(MOST_BYTES // 1000)))
    assert "bytes" in trained.problems[0]
    assert (trained.folder / POINTS_FILE).read_bytes() == before
