"""Remote write: what is sent, to a server that answers as it is told; real servers store what a scrape gives."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import numpy as np
import pytest

from eroica_otel.config import WorkerConfig
from eroica_otel.demo.stage import free_port
from eroica_otel.export import pull
from eroica_otel.export.board import Board
from eroica_otel.export.instruments import create
from eroica_otel.export.outlet import Outlet
from eroica_otel.export.points import window_points
from eroica_otel.export.remotewire import STALE_BITS
from eroica_otel.query.client import Backend
from eroica_otel.query.decode import decode
from eroica_otel.query.look import SETTLE_SECONDS
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.prometheus import PrometheusSource
from factories_worker import FakeClock, identity, worker_window
from jobs import wait_until
from remote_write import Sample, Writer, WriteServer, series
from servers import Server, prometheus, victoria_metrics


@pytest.fixture
def server() -> Iterator[WriteServer]:
    made = WriteServer()
    yield made
    made.close()


def named(samples: list[Sample], name: str) -> list[Sample]:
    return [sample for sample in samples if sample[0]["__name__"] == name]


def test_every_series_of_a_scrape_is_sent_with_job_and_instance(server: WriteServer) -> None:
    writer = Writer(server.url)
    writer.write.push()
    sent = series(server.bodies[0])
    shown = [
        {"__name__": sample.name, **{key: value for key, value in sample.labels.items() if value}}
        for family in writer.registry.collect()
        for sample in family.samples
    ]
    added = {"job": "vision/llm-7b", "instance": "rank-0"}
    assert sorted(map(str, (labels for labels, _, _ in sent))) == sorted(
        str(dict(sorted((labels | added).items()))) for labels in shown
    )
    assert {stamp for _, _, stamp in sent} == {1_764_430_000_000}
    assert writer.counts() == (1, 0)
    assert writer.write.tally.last_sent_ns > 0


def test_histograms_are_cumulative_and_end_with_infinity(server: WriteServer) -> None:
    writer = Writer(server.url)
    writer.write.push()
    buckets = named(series(server.bodies[0]), "eroica_iteration_period_seconds_bucket")
    values = {labels["le"]: np.array([bits], np.uint64).view(np.float64)[0] for labels, bits, _ in buckets}
    assert [values["0.1"], values["0.25"], values["0.5"], values["+Inf"]] == [0, 1, 2, 2]
    assert named(series(server.bodies[0]), "eroica_iteration_period_seconds_count")


def test_without_a_team_the_job_is_the_trainings_name_and_there_is_no_empty_label(server: WriteServer) -> None:
    Writer(server.url, team="").write.push()
    for labels, _, _ in series(server.bodies[0]):
        assert labels["job"] == "llm-7b"
        assert "team" not in labels
        assert all(labels.values())


def test_a_series_that_disappears_is_ended_once(server: WriteServer) -> None:
    writer = Writer(server.url)
    writer.write.push()
    patterns = named(series(server.bodies[0]), "eroica_pattern_beta_ratio")
    writer.board.show(())
    writer.write.push()
    writer.write.push()
    ended = named(series(server.bodies[1]), "eroica_pattern_beta_ratio")
    assert [labels for labels, _, _ in ended] == [labels for labels, _, _ in patterns]
    assert {bits for _, bits, _ in ended} == {STALE_BITS}
    assert named(series(server.bodies[2]), "eroica_pattern_beta_ratio") == []


def test_a_series_is_ended_although_the_delivery_in_between_failed(server: WriteServer) -> None:
    writer = Writer(server.url)
    writer.write.push()
    server.answers = [400]
    writer.board.show(())
    writer.write.push()
    writer.write.push()
    assert {bits for _, bits, _ in named(series(server.bodies[2]), "eroica_pattern_beta_ratio")} == {STALE_BITS}


def test_the_end_ends_every_series(server: WriteServer) -> None:
    writer = Writer(server.url)
    writer.write.push()
    writer.write.close()
    first, last = series(server.bodies[0]), series(server.bodies[1])
    assert [labels for labels, _, _ in last] == [labels for labels, _, _ in first]
    assert {bits for _, bits, _ in last} == {STALE_BITS}


def test_time_never_goes_back(server: WriteServer) -> None:
    writer = Writer(server.url)
    writer.write.push()
    writer.wall.now -= 3600
    writer.write.push()
    assert series(server.bodies[1])[0][2] == 1_764_430_000_001


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_busy_server_is_asked_again_twice_with_the_same_body(server: WriteServer, code: int) -> None:
    writer = Writer(server.url)
    server.answers = [code, code]
    writer.write.push()
    assert writer.counts() == (1, 0)
    assert writer.pauses == [1.0, 2.0]
    assert len(set(server.bodies)) == 1
    server.answers = [code] * 9
    writer.write.push()
    assert writer.counts() == (1, 1)
    assert len(server.bodies) == 6
    assert f"answered {code}" in writer.failures[0]


def test_the_servers_wish_for_a_pause_is_heard_up_to_a_limit(server: WriteServer) -> None:
    writer = Writer(server.url)
    server.answers, server.answer_headers = [429, 429], {"Retry-After": "3"}
    writer.write.push()
    server.answers, server.answer_headers = [429], {"Retry-After": "900"}
    writer.write.push()
    assert writer.pauses == [3.0, 3.0, 5.0]


@pytest.mark.parametrize("code", [302, 400, 401, 404])
def test_an_answer_that_will_stay_is_not_asked_for_again(server: WriteServer, code: int) -> None:
    writer = Writer(server.url)
    server.answers, server.answer_headers = [code], {"Location": server.url}
    writer.write.push()
    assert (writer.counts(), len(server.bodies), writer.pauses) == ((0, 1), 1, [])
    assert f"answered {code}" in writer.failures[0]


def test_nobody_there_is_counted_and_told_once() -> None:
    writer = Writer(f"http://127.0.0.1:{free_port()}/api/v1/write")
    writer.write.push()
    writer.write.push()
    assert writer.counts() == (0, 2)
    (why,) = writer.failures
    assert "refused" in why


def test_the_headers_are_those_of_the_protocol_and_the_users(server: WriteServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    writer = Writer(server.url, token_file=str(tmp_path / "token"), headers="X-Scope-OrgID=team%20a, X-Other=b")
    writer.write.push()
    (tmp_path / "token").write_text("second\n")
    writer.write.push()
    sent = {name.lower(): value for name, value in server.headers[0].items()}
    assert sent["content-type"] == "application/x-protobuf"
    assert sent["content-encoding"] == "snappy"
    assert sent["x-prometheus-remote-write-version"] == "0.1.0"
    assert (sent["x-scope-orgid"], sent["x-other"]) == ("team a", "b")
    assert [headers["Authorization"] for headers in server.headers] == ["Bearer first", "Bearer second"]


def test_basic_authentication_takes_the_password_from_its_file(server: WriteServer, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("geheim\n")
    Writer(server.url, user="eroica", password_file=str(tmp_path / "password")).write.push()
    assert server.headers[0]["Authorization"] == f"Basic {base64.b64encode(b'eroica:geheim').decode()}"


def test_a_token_that_cannot_be_read_is_a_delivery_that_failed(server: WriteServer, tmp_path: Path) -> None:
    writer = Writer(server.url, token_file=str(tmp_path / "none"))
    writer.write.push()
    assert writer.counts() == (0, 1)
    assert "No such file" in writer.failures[0]
    assert server.bodies == []


def stored(server: Server, job: str) -> dict[str, float]:
    """Return every series of ``job`` that the server has now, by its labels apart from job and instance."""
    found = server.query(f'{{__name__=~"eroica_.+", job="{job}"}}')
    return {
        str(sorted((key, value) for key, value in one["metric"].items() if key not in ("job", "instance"))): float(
            one["value"][1]
        )
        for one in found
    }


@pytest.mark.parametrize("kind", ["prometheus", "victoria_metrics"])
def test_what_is_written_is_what_a_scrape_of_the_same_worker_gives(kind: str, tmp_path: Path) -> None:
    port = free_port()
    start = prometheus if kind == "prometheus" else victoria_metrics
    with start(tmp_path, {"scraped": [f"127.0.0.1:{port}"]}) as server:
        writer = Writer(f"{server.url}/api/v1/write", wall=time.time)
        close = pull.serve(writer.registry, "127.0.0.1", port)
        try:
            writer.write.push()
            assert writer.failures == []
            wait_until(lambda: bool(stored(server, "scraped")), "a scrape")
            wait_until(lambda: bool(stored(server, "vision/llm-7b")), "the written series")
            written = stored(server, "vision/llm-7b")
            assert written == stored(server, "scraped")
            assert len(written) > 100
            writer.write.close()
            wait_until(lambda: stored(server, "vision/llm-7b") == {}, "the series to end at once")
        finally:
            close()


def windows_read(server: Server) -> list[str]:
    """Return the teams of the workers whose window the localizer reads there."""
    deliveries: list[Delivery] = []
    clock = FakeClock()
    source = PrometheusSource(Backend(server.url), deliveries.append, clock=clock)
    for _ in range(3):
        source.look()
        clock.now += SETTLE_SECONDS
    windows = [decode(delivery.points) for delivery in deliveries]
    return [window.identity.team for window in windows if window is not None]


@pytest.mark.parametrize(("ahead", "words"), [(3700.0, "1.0 h ahead of"), (-3700.0, "1.0 h behind")])
def test_a_worker_whose_clock_is_an_hour_off_is_seen_told_and_hides_nobody(
    ahead: float, words: str, tmp_path: Path
) -> None:
    """As it is installed, Prometheus would take the samples of the future and refuse all of the present after them."""
    port = free_port()
    scrape = f"scrape_configs: [{{job_name: scraped, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]"
    with prometheus(tmp_path, config=f"global: {{scrape_interval: 1s}}\n{scrape}\n") as server:
        url = f"{server.url}/api/v1/write"
        off, right = Writer(url, "off", wall=lambda: time.time() + ahead), Writer(url, "right", wall=time.time)
        close = pull.serve(right.registry, "127.0.0.1", port)
        try:
            for _ in range(2):
                off.write.push()
                right.write.push()
            assert (off.counts(), right.counts(), off.failures) == ((2, 0), (2, 0), [])
            assert stored(server, "off/llm-7b").keys() == {
                key.replace("'right'", "'off'") for key in stored(server, "right/llm-7b")
            }
            wait_until(lambda: bool(stored(server, "scraped")), "a scrape, although somebody writes from the future")
            assert set(windows_read(server)) == {"off", "right"}
        finally:
            close()
    (said,) = off.odd
    assert f"the clock of this machine is {words} that of the server" in said
    assert right.odd == []


def test_where_the_server_tells_no_time_it_is_asked_for_once_and_the_machines_own_counts(server: WriteServer) -> None:
    writer = Writer(server.url)
    for _ in range(2):
        writer.write.push()
        writer.wall.now += 10
    assert [series(body)[0][2] for body in server.bodies] == [1_764_430_000_000, 1_764_430_010_000]
    assert (server.asked, writer.odd) == (1, [])


@pytest.mark.parametrize("answers", [[], [500], [429, 204]])
def test_the_time_is_known_before_the_first_sample_and_followed_by_every_answer(
    server: WriteServer, answers: list[int]
) -> None:
    server.answer_headers = {"Date": formatdate(1_764_430_000, usegmt=True)}
    writer = Writer(server.url, wall=FakeClock(1_764_433_600.0))
    server.answers = answers
    writer.write.push()
    assert 0 <= series(server.bodies[0])[0][2] - 1_764_430_000_000 < 60_000
    server.answer_headers = {"Date": formatdate(1_764_430_300, usegmt=True)}
    for _ in range(2):
        writer.write.push()
    assert 0 <= series(server.bodies[-1])[0][2] - 1_764_430_300_000 < 60_000
    assert (server.asked, len(writer.odd)) == (1, 1)


def test_a_wrong_clock_is_a_failure_of_the_delivery_although_all_arrives(server: WriteServer) -> None:
    server.answer_headers = {"Date": formatdate(time.time() - 7200, usegmt=True)}
    failures: list[tuple[str, str]] = []
    config = WorkerConfig(deliveries="remote_write", remote_write_url=server.url)
    outlet = Outlet({}, identity(), 1, lambda stage, text: failures.append((stage, text)), config)
    board = Board()
    create(outlet.meter(), board)
    board.show(window_points(worker_window()))
    outlet.start()
    outlet.stop(20)
    ((stage, text),) = failures
    assert stage == "delivery"
    assert text.startswith(f"{server.url}: the clock of this machine is 2.0 h ahead of that of the server")
    assert outlet.counts() == {("remote_write", "sent"): 2, ("remote_write", "failed"): 0}


def test_the_end_of_a_worker_is_one_more_delivery_and_the_end_of_its_series(server: WriteServer) -> None:
    config = WorkerConfig(deliveries="remote_write", remote_write_url=server.url)
    failures: list[str] = []
    outlet = Outlet({}, identity(), 1, lambda stage, text: failures.append(text), config)
    board = Board()
    create(outlet.meter(), board)
    board.show(window_points(worker_window()))
    outlet.start()
    outlet.stop(20)
    sent, ended = map(series, server.bodies)
    assert [labels for labels, _, _ in ended] == [labels for labels, _, _ in sent]
    assert {bits for _, bits, _ in ended} == {STALE_BITS}
    assert outlet.counts()["remote_write", "failed"] == 0
    assert failures == []
