from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from backends import NOW, BackendServer, backend
from eroica_otel import names
from eroica_otel.errors import ConfigError
from eroica_otel.job import Localizer
from eroica_otel.jobfaults import Faults
from eroica_otel.jobinlet import Inlet
from eroica_otel.joboptions import JobOptions, Judge
from eroica_otel.jobsources import Places, Sources, check_backend
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Report
from eroica_otel.query.client import Backend
from eroica_otel.query.store import Store
from eroica_otel.statefolder import Reference
from eroica_otel.webserver import Address
from factories_central import LOOPBACK, WINDOW, fetch, most_python, send_windows, windows

WHOLE = {"compute": 0.4, "communication": 0.3, "python": 0.1, "idle": 0.2}


def nowhere() -> Inlet:
    return Inlet(Store(), print, print, print, time.monotonic)


class Desk:
    """Localizers that read one backend; looks and rounds are made by the test, not by threads."""

    def __init__(self, folder: Path, server: BackendServer, stack: ExitStack) -> None:
        self.folder, self.server, self._stack = folder, server, stack
        self._open: list[Localizer] = []
        self.now = 1000.0
        self.lines: list[str] = []
        self.verdicts: list[Report] = []

    def localizer(
        self, url: str = "", listen: Address | None = None, judge: Judge = most_python, **options: Any
    ) -> Localizer:  # fmt: skip
        made = Localizer(
            JobOptions(listen, LOOPBACK, str(self.folder), backend=Backend(url or self.server.url), **options),
            judge,
            progress=self.lines.append,
            verdict=self.verdicts.append,
            clock=lambda: self.now,
            wall=lambda: 1_764_430_100.0,
        )
        self._stack.callback(self.end, made)
        self._open.append(made)
        reader = made.sources.reader
        assert reader is not None
        reader.start = lambda: None  # type: ignore[method-assign]
        made.start()
        return made

    def end(self, localizer: Localizer) -> None:
        """Close it unless that was done."""
        if localizer in self._open:
            self._open.remove(localizer)
            localizer.close()

    def look(self, localizer: Localizer) -> None:
        reader = localizer.sources.reader
        assert reader is not None
        reader.look()
        localizer.round()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(tmp_path / "state", stack.enter_context(backend()), stack)


def values(localizer: Localizer, metric: names.Metric) -> dict[tuple[str, ...], float]:
    """Return the series of a metric on /metrics by the values of its labels in the order of /metrics."""
    status, body = fetch(f"{localizer.metrics.url}/metrics")
    assert status == 200
    found: Iterator[tuple[str, Mapping[str, str], float]] = (
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    )
    return {tuple(labels.values()): value for name, labels, value in found if name == metric.name}


def test_a_window_that_is_read_is_judged_like_one_that_is_received(desk: Desk) -> None:
    desk.server.samples.scrape(NOW - 20, NOW, _windows([2]))
    localizer = desk.localizer()
    desk.look(localizer)
    (report,) = desk.verdicts
    assert [finding.ranks for finding in report.findings] == [(2,)]
    assert values(localizer, names.LOCALIZER_QUERIES)[("ok",)] == 6
    assert values(localizer, names.LOCALIZER_REQUESTS) == {}
    assert values(localizer, names.LOCALIZER_FAILURES)[("query",)] == 0


def _windows(slow: list[int], **changes: Any) -> list[Any]:
    """Return windows whose kinds sum to 1."""
    rest = {"compute": 0.4, "communication": 0.05, "python": 0.5, "idle": 0.05}
    return [windows(slow, kinds=rest if rank in slow else WHOLE, **changes)[rank] for rank in range(4)]


