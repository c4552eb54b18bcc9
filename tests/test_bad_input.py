"""What workers and backends may hold, by each door of the localizer: delivered to it, or read from a Prometheus, worker
by worker or, as of large jobs, in tables.

The verdict stays right, and nothing in a label is executed, stands unescaped in a question, or becomes markup.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families

from backends import NOW, BackendServer, backend
from eroica_otel import names
from eroica_otel.job import Localizer
from eroica_otel.joboptions import JobOptions
from eroica_otel.localize.verdict import judge
from eroica_otel.model import SCHEMA, Collective, Finding, Pattern, Point, Report, WorkerWindow
from eroica_otel.publish.report import html, terminal
from eroica_otel.publish.report import json as report_json
from eroica_otel.query.client import Backend
from factories_central import (
    LOOPBACK,
    WINDOW,
    all_reduce,
    collect,
    fetch,
    identity,
    pattern,
    request,
    send,
    send_windows,
    window,
    windows,
)  # fmt: skip

KEPT = 256
"""Characters of a label that are kept."""
TEXTS = {
    "quotes": '"quoted" \\back\\slash\\ \\n',
    "newlines": "two\nlines\r\tand\x1b[2J",
    "10 kB": "x" * 10_000,
    "HTML": "</script><script>alert(1)</script><img src=x onerror=alert(1)>'\"><u>",
    "PromQL": '"} or vector(1) or {a=~".*',
    "templates": "$(touch x) `id` {{ .Labels }} ${HOME} %s%n {0.__class__} {self}",
    "other letters": "ünï ☃ \u202e 日本",
}


class Door:
    """One real localizer, and a way for windows to come to it; its clocks stand still."""

    def __init__(self, folder: Path, server: BackendServer | None, *, tables: bool = False) -> None:
        self.now, self.verdicts, self.lines, self._server = 1000.0, list[Report](), list[str](), server
        self.folder = folder / "reports"
        self.folder.mkdir()
        options = JobOptions(
            None if server else LOOPBACK,
            LOOPBACK,
            str(folder / "state"),
            folder=str(self.folder),
            renderers={"json": report_json.render, "html": html.render},
            backend=Backend(server.url) if server else None,
        )
        self.localizer = Localizer(
            options, judge, progress=self.lines.append, verdict=self.verdicts.append, clock=lambda: self.now,
            wall=lambda: WINDOW + 3600.0,
        )  # fmt: skip
        if self.reader is not None:
            self.reader.start = lambda: None
            self.reader._large = 1 if tables else 5
        self.localizer.start()
        self._scraped = NOW

    def show_newer(self, one: WorkerWindow) -> None:
        """Let a worker of a newer schema show its window; what is delivered is refused."""
        told = {"version": "9.9", "schema": str(SCHEMA + 1), "component": "worker"}
        points = [*collect(one), Point(names.BUILD_INFO.name, one.identity.labels() | told, 1.0)]
        if self._server is None:
            body = request(points).SerializeToString()
            status, answer = send(self.localizer.receiver.url, body)
            assert (status, b"install that version for the localizer too" in answer) == (400, True)
        else:
            for when in (self._scraped, self._scraped + 5):
                self._server.samples.add(when, points, instance="a")

    def show(self, given: Sequence[WorkerWindow], state: str = "degraded", wait: float = 0.0) -> None:
        """Let workers show their windows, then let the localizer look."""
        if self._server is None:
            send_windows(self.localizer.receiver.url, given, state)
        else:
            self._server.samples.scrape(self._scraped, self._scraped + 10, given, state=state)
            self._scraped += 10
            self._server.samples.now = self._scraped
            for _ in range(2):  # what is there in parts is waited for once
                self.reader.look()
        self.localizer.round()
        self.now += wait
        self.localizer.round()

    @property
    def reader(self) -> Any:
        """What reads the backend."""
        return self.localizer.sources.reader

    def report(self) -> Report:
        """Return the newest verdict."""
        return self.verdicts[-1]

    def alarms(self) -> list[Finding]:
        """Return the findings of the newest verdict that count."""
        return [one for one in self.report().findings if one.severity != "info"]

    def series(self, metric: names.Metric) -> list[dict[str, str]]:
        """Return the labels of a metric's series on /metrics."""
        status, body = fetch(f"{self.localizer.metrics.url}/metrics")
        assert status == 200
        families = text_string_to_metric_families(body.decode())
        return [dict(one.labels) for family in families for one in family.samples if one.name == metric.name]


