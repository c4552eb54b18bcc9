"""Names that a worker may send, however bad: series stay parseable, files in their folder, pages free of markup."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from eroica_otel import names
from eroica_otel.job import Localizer
from eroica_otel.joboptions import JobOptions
from eroica_otel.localize.verdict import judge
from eroica_otel.model import WorkerWindow
from eroica_otel.publish.report import html, terminal
from eroica_otel.publish.report import json as report_json
from factories_central import LOOPBACK, collect, fetch, identity, pattern, request, send, send_windows, windows

JOBS = ["../../x", "a/b", "con", "two\nlines\r\tand\x1b[2J", '"quoted" \\back\\slash\\n', "<script>alert(1)</script>",
        "j" * 10_000, "x{y=\"z\"} 1\n# HELP", "ünï ☃", "%2e%2e%2f", "a.json", "\x00nul", "?team=x#y"]  # fmt: skip
FUNCTIONS = ['f"quoted"', "back\\slash\\", "new\nline", "<img src=x onerror=alert(1)>", "a > b > c", "f" * 10_000, ""]


class Desk:
    """One real localizer with its folder and the lines it said."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lines = folder / "reports", list[str]()
        self.folder.mkdir()
        renderers = {"json": report_json.render, "html": html.render}
        options = JobOptions(
            LOOPBACK, LOOPBACK, str(folder / "state"), folder=str(self.folder), renderers=renderers,
            thresholds={"material": 0.05},
        )  # fmt: skip
        self.printed = list[str]()
        self.localizer = Localizer(
            options,
            judge,
            progress=self.lines.append,
            verdict=lambda report: self.printed.append(terminal.render(report)),
            wall=lambda: 1_764_430_100.0,
        )
        self.localizer.start()

    def judge(self, given: list[WorkerWindow]) -> None:
        send_windows(self.localizer.receiver.url, given)
        self.localizer.round()

    def metrics(self, accept: str = "") -> str:
        asked = urllib.request.Request(f"{self.localizer.metrics.url}/metrics", headers={"Accept": accept})
        status, body = fetch(asked)
        assert status == 200
        return body.decode()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.localizer.close()


def named(job: str, function: str = "augment") -> list[WorkerWindow]:
    """Return a window with a culprit whose function has this name."""
    return [
        replace(
            window,
            identity=identity(window.identity.rank, training_job=job, team=""),
            patterns=tuple(
                replace(one, function=function, stack=("train:main:10", f"data:{function}:42"))
                if one.kind == "python"
                else one
                for one in window.patterns
            ),
        )
        for window in windows(slow=[2])
    ]


def kept(job: str) -> str:
    return job[:256]


def test_series_of_every_name_are_parsed_back(desk: Desk) -> None:
    for job in JOBS:
        desk.judge(named(job))
    text = {sample.labels["training_job"] for family in parse_text(desk.metrics()) for sample in family.samples
            if sample.name == names.ANOMALIES.name}  # fmt: skip
    assert text == {kept(job) for job in JOBS}
    openmetrics = desk.metrics("application/openmetrics-text; version=1.0.0")
    assert {family.name for family in parse_openmetrics(openmetrics)} >= {names.ANOMALIES.name, names.IMPACT.name}  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_every_name_are_found_shown_and_parsed_back(function: str, desk: Desk) -> None:
    desk.judge(named("llm-7b", function))
    found = [sample.labels["function"] for family in parse_text(desk.metrics()) for sample in family.samples
             if sample.name == names.IMPACT.name]  # fmt: skip
    assert found == [function[:256]]
    page = (desk.folder / "report.html").read_text()
    assert "<img src=x" not in page
    assert json.loads((desk.folder / "report.json").read_text())["findings"][0]["function"] == function[:256]
    assert "\nline" not in desk.printed[0]


def test_files_stay_in_the_folder_and_every_job_has_its_own(desk: Desk, tmp_path: Path) -> None:
    for job in JOBS:
        desk.judge(named(job))
    files = [path for path in tmp_path.rglob("*") if path.name.startswith("report.")]
    assert all(desk.folder in path.parents for path in files)
    held = {json.loads(path.read_text())["training_job"] for path in files if path.suffix == ".json"}
    assert held == {kept(job) for job in JOBS}


@pytest.mark.parametrize("job", JOBS)
def test_the_page_of_every_job_is_found_under_its_quoted_name(job: str, desk: Desk) -> None:
    desk.judge(named(job))
    where = f"{desk.localizer.metrics.url}/report/{quote(kept(job), safe='')}"
    status, body = fetch(f"{where}.json")
    assert (status, json.loads(body)["training_job"]) == (200, kept(job))
    status, body = fetch(f"{where}.html")
    assert status == 200
    assert b"<script" not in body


def test_what_is_not_there_is_answered_without_markup_of_its_name(desk: Desk) -> None:
    desk.judge(named("llm-7b"))
    for path in ("%3Cscript%3E.html", "..%2f..%2fetc%2fpasswd.json", "llm-7b", "llm-7b.exe", ".", "a%0d%0ab.json"):
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(f"{desk.localizer.metrics.url}/report/{path}", timeout=20)
        with raised.value as error:
            assert (error.code, error.headers.get_content_type()) == (404, "text/plain")
            assert b"\r" not in error.read()


def test_no_name_moves_the_cursor_of_who_reads_the_progress(desk: Desk) -> None:
    for job in JOBS:
        desk.judge(named(job))
    assert all(line.isprintable() for line in desk.lines)
    assert all(line.isprintable() for text in desk.printed for line in text.split("\n"))


def test_a_lone_surrogate_is_a_bad_request(desk: Desk) -> None:
    body = request(collect(windows()[0])).SerializeToString().replace(b"llm-7b", b"ll\xed\xa0\x80b")
    assert send(desk.localizer.receiver.url, body)[0] == 400
    text = b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"\\ud800"}]}]}]}'
    assert send(desk.localizer.receiver.url, text, {"Content-Type": "application/json"})[0] in (200, 400)
    desk.localizer.round()


def test_an_empty_function_id_is_a_function(desk: Desk) -> None:
    odd = [replace(window, patterns=(*window.patterns, pattern("", beta=0.01))) for window in named("llm-7b")]
    desk.judge(odd)
    assert len(desk.printed) == 1
