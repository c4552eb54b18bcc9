from __future__ import annotations

import re

import pytest

from eroica_otel.model import Report
from eroica_otel.publish.report.terminal import render
from factories_report import finding, job_finding, quiet, report

ALL = {
    "culprit": report(),
    "several": report(findings=(finding(), finding(ranks=(0,), hosts=("node-a",), severity="warning"))),
    "job": report(findings=(job_finding(),)),
    "info": quiet(findings=(job_finding(severity="info"),)),
    "quiet": quiet(),
    "split": quiet(no_consensus=("aaaaaaaaaaaa",), notes=("no consensus: 1 of 2 nodes differs, no reference window",)),
    "thin": quiet(workers_seen=1, missing_ranks=(1, 2, 3), notes=("not enough evidence: 1 of 4 workers",), detail=None),
}


def test_the_story_reads_as_a_verdict() -> None:
    text = render(
        report(), more=("report: build/demo/report.html", "prompt for an assistant: eroica-otel report --prompt")
    )
    assert (
        text
        == """\
job llm-7b   window 1764430000   degraded   31 iterations, 5.2 s   4 of 4 workers   2.1 s to verdict

CULPRIT   rank 2 on node-c   augment (train:41)   python_overhead
          costs 46 ms of every 212 ms iteration (22 %), high confidence
          own CPU time 44 ms an iteration, its peers 0.4 ms; absent in the reference window
          the others wait for it: rank 2 waits 18 ms in all_reduce, ranks 0, 1, 3 wait 61 to 64 ms
          distance from peers 1.00 (Delta), reference +0.21 (Gamma), expectation 0.21 (D)
          do: move the work into DataLoader workers or off the training thread

victims   ranks 0, 1, 3
ruled out network (link rates at 96 to 99 % of the best), CPU limits (throttled 0 %), input (0.3 ms)

stack     main (train:12) > step (train:30) > augment (train:41)
more      report: build/demo/report.html   prompt for an assistant: eroica-otel report --prompt
"""
    )


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("width", [0, 40, 60, 80, 200])
def test_no_line_is_wider_than_asked(name: str, width: int) -> None:
    text = render(ALL[name], width)
    assert max(len(line) for line in text.splitlines()) <= max(width, 40)
    assert text.endswith("\n")


@pytest.mark.parametrize("name", sorted(ALL))
def test_colour_only_adds(name: str) -> None:
    plain, coloured = render(ALL[name]), render(ALL[name], colour=True)
    assert "\x1b" not in plain
    assert coloured != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("job", "JOB-WIDE  all workers"),
        (
            "quiet",
            "no finding: 4 workers, 42 functions, largest difference 1.8 % of the iteration (all_reduce, rank 1)",
        ),
        ("info", "no finding: 4 workers"),
        ("info", "info      all workers"),
        ("split", "no consensus: 1 of 2 nodes differs, no reference window"),
        ("thin", "not enough evidence: 1 of 4 workers"),
        ("thin", "missing   ranks 1, 2, 3 sent nothing"),
    ],
)
def test_each_outcome_says_so(name: str, words: str) -> None:
    assert words in render(ALL[name])


@pytest.mark.parametrize("name", ["split", "thin"])
def test_the_reason_is_said_once(name: str) -> None:
    assert render(ALL[name]).count(ALL[name].notes[0]) == 1


def test_columns_of_several_findings_stand_below_one_another() -> None:
    heads = [line for line in render(ALL["several"]).splitlines() if line.startswith("CULPRIT")]
    assert len(heads) == 2
    assert len({head.index("augment") for head in heads}) == 1


def test_a_number_is_never_torn_from_its_unit() -> None:
    for width in range(40, 120):
        assert not re.search(r"\d\n *(ms|s|%)(?!\w)", render(report(), width))


def test_names_cannot_move_the_cursor() -> None:
    hostile = report(training_job="a\x1b[2Jb", findings=(finding(function="f\r\nx", evidence=("\x07bell",)),))
    text = render(hostile)
    assert not set(text) & {"\x1b", "\r", "\x07"}
    assert "a\\x1b[2Jb" in text


def test_deep_stacks_keep_the_inner_frames() -> None:
    stack = tuple(f"m:f{i}:{i}" for i in range(40))
    text = render(report(findings=(finding(stack=stack),)), 200)
    assert "(32 outer frames) > f32 (m:32)" in text
    assert "f39 (m:39)" in text


def test_notes_are_shown() -> None:
    one: Report = report(notes=("the clock of rank 3 stepped",))
    assert "note      the clock of rank 3 stepped" in render(one)
