"""A full worker through the real SDK: every series of names.py, its labels, its budget, and one collect = one state."""

from __future__ import annotations

import gc
import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from eroica_otel import names
from eroica_otel.export.board import Board
from eroica_otel.export.budget import MOST_SERIES, STANDING_SERIES, fit
from eroica_otel.export.delivery import provider, resource
from eroica_otel.export.instruments import SPARE_SETS, create, record
from eroica_otel.export.points import FUNCTIONS_WITH_STACK, STACK_BYTES, stack_label, window_points
from eroica_otel.export.pull import page
from eroica_otel.export.standing import standing_points
from eroica_otel.model import OUTCOMES, REASONS, Point, WorkerWindow
from eroica_otel.procgroups import STANDING
from eroica_otel.status import Status
from factories_worker import all_reduce, identity, pattern, status, worker_window

WORKER_METRICS = [metric for metric in names.ALL if metric.component == names.WORKER]


class Exported:
    """A board behind real instruments, and what a scrape of them shows."""

    def __init__(self) -> None:
        self.board = Board()
        reader, self.registry = page()
        self.provider = provider([reader], resource(identity(), 1))
        self.histograms = create(self.provider.get_meter("eroica_otel"), self.board)

    def stand(self, given: Status) -> None:
        self.board.stand(
            standing_points(
                given,
                deliveries=dict.fromkeys(itertools.product(("otlp", "remote_write"), ("sent", "failed")), 3),
                failures=dict(given.failures),
                windows=dict(given.windows),
                dropped=1,
                missing=dict.fromkeys(("nic", "sm_clock", "sm", "dram", "pcie", "nvlink"), "no agent"),
                helper_cpu_seconds=2.0,
                device={"gpu_uuid": "", "pci_bus_id": "", "k8s_pod": ""},
            )
        )

    def show(self, window: WorkerWindow) -> None:
        self.board.show(window_points(window))

    def iterations(self) -> None:
        record(self.histograms, identity().labels(), np.array([[0.1, 0.2], [np.nan, 0.3]]))

    def scrape(self) -> list[Point]:
        text = generate_latest(self.registry).decode()
        return [
            Point(sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]


@pytest.fixture
def exported() -> Iterator[Exported]:
    made = Exported()
    yield made
    made.provider.shutdown()


def family(name: str) -> names.Metric:
    for suffix in ("_bucket", "_sum", "_count"):
        found = names.BY_NAME.get(name.removesuffix(suffix))
        if name.endswith(suffix) and found is not None and found.type == names.HISTOGRAM:
            return found
    return names.BY_NAME[name]


def everything(exported: Exported) -> list[Point]:
    exported.stand(status())
    exported.show(worker_window())
    exported.iterations()
    return exported.scrape()


def test_a_full_worker_shows_every_worker_series_with_exactly_its_labels(exported: Exported) -> None:
    points = everything(exported)
    assert {family(point.name).name for point in points} == {metric.name for metric in WORKER_METRICS}
    for point in points:
        assert set(point.labels) - {"le"} == set(family(point.name).labels), point.name


def test_each_series_is_there_once(exported: Exported) -> None:
    counts = Counter((point.name, tuple(sorted(point.labels.items()))) for point in everything(exported))
    assert [series for series, count in counts.items() if count > 1] == []


def test_values_arrive_as_they_were_given(exported: Exported) -> None:
    shown = {(point.name, tuple(sorted(point.labels.items()))): point.value for point in everything(exported)}
    for point in window_points(worker_window()):
        assert shown[point.name, tuple(sorted(point.labels.items()))] == point.value


def test_histograms_count_what_was_measured_and_not_what_is_missing(exported: Exported) -> None:
    points = {point.name: point.value for point in everything(exported)}
    assert points["eroica_iteration_duration_seconds_count"] == 1
    assert points["eroica_iteration_period_seconds_count"] == 2
    assert points["eroica_iteration_period_seconds_sum"] == pytest.approx(0.5)
    bounds = [p.labels["le"] for p in exported.scrape() if p.name == "eroica_iteration_period_seconds_bucket"]
    assert [float(bound) for bound in bounds] == [*names.ITERATION_BUCKETS_SECONDS, float("inf")]


def test_what_was_not_measured_is_absent_and_not_zero(exported: Exported) -> None:
    exported.stand(status(baseline_seconds=None, ratio=None, last_update_seconds=None, after=None))
    bare = worker_window((pattern(0, mu=None, sigma=None, noise_seconds=None, stack=()),), throttled_ratio=None)
    bare = replace(bare, run_delay_ratio=None, cpu_seconds=None, sampler_gap_seconds=None, silent_seconds=None)
    exported.show(replace(bare, progress={"0": (7, None)}, unknown={}, host_use={}))
    shown = {point.name for point in exported.scrape()}
    absent = {
        names.ITERATION_BASELINE, names.DEGRADATION_RATIO, names.ITERATION_LAST, names.WINDOW_AFTER, names.PATTERN_MU,
        names.PATTERN_SIGMA, names.PATTERN_NOISE, names.WINDOW_THROTTLED, names.WINDOW_RUN_DELAY, names.WINDOW_CPU,
        names.WINDOW_GAP, names.FUNCTION_INFO, names.WINDOW_SILENT, names.COLLECTIVE_COMPLETED,
        names.WINDOW_UNKNOWN, names.WINDOW_HOST_RATIO, names.WINDOW_HOST_RATE,
    }  # fmt: skip
    assert shown & {metric.name for metric in absent} == set()
    assert names.PATTERN_BETA.name in shown


def test_the_ratio_after_a_window_is_shown_for_that_window_only(exported: Exported) -> None:
    exported.stand(status(window_id=5, after=(5, 1.2)))
    assert [p.value for p in exported.scrape() if p.name == names.WINDOW_AFTER.name] == [1.2]
    exported.stand(status(window_id=6, after=(5, 1.2)))
    assert [p.value for p in exported.scrape() if p.name == names.WINDOW_AFTER.name] == []


def test_points_of_a_window_vanish_when_it_is_taken_down(exported: Exported) -> None:
    everything(exported)
    exported.board.show(())
    shown = {point.name for point in exported.scrape()}
    of_window = {point.name for point in window_points(worker_window())} - {names.COLLECTIVE_SEQUENCE.name}
    assert shown & of_window == set()
    assert names.WORKER_STATE.name in shown


def test_exactly_one_state_is_1(exported: Exported) -> None:
    exported.stand(status(state="unmatched"))
    states = {p.labels["state"]: p.value for p in exported.scrape() if p.name == names.WORKER_STATE.name}
    assert [state for state, value in states.items() if value] == ["unmatched"]
    assert len(states) == 7


def test_every_scrape_sees_one_window_and_never_half_of_two(exported: Exported) -> None:
    """Id, end and patterns of a window all carry its number; scrapes race with a thread that replaces it."""
    exported.stand(status())

    def numbered(number: int) -> list[Point]:
        beta = pattern(0, beta=float(number))
        return window_points(worker_window((beta,), window_id=number, end_timestamp_seconds=float(number)))

    windows = [numbered(number) for number in range(1, 9)]
    stopping = threading.Event()

    def replace_on_and_on() -> None:
        while not stopping.is_set():
            for points in windows:
                exported.board.show(points)

    thread = threading.Thread(target=replace_on_and_on)
    thread.start()
    watched = {names.WINDOW_ID.name, names.WINDOW_END.name, names.PATTERN_BETA.name}
    seen = set()
    try:
        for _ in range(60):
            values = [point.value for point in exported.scrape() if point.name in watched]
            assert len(set(values)) <= 1
            assert len(values) in (0, 3)
            seen.update(values)
    finally:
        stopping.set()
        thread.join()
    assert len(seen) > 1


def busiest() -> tuple[Status, WorkerWindow]:
    """Return a worker that shows as much as one can: 50 functions, 12 groups, every reason, outcome and failure."""
    stages = (
        "start", "config", "capture", "monitor", "helper", "store", "summarize", "delivery", "stop", "profiler",
        "orders", "fork", "agent", "place", "progress", "standstill", "watchdog",
    )  # fmt: skip
    groups = [str(number) for number in range(12)]
    full = status(
        windows={f"{reason} {outcome}": 1 for reason in REASONS for outcome in OUTCOMES},
        failures=dict.fromkeys(stages, 1),
        collectives=dict.fromkeys(groups, 1),
        groups=tuple((name, 4, "abcd") for name in groups),
    )
    patterns = (*(pattern(number) for number in range(47)), *(all_reduce(900 + number) for number in range(3)))
    return full, worker_window(patterns)


def test_the_standing_part_never_exceeds_what_is_set_aside_for_it(exported: Exported) -> None:
    full, _ = busiest()
    exported.stand(full)
    exported.iterations()
    points = exported.scrape()
    assert len(points) <= STANDING_SERIES
    assert len([point for point in points if point.name == names.GROUP_INFO.name]) == STANDING


def test_a_worker_with_50_functions_and_4_groups_shows_at_most_320_series(exported: Exported) -> None:
    full, window = busiest()
    exported.stand(full)
    exported.iterations()
    exported.show(fit(window))
    points = exported.scrape()
    assert len(points) <= MOST_SERIES
    # What is cut are the smallest; most of the largest stay.
    kept = {point.labels["function"] for point in points if point.name == names.PATTERN_BETA.name}
    assert {f"function_{number}" for number in range(20)} <= kept


def test_a_window_that_fits_is_not_touched_and_one_that_does_not_says_what_was_cut() -> None:
    small = worker_window()
    assert fit(small) is small
    _, window = busiest()
    cut = fit(window)
    assert len(window_points(cut)) <= MOST_SERIES - STANDING_SERIES
    assert cut.dropped == len(window.patterns) - len(cut.patterns) > 0
    assert [one.function_id for one in cut.patterns] == [
        one.function_id for one in window.patterns[: len(cut.patterns)]
    ]
    assert cut.floor == cut.patterns[-1].beta
    # Not more than needed: one more function would not have fitted.
    one_more = replace(cut, patterns=window.patterns[: len(cut.patterns) + 1])
    assert len(window_points(one_more)) > MOST_SERIES - STANDING_SERIES


def test_a_budget_that_nothing_fits_leaves_the_facts() -> None:
    cut = fit(worker_window(), most=1)
    assert cut.patterns == ()
    assert cut.dropped == 3


def test_stacks_are_shown_for_the_largest_python_functions_only(exported: Exported) -> None:
    exported.show(worker_window(tuple(pattern(number) for number in range(20))))
    shown = [p.labels["function_id"] for p in exported.scrape() if p.name == names.FUNCTION_INFO.name]
    assert sorted(shown) == [f"{number:012x}" for number in range(FUNCTIONS_WITH_STACK)]


def test_a_stack_keeps_its_innermost_frames_within_the_limit_of_bytes() -> None:
    frames = tuple(f"module{number}:funktion_ä:{number}" for number in range(100))
    label = stack_label(frames)
    assert len(label.encode()) <= STACK_BYTES
    assert label.startswith("... > ")
    assert label.endswith(" > module99:funktion_ä:99")
    assert stack_label(frames[:2]) == "module0:funktion_ä:0 > module1:funktion_ä:1"
    assert stack_label(()) == ""


def test_even_one_frame_that_is_too_long_shows_its_end() -> None:
    label = stack_label(("a:b:1", "ä" * 2000 + ":function:7"))
    assert len(label.encode()) <= STACK_BYTES
    assert label.startswith("...")
    assert label.endswith(":function:7")


def test_names_and_types_on_the_wire_are_those_of_the_table(exported: Exported) -> None:
    everything(exported)
    text = generate_latest(exported.registry).decode()
    types = {found.name: found.type for found in text_string_to_metric_families(text)}
    for metric in WORKER_METRICS:
        assert types[metric.name.removesuffix("_total")] == metric.type, metric.name
        assert f"# HELP {metric.name} {metric.help}" in text


def label_sets() -> int:
    """Return for how many label sets of gauges the SDK of this process keeps a place."""
    return sum(type(thing).__name__ == "_LastValueAggregation" for thing in gc.get_objects())


def test_functions_of_windows_gone_by_are_not_kept_in_memory(exported: Exported) -> None:
    gc.collect()
    before = label_sets()
    for window in range(40):
        exported.show(worker_window(tuple(pattern(100 * window + number) for number in range(20))))
        points = exported.scrape()
        assert sum(point.name == names.PATTERN_BETA.name for point in points) == 20, "none is lost when old ones go"
    assert (
        label_sets() - before <= 3 * len(points) + SPARE_SETS
    )  # twice the points, the spare, and those of this collect
