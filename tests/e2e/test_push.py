"""Traces pushed by ``eroica-otel analyze`` into real servers: PromQL reads the patterns that --json gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest

from eroica_otel import names
from eroica_otel.commands.main import main
from eroica_otel.model import Report
from eroica_otel.profile import samples
from eroica_otel.publish.report import json
from factories_summarize import capture, identity
from jobs import wait_until
from servers import Server, prometheus, victoria_metrics

GOLDEN = Path(__file__).parent.parent / "golden"
TOP = "6"
"""So few functions that those of two ranks are all in the report."""

Values = dict[tuple[str, int], float]
"""By function_id and rank."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Run both servers; they end with the module."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("servers")
        yield {
            "prometheus": stack.enter_context(prometheus(folder / "prometheus")),
            "victoria-metrics": stack.enter_context(victoria_metrics(folder / "victoria")),
        }


def traces(folder: Path, which: str) -> list[str]:
    """Return two workers, of torch.profiler or of captures of ours, which also tell mu and sigma."""
    if which == "kineto":
        return [str(path) for path in sorted((GOLDEN / "param_dlrm").glob("worker[01]_*"))]
    for rank in range(2):
        (folder / f"rank{rank}").mkdir()
        seen = [(at * 10**8, 1 + (at + rank) // 3 % 2) for at in range(1, 11)]
        cpu = [at * 10**7 * (2 + rank + at % 2) for at in range(10)]
        given = capture(identity=identity(rank), end=10**9, iterations=(0, 5 * 10**8, 10**9), samples=seen, cpu=cpu)
        samples.write(folder / f"rank{rank}", given)
    return [str(folder)]


def pushed(folder: Path, server: Server, job: str, which: str) -> Report:
    """Push the traces and return the report that --json gives beside it."""
    path = folder / "report.json"
    (folder / "traces").mkdir()
    words = ["--job", job, "--top", TOP, "--json", str(path), "--remote-write", f"{server.url}/api/v1/write"]
    assert main(["analyze", *traces(folder / "traces", which), *words]) in (0, 1)
    return json.parse(path.read_text(encoding="utf-8"))


def asked(server: Server, question: str) -> Values:
    return {
        (found["metric"]["function_id"], int(found["metric"]["rank"])): float(found["value"][1])
        for found in server.query(question)
    }


def in_report(report: Report, column: str) -> Values:
    """Return the known values of a column of the report's functions."""
    assert report.detail is not None
    return {
        (one.function_id, rank): value
        for one in report.detail.functions
        for rank, value in zip(report.detail.ranks, getattr(one, column), strict=True)
        if not math.isnan(value)
    }


@pytest.mark.parametrize("which", ["kineto", "capture"])
@pytest.mark.parametrize("backend", ["prometheus", "victoria-metrics"])
def test_promql_reads_what_the_report_says(
    backend: str, which: str, servers: dict[str, Server], tmp_path: Path
) -> None:
    server, job = servers[backend], f"{backend}-{which}"
    report = pushed(tmp_path, server, job, which)
    if backend == "victoria-metrics":  # else it shows new series after some seconds, later still if asked before
        with urlopen(f"{server.url}/internal/force_flush", timeout=20):
            pass
    of_job = f'{{training_job="{job}"}}'
    wait_until(lambda: len(server.query(names.WINDOW_ID.name + of_job)) == 2, "both workers to be there")
    each = f"* on (rank) group_left {names.WINDOW_SECONDS.name}{of_job} / on (rank) group_left " + (
        names.WINDOW_ITERATIONS.name + of_job
    )
    seconds = asked(server, f"{names.PATTERN_BETA.name}{of_job} {each}")
    # The report's numbers are of four bytes.
    assert seconds == pytest.approx(in_report(report, "seconds"), rel=1e-6)
    for metric, column in ((names.PATTERN_MU, "mu"), (names.PATTERN_SIGMA, "sigma")):
        known = in_report(report, column)
        assert asked(server, metric.name + of_job) == pytest.approx(known, rel=1e-6)
        assert bool(known) == (which == "capture")
    window_ids = {float(found["value"][1]) for found in server.query(names.WINDOW_ID.name + of_job)}
    assert window_ids == {float(report.window_id)}
