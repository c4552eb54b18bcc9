"""Layout vec of remote write: what is sent, and real servers from which it is read as the layout of labels is."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eroica_otel import names
from eroica_otel.config import WorkerConfig
from eroica_otel.export.points import window_points
from eroica_otel.export.remotewire import STALE_BITS
from eroica_otel.export.remotewrite import Target
from eroica_otel.export.remotewritevec import PROBE_SLOTS, TOLD_SECONDS, VecLayout, is_refused_as_old, query_address
from eroica_otel.model import Point, WorkerWindow
from eroica_otel.query.backend import BackendReader
from eroica_otel.query.client import Backend
from eroica_otel.query.reading import Wanted
from eroica_otel.vectors import SLOTS_MOST
from factories_central import collect
from factories_worker import identity, pattern, worker_window
from jobs import wait_until
from remote_write import Writer, WriteServer
from servers import prometheus, victoria_metrics


@pytest.fixture
def server() -> Iterator[WriteServer]:
    made = WriteServer()
    yield made
    made.close()


def page(window: WorkerWindow) -> list[Point]:
    return collect(window)


def test_the_layout_is_asked_for_at_the_end_of_the_address() -> None:
    config = WorkerConfig(remote_write_url="http://h:9090/api/v1/write#vec")
    assert (Target.of(config).url, Target.of(config).vec) == ("http://h:9090/api/v1/write", True)
    assert not Target.of(WorkerConfig(remote_write_url="http://h:9090/api/v1/write")).vec


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("http://h:9090/api/v1/write", "http://h:9090/api/v1/query"),
        ("https://me:pw@h/prom/api/v1/write", "https://me:pw@h/prom/api/v1/query"),
        ("http://mimir/api/v1/push", "http://mimir/prometheus/api/v1/query"),
        ("http://vminsert:8480/insert/0/prometheus/api/v1/write", ""),
        ("http://h/receive", ""),
    ],
)
def test_where_a_backend_is_asked_follows_from_where_it_is_written_to(written: str, asked: str) -> None:
    assert query_address(written) == asked


def test_a_window_goes_once_as_two_series_that_end_after_their_last_slot() -> None:
    layout = VecLayout((("job", "a"),))
    plain, found, own = layout.split(page(worker_window()))
    assert names.PATTERN_BETA.name not in {point.name for point in plain}
    assert {names.WINDOW_ID.name, names.WORLD_SIZE.name, names.ITERATIONS.name} <= {point.name for point in plain}
    rows = layout.rows(found, own)
    assert len(rows) == 2
    for (labels, bits), vector in zip(rows, found, strict=True):
        assert dict(labels)["dict"] == vector.dict
        assert len(bits) == len(vector.slots) + 1
        assert bits[-1] == STALE_BITS
    assert layout.split(page(worker_window()))[1] == found
    layout.sent(found)
    again, nothing, _ = layout.split(page(worker_window()))
    assert (again, nothing) == (plain, [])
    assert layout.split(page(worker_window(window_id=1_764_430_060)))[1] != []


def test_a_dictionary_is_told_once_an_hour_and_without_the_rank() -> None:
    layout = VecLayout((("instance", "rank-3"),))
    _, found, own = layout.split(page(worker_window()))
    told = layout.dictionary(found, own, 1000.0)
    assert len(told) == sum(len(vector.slots) for vector in found)
    assert not any({"rank", "host", "instance"} & dict(labels).keys() for labels, _ in told)
    layout.told(found, 1000.0)
    assert layout.dictionary(found, own, 1000.0 + TOLD_SECONDS - 1) == []
    assert layout.dictionary(found, own, 1000.0 + TOLD_SECONDS) == told


def test_what_is_too_long_for_a_vector_goes_as_labels() -> None:
    many = worker_window(tuple(replace(pattern(0), function_id=f"{at:012x}") for at in range(SLOTS_MOST // 2)))
    plain, found, _ = VecLayout(()).split(page(many))
    assert found == []
    assert names.PATTERN_BETA.name in {point.name for point in plain}


@pytest.mark.parametrize(("why", "old"), [("answered 400: out of order sample", True), ("answered 400: no", False)])
def test_that_another_worker_told_it_later_is_no_failure(why: str, old: bool) -> None:
    assert is_refused_as_old(why) == old


def test_where_nobody_may_read_the_layout_is_that_of_labels_and_it_is_said(server: WriteServer) -> None:
    writer = Writer(server.url, vec=True)
    writer.write.push()
    (said,) = writer.odd
    assert said.startswith("layout vec cannot be used, series have the layout of labels: ")
    assert "/api/v1/query cannot be asked" in said
    assert writer.counts() == (1, 0)


def test_a_probe_that_is_refused_means_labels_but_one_that_nobody_heard_is_sent_again(server: WriteServer) -> None:
    writer = Writer(server.url, vec=True)
    server.answers = [400]
    writer.write.push()
    assert "answered 400" in writer.odd[0]
    assert writer.counts() == (1, 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        alone = Writer(f"http://127.0.0.1:{taken.getsockname()[1]}/api/v1/write", vec=True)
        alone.write.push()
    assert (alone.odd, alone.counts(), alone.write._probed) == ([], (0, 1), False)


def comparable(window: WorkerWindow) -> WorkerWindow:
    """Return the window as one of any team, its patterns in one order."""
    ordered = tuple(sorted(window.patterns, key=lambda one: one.function_id))
    return replace(window, identity=replace(window.identity, team=""), patterns=ordered)


@pytest.mark.parametrize("start", [prometheus, victoria_metrics])
def test_real_servers_give_the_same_from_either_layout(start: object, tmp_path: Path) -> None:
    with start(tmp_path) as backend:  # type: ignore[operator]
        writers = [Writer(f"{backend.url}/api/v1/write", team, time.time, vec=team == "vec")
                   for team in ("labels", "vec")]  # fmt: skip
        for writer in writers:
            writer.write._pause = writer.write._ending.wait
            writer.write.push()
            assert (writer.odd, writer.failures) == ([], [])
        series = backend.query('count({team="vec",__name__=~"eroica_pattern_.*_ratio"})')
        assert series == []
        reader = BackendReader(Backend(backend.url))

        def both() -> list[WorkerWindow]:
            return [comparable(one) for team in ("labels", "vec") for one in reader.windows(Wanted(team=team))]

        wait_until(lambda: len(both()) == 2, "both workers' windows")
        labels, vec = both()
        assert vec == labels
        assert vec.window_id == worker_window().window_id


def test_a_backend_that_deduplicates_is_found_out_before_anything_is_lost(tmp_path: Path) -> None:
    with victoria_metrics(tmp_path, options=["-dedup.minScrapeInterval=1s"]) as backend:
        writer = Writer(f"{backend.url}/api/v1/write", "vision", time.time, vec=True)
        writer.write._pause = writer.write._ending.wait
        writer.write.push()
        (said,) = writer.odd
        assert f"of {PROBE_SLOTS} samples that are 1 ms apart; does it deduplicate?" in said
        reader = BackendReader(Backend(backend.url))
        wait_until(lambda: len(list(reader.windows(Wanted()))) == 1, "the window in the layout of labels")
        (found,) = reader.windows(Wanted())
        assert {one.function_id for one in found.patterns} == {one.function_id for one in worker_window().patterns}
        assert backend.query("eroica_vector") == []
        assert len(window_points(found)) > 40


def test_identity_is_on_every_vector() -> None:
    layout = VecLayout(())
    _, found, own = layout.split(page(worker_window(identity=identity(rank=5))))
    assert all(dict(labels)["rank"] == "5" for labels, _ in layout.rows(found, own))
