"""Every query of docs/cookbook.md in a real Prometheus, on the pages of a job of four workers, of which rank 2 is slow.

The answers follow from the pages: iterations of 0.25 s, a quarter slower than the baseline; ``augment`` has a beta of
0.5 at rank 2 and of 0.1 elsewhere, ``all_reduce`` one of 0.05 and of 0.3.
"""

from __future__ import annotations

import math
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill import END, Page, backfill, page_of
from eroica_otel import names
from eroica_otel.publish.series import JobStatus, OpenFinding, job_points
from factories_central import collect, finding, identity, report, windows
from servers import Server, prometheus

COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook.md"
WINDOW = END - 300
Answer = dict[tuple[str, ...], float]
EACH = ("0", "1", "2", "3")
SLOW = "2"


def ranks(**values: float) -> tuple[tuple[str, ...], Answer]:
    """Return an answer about ranks: r0=..., r1=..."""
    return ("rank",), {(name[1:],): value for name, value in values.items()}


JOB = ("training_job",)
ANSWERS: dict[str, tuple[tuple[str, ...], Answer]] = {
    "Which jobs are watched, and with how many workers?": (JOB, {("llm-7b",): 4}),
    "How long does an iteration take, in seconds?": (JOB, {("llm-7b",): 0.25}),
    # All lie between 0.1 and 0.25 s, in which Prometheus interpolates.
    "How long do 99 of 100 iterations take at most, in seconds?": (JOB, {("llm-7b",): 0.1 + 0.99 * 0.15}),
    "By which share is each job slower than its own baseline?": (JOB, {("llm-7b",): 0.25}),
    "How many workers are in which state?": (("state",), {("degraded",): 4}),
    "Which share of its time does each rank wait for input?": ranks(r0=0.1, r1=0.1, r2=0.3, r3=0.1),
    "What slows the jobs now, the largest first?": (
        ("rank", "host", "cause"),
        {("2", "host-1", "python_overhead"): 0.4},
    ),
    "How many workers' worth of time does each job lose to its largest finding?": (JOB, {("llm-7b",): 1.6}),
    "Which machines have culprits, and in how many jobs?": (("host",), {("host-1",): 1}),
    "How many workers wait for each culprit?": (("cause",), {("python_overhead",): 3}),
    "How old is the latest verdict on each job, in seconds?": (JOB, {("llm-7b",): 200}),
    "On what is the critical path of a job spent? The five largest functions.": (
        ("function", "kind"),
        {
            ("matmul", "compute"): 0.4,
            ("all_reduce", "communication"): (3 * 0.3 + 0.05) / 4,
            ("augment (data.py:42)", "python"): (3 * 0.1 + 0.5) / 4,
        },
    ),
    "By how much is each rank above the median of its job in one function?": ranks(r2=0.4),
    # The localizer's median is 0.125 and its MAD 0.025.
    "Which ranks are beyond five median absolute deviations, by the localizer's own figures?": ranks(r2=0.5),
    "By how much has the median of each function changed since the healthy reference?": (
        ("component",),
        {("beta",): 0.0, ("mu",): 0.5 - 0.4},
    ),
    "How hard does each rank use the resource of its largest computing function?": ranks(
        **{f"r{r}": 0.02 for r in EACH}
    ),
    "How does each rank divide its time between kinds?": (
        ("rank", "kind"),
        {
            (rank, kind): beta
            for rank in EACH
            for kind, beta in (
                ("compute", 0.4),
                ("communication", 0.05 if rank == SLOW else 0.3),
                ("python", 0.5 if rank == SLOW else 0.1),
                ("idle", 0.05),
            )
        },
    ),
    "Who waits least for the others? The culprit mostly does.": ranks(r2=0.05),
    "Which ranks run on which machine?": (("host",), {("host-0",): 2, ("host-1",): 2}),
    "How long ago, in seconds, was the latest window decided, and why?": (("reason",), {("degraded",): 300}),
    "For how long, in seconds, did training stand still for it?": (JOB, {("llm-7b",): 0.5}),
    "How much of a core does the helper process of each rank take?": ranks(r0=0.02, r1=0.02, r2=0.02, r3=0.02),
    "Which ranks cannot deliver, and by which way?": (("rank", "delivery"), {("3", "otlp"): 0.1}),
}
COUNTED = "How many series does each worker have?"


