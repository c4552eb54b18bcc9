from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from eroica_otel import names
from eroica_otel.model import Point
from eroica_otel.query.promql import Series
from eroica_otel.query.scraped import Episode, Pulse, chosen, episodes, newest, own_labels, points_in, pulses, stream_of

WORKER = {"training_job": "llm", "team": "vision", "rank": "3", "host": "n1", "role": "all"}
ADDED = {"instance": "10.0.0.3:9464", "job": "training"}


def series(metric: names.Metric, *samples: tuple[float, float], **labels: str) -> Series:
    return Series({"__name__": metric.name} | WORKER | ADDED | labels, samples)


def test_labels_of_scraping_are_told_from_the_workers_own() -> None:
    own, added = own_labels(series(names.ITERATIONS, pod="p").labels, names.ITERATIONS)
    assert own == WORKER
    assert dict(added) == ADDED | {"pod": "p"}


def test_a_label_that_scraping_took_for_itself_is_found_as_exported() -> None:
    labels = {"exported_host": "n1", "host": "gateway", "exported_rank": "3", "rank": "0", "exported_job": "x"}
    own, added = own_labels(series(names.ITERATIONS, **labels).labels, names.ITERATIONS)
    assert own == WORKER
    assert dict(added) == ADDED | {"host": "gateway", "rank": "0", "exported_job": "x"}


def test_labels_of_one_metric_do_not_change_whose_series_it_is() -> None:
    plain = stream_of(*own_labels(series(names.ITERATIONS, kind="gpu").labels, names.ITERATIONS))
    of_kind = series(names.KIND_BETA, kind="gpu", exported_kind="compute")
    assert stream_of(*own_labels(of_kind.labels, names.KIND_BETA)) == plain


@pytest.mark.parametrize("missing", ["training_job", "rank"])
def test_a_series_without_job_or_rank_belongs_to_no_worker(missing: str) -> None:
    labels = {name: value for name, value in series(names.ITERATIONS).labels.items() if name != missing}
    assert pulses([Series(labels, ((1, 1),))], names.ITERATIONS) == {}


def test_a_pulse_is_the_latest_sample_and_the_usual_spacing() -> None:
    (pulse,) = pulses([series(names.ITERATIONS, (100, 5), (115, 6), (130, 7), (175, 8))], names.ITERATIONS).values()
    assert pulse == Pulse(175, 15, 8)
    (one,) = pulses([series(names.ITERATIONS, (100, 5))], names.ITERATIONS).values()
    assert one.spacing == 0


def lives(*found: tuple[Mapping[str, str], float]) -> dict[str, str]:
    """Return which of several streams is read, by instance: the label that tells it apart."""
    all_ = pulses([series(names.ITERATIONS, (when, 1), **labels) for labels, when in found], names.ITERATIONS)
    return {process.instance: dict(stream.added).get("replica", "") for process, stream in chosen(all_).items()}


def test_replicas_are_one_process_and_always_the_same_one_is_read() -> None:
    assert lives(({"replica": "b"}, 100), ({"replica": "a"}, 98)) == {ADDED["instance"]: "a"}
    assert lives(({"replica": "b"}, 98), ({"replica": "a"}, 100)) == {ADDED["instance"]: "a"}


def test_a_replica_that_has_fallen_silent_is_left_for_the_other() -> None:
    assert lives(({"replica": "b"}, 100), ({"replica": "a"}, 69)) == {ADDED["instance"]: "b"}


def test_one_target_in_two_scrape_jobs_is_one_process() -> None:
    assert len(lives(({"job": "pods"}, 100), ({"job": "training"}, 100))) == 1


def test_two_targets_are_two_processes_but_a_pushed_rank_is_no_target() -> None:
    assert set(lives(({"instance": "x:1"}, 100), ({"instance": "y:1"}, 100))) == {"x:1", "y:1"}
    assert set(lives(({"instance": "rank-3"}, 100), ({"instance": ""}, 100))) == {""}


def test_episodes_begin_with_the_first_sample_of_an_id_whatever_its_reason() -> None:
    found = episodes(
        [
            series(names.WINDOW_ID, (10, 7), (15, 7), reason="reference"),
            series(names.WINDOW_ID, (20, 9), (25, 9), reason="manual"),
        ]
    )
    assert list(found.values()) == [[Episode(7, 10, 20), Episode(9, 20, math.inf)]]


def test_points_are_the_first_inside_the_span_and_nothing_of_an_earlier_window() -> None:
    (stream,) = pulses([series(names.ITERATIONS, (1, 1))], names.ITERATIONS)
    labels = {"function_id": "f", "function": "g", "kind": "python", "family": "other", "resource": "cpu"}
    found = points_in(
        [
            series(names.WINDOW_SECONDS, (10, 4.0), (15, 5.0), (16, 6.0)),
            series(names.PATTERN_BETA, (10, 0.5), **labels),
            series(names.PATTERN_MU, (20, 0.5), **labels),
            Series({"__name__": "up", **WORKER, **ADDED}, ((15, 1),)),
            series(names.WINDOW_SECONDS, (15, 9.0), instance="another"),
        ],
        {stream: (15, 17)},
    )
    assert found == {stream: [Point(names.WINDOW_SECONDS.name, WORKER, 5.0)]}


def test_the_newest_of_what_two_runs_said_is_kept() -> None:
    more = dict.fromkeys(("local_rank", "gpu_uuid", "pci_bus_id", "nic", "k8s_pod", "restart", "signature"), "")
    said = [
        series(names.WORKER_INFO, (20, 1), **more, run_id="second"),
        series(names.WORKER_INFO, (10, 1), **more, run_id="first"),
    ]
    (point,) = newest(said, names.WORKER_INFO).values()
    assert point.labels["run_id"] == "second"
