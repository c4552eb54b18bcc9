"""Reports of a hang: nothing moves, so nothing is a share of an iteration."""

from __future__ import annotations

import math
from typing import Any

import pytest

from eroica_otel.model import Finding, Report, Victims
from eroica_otel.publish.report import html, json, prompt, terminal
from eroica_otel.publish.report.verdict import claim, explanation, headline, outcome, stands_still
from eroica_otel.publish.report.words import NO_BREAK
from factories_report import finding, report

NOTE = "rank 0 saves a checkpoint (torch.serialization:save); the others wait for it"


def hang(**changes: Any) -> Finding:
    given: dict[str, Any] = {
        "cause": "hang_in_python", "impact_ratio": 1.0, "impact_seconds": 34.2, "expectation_distance": None,
        "differential_distance": None, "drift_distance": None, "evidence": ("stands in augment",), "advice": "look",
    }  # fmt: skip
    return finding(**given | changes)


def blocked(*findings: Finding, **changes: Any) -> Report:
    given: dict[str, Any] = {
        "reason": "blocked", "findings": findings, "detail": None,
        "victims": (Victims((0, 1, 3), "all_reduce", (2,)),) if findings else (),
    }  # fmt: skip
    return report(**given | changes)


def rendered(given: Report) -> list[str]:
    texts = [terminal.render(given), html.render(given), prompt.render(given), prompt.render_json(given)]
    return [text.replace(NO_BREAK, " ") for text in texts]


def test_a_hang_reads_as_time_since_something_moved_and_never_as_a_share() -> None:
    given = blocked(hang())
    assert headline(given) == "Rank 2 on node-c holds up the job: nothing has moved for 34 s."
    for text in rendered(given):
        assert "nothing has moved for 34 s" in text.lower()
        assert "%" not in text.partition("<style>")[0] + text.partition("</style>")[2]
        assert "of every" not in text
    assert "CULPRIT" in terminal.render(given)
    assert "costs" not in terminal.render(given)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"impact_seconds": math.nan}, "rank 2 on node-c holds up the job: nothing moves"),
        ({"impact_seconds": 3.25}, "rank 2 on node-c holds up the job: nothing has moved for 3.2 s"),
        ({"impact_seconds": 4000.0}, "rank 2 on node-c holds up the job: nothing has moved for 4,000 s"),
        ({"confidence": "low"}, "rank 2 on node-c probably holds up the job: nothing has moved for 34 s"),
        ({"ranks": (1, 2), "hosts": ("b", "c")}, "ranks 1, 2 on b and c hold up the job: nothing has moved for 34 s"),
        (
            {"verdict": "job", "scope": "job", "ranks": (), "hosts": ()},
            "the whole job stands still, all workers alike: nothing has moved for 34 s",
        ),
        (
            {"cause": "process_stopped", "function": "", "stack": ()},
            "rank 2 on node-c holds up the job: nothing has moved for 34 s",
        ),
    ],
)
def test_the_claim(changes: dict[str, Any], text: str) -> None:
    assert claim(hang(**changes), math.nan) == text


def test_a_stop_that_took_a_part_of_a_window_is_no_standstill() -> None:
    assert not stands_still(finding(cause="process_stopped", impact_ratio=0.4))
    assert stands_still(finding(cause="checkpoint_stall", impact_ratio=1.0))
    assert not stands_still(finding())


def test_a_pause_is_told_in_the_headline_and_once() -> None:
    given = blocked(notes=(NOTE, "another note"))
    assert outcome(given) == "quiet"
    assert headline(given) == f"No finding: {NOTE}."
    assert explanation(given) == "Stacks of 4 workers were looked at while no iteration ended."
    text = " ".join(terminal.render(given, width=200).split())
    assert text.count(NOTE) == 1
    assert "another note" in text
    assert "Another note" in html.render(given)


def test_a_hang_that_is_not_settled_names_nobody() -> None:
    given = blocked(notes=("not enough evidence: all 4 ranks wait",))
    assert outcome(given) == "not_enough"
    assert headline(given) == "Not enough evidence: all 4 ranks wait."


@pytest.mark.parametrize("given", [blocked(hang()), blocked(hang(impact_seconds=math.inf)), blocked(notes=(NOTE,))])
def test_json_reads_what_it_wrote(given: Report) -> None:
    text = json.render(given)
    assert json.render(json.parse(text)) == text


def test_a_rank_that_is_gone_has_neither_function_nor_stack() -> None:
    gone = hang(cause="hang_missing_rank", function="", function_id="", kind="", stack=(), ranks=(3,))
    for text in rendered(blocked(gone, workers_seen=3, missing_ranks=(3,))):
        assert "rank 3" in text.lower()
        assert "rank 3 sent nothing" in text.lower() or '"missing_ranks": [' in text