def questions() -> dict[str, str]:
    """Return the queries of the cookbook by their question, the first line of each."""
    blocks = re.findall(r"```promql\n# (.*?)\n(.*?)```", COOKBOOK.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == COOKBOOK.read_text("utf-8").count("```promql")
    return dict(blocks)


def worker(rank: int) -> Page:
    """Return the page of a worker: its window, and what it shows all the time."""
    (given,) = (each for each in windows(slow=[2], window_id=WINDOW, blocked_seconds=0.5) if each.identity.rank == rank)
    lines = [page_of(collect(given))]
    growth: dict[str, float] = {}
    period = names.ITERATION_PERIOD.name
    for name, more, each_second in (
        (f"{period}_sum", "", 1.0),
        (f"{period}_count", "", 4.0),
        (f"{period}_bucket", ',le="0.1"', 0.0),
        (f"{period}_bucket", ',le="0.25"', 4.0),
        (f"{period}_bucket", ',le="+Inf"', 4.0),
        (names.INPUT_WAIT.name, "", 0.3 if rank == 2 else 0.1),
        (names.HELPER_CPU.name, "", 0.02),
        (names.DELIVERIES.name, ',delivery="otlp",outcome="sent"', 0.1),
        (names.DELIVERIES.name, ',delivery="otlp",outcome="failed"', 0.1 if rank == 3 else 0.0),
        (names.DEGRADATION_RATIO.name, "", 0.0),
    ):
        labels = ",".join(f'{label}="{value}"' for label, value in given.identity.labels().items())
        series = f"{name}{{{labels}{more}}}"
        lines.append(f"{series} {0.25 if name == names.DEGRADATION_RATIO.name else 0.0}")
        growth[series] = each_second
    return Page(
        "\n".join(lines), {"job": "training", "instance": f"{given.identity.host}:{9464 + rank % 2}"}, {}, growth
    )


def localizer() -> Page:
    opened = OpenFinding(finding(ranks=(2,), hosts=("host-1",)), WINDOW, "degraded", (identity(2),), 3, "other")
    status = JobStatus("llm-7b", "vision", 4, (opened,), report(window_id=WINDOW), 0, END - 200.0, 0.1)
    return Page(page_of(job_points(status)), {"job": "eroica", "instance": "localizer:9465"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("cookbook")
    backfill(folder, [*(worker(rank) for rank in range(4)), localizer()])
    with prometheus(folder) as running:
        yield running


def ask(server: Server, query: str, labels: tuple[str, ...]) -> Answer:
    asked = urllib.parse.urlencode({"query": query, "time": END})
    found = server.get(f"/api/v1/query?{asked}")["data"]["result"]
    answer = {tuple(row["metric"].get(label, "") for label in labels): float(row["value"][1]) for row in found}
    assert len(answer) == len(found), "two series with these labels"
    return answer


def test_there_are_twenty_queries_and_each_has_an_answer() -> None:
    assert sorted(questions()) == sorted([*ANSWERS, COUNTED])
    assert len(ANSWERS) >= 20


@pytest.mark.parametrize("question", ANSWERS)
def test_a_query_answers_its_question(question: str, server: Server) -> None:
    labels, expected = ANSWERS[question]
    answer = ask(server, questions()[question], labels)
    assert answer.keys() == expected.keys()
    for key, value in expected.items():
        assert math.isclose(answer[key], value, rel_tol=1e-6, abs_tol=1e-9), key


def test_the_series_of_a_worker_are_counted(server: Server) -> None:
    page = worker(0).text
    (counted,) = ask(server, questions()[COUNTED], JOB).values()
    # Of the slow rank the localizer shows the stack, too.
    assert counted == len({line.rsplit(" ", 1)[0] for line in page.splitlines()}) + 1