def test_after_a_restart_nothing_is_judged_twice(desk: Desk) -> None:
    desk.server.samples.scrape(NOW - 20, NOW, _windows([2]))
    first = desk.localizer()
    desk.look(first)
    desk.end(first)
    desk.server.samples.scrape(NOW, NOW + 30, _windows([2]))
    second = desk.localizer()
    desk.server.samples.now += 30
    desk.look(second)
    assert len(desk.verdicts) == 1
    assert [finding.ranks for finding in second.open_findings()] == [(2,)]
    desk.server.samples.scrape(NOW + 30, NOW + 50, _windows([], window_id=WINDOW + 60, reason="manual"))
    desk.server.samples.now += 20
    desk.look(second)
    assert [report.window_id for report in desk.verdicts] == [WINDOW, WINDOW + 60]


def test_missing_workers_are_waited_for_by_the_spacing_of_the_samples(desk: Desk) -> None:
    desk.server.samples.scrape(NOW - 120, NOW + 1, _windows([2])[:3], step=60)
    localizer = desk.localizer()
    desk.look(localizer)
    desk.now += 2.5 * 60 - 1
    localizer.round()
    assert desk.verdicts == []
    desk.now += 1
    localizer.round()
    assert [report.missing_ranks for report in desk.verdicts] == [(3,)]


def test_both_sources_at_once_judge_a_window_once_and_see_no_doubles(desk: Desk) -> None:
    desk.server.samples.scrape(NOW - 20, NOW, _windows([2]))
    localizer = desk.localizer(listen=LOOPBACK)
    for _ in range(3):
        send_windows(localizer.receiver.url, _windows([2]))
        desk.look(localizer)
        desk.now += 5
        desk.server.samples.scrape(desk.server.samples.now, desk.server.samples.now + 4, _windows([2]))
        desk.server.samples.now += 5
    assert len(desk.verdicts) == 1
    assert values(localizer, names.DUPLICATES) == {("vision", "llm-7b"): 0}
    assert values(localizer, names.LOCALIZER_REQUESTS)[("accepted",)] == 12


def test_a_backend_that_is_away_at_the_start_is_said_counted_and_tried_again(desk: Desk) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        localizer = desk.localizer(url)
        for _ in range(2):
            desk.look(localizer)
    assert desk.lines == [
        f"cannot read {url}: Connection refused; is it running, and is the address right?; trying again every 5 s"
    ]
    assert values(localizer, names.LOCALIZER_FAILURES)[("query",)] == 2
    assert values(localizer, names.LOCALIZER_QUERIES)[("unreachable",)] == 2
    assert fetch(f"{localizer.metrics.url}/-/ready")[0] == 200


def test_what_nobody_foresaw_in_a_look_is_counted_and_the_thread_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    faults = Faults()
    with backend() as server:
        sources = Sources(Places(None, Backend(server.url)), nowhere(), say=print, faults=faults)
        assert sources.reader is not None
        sources.reader._asker.look = lambda back: 1 / 0  # type: ignore[method-assign, assignment, return-value]
        assert sources.reader._once() == 5.0  # the thread goes on
    assert faults.counts()["query"] == 1
    assert "ZeroDivisionError" in caplog.text


def test_without_any_source_there_is_no_localizer() -> None:
    with pytest.raises(ConfigError, match="no source"):
        Sources(Places(), nowhere(), say=print, faults=Faults())


@pytest.mark.parametrize(
    ("url", "flag"),
    [("http://127.0.0.1:4318", "--listen"), ("http://localhost:9465/x", "--metrics"), ("https://node:443", "--push")],
)
def test_a_localizer_does_not_read_itself(url: str, flag: str) -> None:
    own = (Address("127.0.0.1", 4318, "--listen"), Address("::1", 9465, "--metrics"), Address("node", 443, "--push"))
    with pytest.raises(ConfigError, match=f"own {flag}"):
        check_backend(Backend(url), *own)
    check_backend(Backend("http://127.0.0.1:9090"), *own)
    check_backend(Backend("https://node:9465"), *own)