@pytest.fixture(params=["received", "read", "tables"])
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Door]:
    with ExitStack() as stack:
        server = None if request.param == "received" else stack.enter_context(backend())
        made = Door(tmp_path, server, tables=request.param == "tables")
        stack.callback(made.localizer.close)
        yield made


def changed(rank: int, slow: Sequence[int] = (2,), **changes: Any) -> list[WorkerWindow]:
    """Return the windows of a job of which rank 2 is slow, one rank's with changes."""
    return [replace(one, **changes) if one.identity.rank == rank else one for one in windows(slow)]


def python_of(one: WorkerWindow, **changes: Any) -> tuple[Pattern, ...]:
    """Return the patterns of a window, the Python one with changes."""
    return tuple(replace(each, **changes) if each.kind == "python" else each for each in one.patterns)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_was_not_measured(door: Door, value: float) -> None:
    rank_3 = windows()[3]
    odd = python_of(rank_3, beta=value, mu=value, sigma=value, noise_seconds=value, peaks={"nic_tx": value})
    door.show(changed(3, patterns=odd, cpu_seconds=value, sampler_gap_seconds=value, throttled_ratio=value))
    assert [finding.ranks for finding in door.alarms()] == [(2,)]
    assert all(math.isfinite(finding.impact_ratio) for finding in door.report().findings)
    assert {row["rank"] for row in door.series(names.IMPACT)} == {"2"}
    json.loads((door.folder / "report.json").read_text(), parse_constant=lambda text: pytest.fail(text))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("beta", [1.5, -0.1, 1e300])
def test_a_share_that_is_none_is_left_out_and_counted(door: Door, beta: float) -> None:
    door.show(changed(3, patterns=python_of(windows()[3], beta=beta)))
    assert [finding.ranks for finding in door.alarms()] == [(2,)]
    assert "1 patterns hold no usable share or kind and are not judged" in door.report().notes


@pytest.mark.parametrize(("beta", "found"), [(0.5, [(1,)]), (0.004, [])])
def test_a_function_at_one_worker_alone_is_found_if_it_takes_time(
    door: Door, beta: float, found: list[tuple[int, ...]]
) -> None:
    lonely = pattern("dddddddddddd", function="only_here (a.py:1)", beta=beta, stack=("a:only_here:1",))
    rank_1 = window(1, slow=True)
    patterns = (*(one for one in rank_1.patterns if one.kind != "python"), lonely) if found else None
    given = windows()
    given[1] = replace(rank_1, patterns=patterns) if patterns else replace(
        given[1], patterns=(*given[1].patterns, lonely)
    )  # fmt: skip
    door.show(given)
    assert [finding.ranks for finding in door.alarms()] == found
    assert [finding.function for finding in door.alarms()] == ["only_here (a.py:1)"] * len(found)


def test_all_workers_absent_but_one_blames_nobody_and_names_the_missing(door: Door) -> None:
    door.show(windows([1])[1:2], wait=60.0)
    assert door.report().missing_ranks == (0, 2, 3)
    assert door.report().workers_seen == 1
    assert door.alarms() == []


def test_ranks_that_come_again_after_a_restart_are_no_doubles(door: Door) -> None:
    door.show(windows(reason="reference"))
    again = [replace(one, identity=identity(one.identity.rank, run_id="run-1", restart=1), window_id=WINDOW + 60)
             for one in windows([2])]  # fmt: skip
    door.show(again)
    assert door.report().workers_seen == 4
    assert [finding.ranks for finding in door.alarms()] == [(2,)]
    assert [note for note in door.report().notes if "live processes" in note] == []