def test_a_restarted_localizer_reads_back_to_when_the_one_before_it_looked_last(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(backend())
        desk = Desk(tmp_path, server, stack)
        first = desk.localizer()
        assert first.sources.reader is not None
        assert first.sources.reader.missed_seconds == 0.0
        first.round()
        desk.end(first)
        left = 1_764_430_100.0 - 1200
        os.utime(tmp_path / "localizer" / "lock", (left, left))
        second = desk.localizer()
        assert second.sources.reader is not None
        assert second.sources.reader.missed_seconds == 1200.0


def judged_for_real(desk: Desk, large: int, **options: Any) -> Localizer:
    """Return a localizer with the judge that people get; jobs of ``large`` workers are read into tables."""
    localizer = desk.localizer(judge=judge, **options)
    reader = localizer.sources.reader
    assert reader is not None
    reader._large = large
    return localizer


@pytest.mark.parametrize("large", [4, 5])
def test_a_large_job_is_judged_by_tables_as_another_is_by_windows(desk: Desk, large: int) -> None:
    """The reference of the large one is the medians of its workers, also after a restart; what it names is the same."""
    before = _windows([], reason="reference")
    desk.server.samples.scrape(NOW - 60, NOW - 40, before)
    first = judged_for_real(desk, large)
    desk.look(first)
    desk.end(first)
    desk.server.samples.scrape(NOW - 20, NOW, _windows([2], window_id=WINDOW + 60))
    second = judged_for_real(desk, large)
    desk.look(second)
    assert [(one.reason, one.workers_seen, one.workers_expected) for one in desk.verdicts] == [
        ("reference", 4, 4), ("degraded", 4, 4),
    ]  # fmt: skip
    (finding,) = desk.verdicts[1].findings
    assert (finding.ranks, finding.hosts, finding.function) == ((2,), ("host-1",), "augment (data.py:42)")
    assert finding.drift_distance is not None  # by the reference
    assert desk.verdicts[1].detail is not None
    assert desk.verdicts[1].detail.reference_iteration_seconds == pytest.approx(5 / 30)  # a window of 5 s
    held = desk.folder / "localizer" / "references"
    (kept,) = [msgspec.msgpack.decode(one.read_bytes(), type=Reference) for one in held.iterdir()]
    assert (len(kept.windows), kept.size) == ((1, 4) if large == 4 else (4, 4))
    (key,) = [key for key in values(second, names.IMPACT) if "host-1" in key]
    assert {"2", "vision", "llm-7b"} <= set(key)


def test_of_more_workers_than_are_followed_the_window_is_judged_with_all_and_what_is_not_seen_is_told(
    desk: Desk,
) -> None:
    desk.server.samples.scrape(NOW - 20, NOW, _windows([2]))
    localizer = judged_for_real(desk, 1, workers=2)
    desk.look(localizer)
    (report,) = desk.verdicts
    assert (report.workers_seen, report.workers_expected, report.missing_ranks) == (4, 4, ())
    assert [finding.ranks for finding in report.findings if finding.severity != "info"] == [(2,)]
    assert localizer.workers_seen() == 2
    (line,) = [line for line in desk.lines if "are followed already" in line]
    assert "2 workers are followed already and no more of llm-7b, so that nobody sees when these hang" in line


def test_of_a_large_job_late_workers_bring_a_second_verdict(desk: Desk) -> None:
    given = _windows([2])
    desk.server.samples.scrape(NOW - 20, NOW, [*given[:2], given[3]])
    localizer = judged_for_real(desk, 2)
    desk.look(localizer)
    assert desk.verdicts == []
    desk.now += 15
    localizer.round()
    assert desk.verdicts[-1].missing_ranks == (2,)
    desk.server.samples.scrape(NOW, NOW + 15, given)
    desk.server.samples.now += 15
    desk.look(localizer)
    last = desk.verdicts[-1]
    assert last.workers_seen == 4
    assert not last.missing_ranks
    assert last.notes[-1].startswith("judged again: rank 2 came after the first verdict")