def test_a_rank_that_changes_its_host_is_found_where_it_is(door: Door) -> None:
    door.show(windows(reason="reference"))
    moved = [replace(one, identity=identity(2, host="spare", run_id="run-2")) if one.identity.rank == 2 else one
             for one in windows([2], window_id=WINDOW + 60)]  # fmt: skip
    door.show(moved)
    assert door.report().workers_seen == 4
    assert [(finding.ranks, finding.hosts) for finding in door.alarms()] == [((2,), ("spare",))]
    assert {(row["rank"], row["host"]) for row in door.series(names.IMPACT)} == {("2", "spare")}


def test_a_worker_of_a_newer_schema_is_left_out_by_name_and_the_others_are_judged(door: Door) -> None:
    given = windows([2])
    door.show_newer(given[3])
    door.show(given[:3], wait=60.0)
    assert [finding.ranks for finding in door.alarms()] == [(2,)]
    assert door.report().missing_ranks == (3,)
    text = (
        f"rank 3 of llm-7b sends schema {SCHEMA + 1} (eroica_otel 9.9), this localizer reads {SCHEMA - 1} and {SCHEMA}"
    )
    assert [line for line in door.lines if line.startswith(f"left out: {text}; install that version")] != []


def hostile(text: str) -> list[WorkerWindow]:
    """Return the windows of a job of which rank 2 is slow, with this text in every label that may hold one."""
    given = []
    for one in windows([2]):
        who = identity(one.identity.rank, training_job=text, team=text, host=f"{one.identity.rank} {text}", role=text)
        stack = ("train:main:10", f"data:{text}:42")
        patterns = (
            *(each for each in python_of(one, function=text, family=text, stack=stack) if each.kind != "communication"),
            all_reduce(beta=0.05 if one.identity.rank == 2 else 0.3, collectives=(Collective(text, 60, 4096, 0.002),)),
        )
        unknown = {text: (None, 0.1)}
        given.append(
            replace(one, identity=who, signature=text, unknown=unknown,
                    patterns=tuple(sorted(patterns, key=lambda each: -each.beta)))
        )  # fmt: skip
    return given


class Page(HTMLParser):
    """The elements of a page and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_no_label_is_more_than_text(door: Door, text: str) -> None:
    door.show(hostile(text))
    assert [finding.ranks for finding in door.alarms()] == [(2,)]
    (impact,) = door.series(names.IMPACT)
    kept = text[:KEPT]
    assert (impact["training_job"], impact["team"], impact["role"], impact["function"]) == (kept, kept, kept, kept)
    page = Page((door.folder / "report.html").read_text())
    assert page.tags.isdisjoint({"script", "img", "u", "iframe", "object", "form"})
    assert [name for name, _ in page.attributes if name.startswith("on")] == []
    assert [value for name, value in page.attributes if name in ("href", "src") and "alert" in str(value)] == []
    lines = terminal.render(door.report()).split("\n")
    assert all(line.isprintable() for line in [*lines, *door.lines])


@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_question_holds_a_label_as_one_quoted_value(tmp_path: Path, text: str, *, tables: bool) -> None:
    with backend() as server:
        door = Door(tmp_path, server, tables=tables)
        door.show(hostile(text))
        door.localizer.close()
    asked = [promql_parser.parse(question) for question in server.samples.questions]
    about = [one.vector_selector for one in asked if isinstance(one, promql_parser.MatrixSelector)]
    values = {one.value for each in about for one in each.matchers.matchers if one.name in ("training_job", "team")}
    assert values == ({text} if len(text) <= KEPT else {"x" * KEPT + "(?s:.*)"})
    assert {type(one).__name__ for one in asked} == {"MatrixSelector", "VectorSelector", "BinaryExpr"}


def test_nothing_of_a_label_becomes_a_file_elsewhere(door: Door, tmp_path: Path) -> None:
    for text in ("../../x", "/etc/x", "a/../../b", "~", "con"):
        door.show(hostile(text))
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name.startswith("report.")]
    assert len(files) >= 4
    assert all(door.folder in path.parents for path in files)
