from __future__ import annotations

import math

import pytest

from eroica_otel import names
from eroica_otel.model import Finding, Report, Victims
from eroica_otel.publish.report import verdict, words
from factories_report import detail, finding, job_finding, quiet, report


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.00001, "under 0.1 ms"),
        (0.0004, "0.4 ms"),
        (0.00994, "9.9 ms"),
        (0.00996, "10 ms"),
        (0.046, "46 ms"),
        (0.9999, "1 s"),
        (1.25, "1.25 s"),
        (5.21, "5.2 s"),
        (30.0, "30.0 s"),
        (99.96, "100 s"),
        (1234.5, "1234 s"),
        (math.nan, "unknown"),
        (math.inf, "unknown"),
        (None, "unknown"),
    ],
)
def test_durations_carry_a_unit_that_suits_them(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0.0, "0 %"), (0.018, "1.8 %"), (0.217, "22 %"), (1.0, "100 %"), (0.0996, "10 %"), (math.nan, "unknown")],
)
def test_percentages(ratio: float, text: str) -> None:
    assert words.percent(ratio) == text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ((), ""),
        ((2,), "rank 2"),
        ((0, 1, 3), "ranks 0, 1, 3"),
        ((3, 2, 1, 0, 7), "ranks 0 to 3, 7"),
        (tuple(range(0, 40, 2)), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 12 more"),
        (tuple(r for r in range(4096) if r != 1337), "ranks 0 to 1336, 1338 to 4095"),
    ],
)
def test_ranks_are_short_however_many(ranks: tuple[int, ...], text: str) -> None:
    assert words.ranks_text(ranks) == text


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (finding(), "rank 2 on node-c"),
        (finding(ranks=(0, 1), hosts=("node-a", "node-a")), "ranks 0, 1 on node-a"),
        (finding(ranks=(0, 1, 2, 3), hosts=("a", "b", "c", "d")), "ranks 0 to 3 on 4 nodes"),
        (finding(hosts=()), "rank 2"),
        (finding(scope="node", ranks=(8, 9), hosts=("node-b", "node-b")), "node node-b (ranks 8, 9)"),
        (finding(scope="role", ranks=(4, 5), roles=("pp1", "pp1")), "role pp1 (ranks 4, 5)"),
        (finding(scope="link", ranks=(), link=("node-a", "node-b")), "link node-a to node-b"),
        (finding(scope="link", ranks=(2,), link=("node-c", "node-b")), "rank 2 on node-c"),
        (job_finding(), "all workers"),
        (finding(ranks=(), hosts=()), "an unsettled worker"),
    ],
)
def test_who_is_meant(one: Finding, text: str) -> None:
    assert words.place(one) == text


@pytest.mark.parametrize(
    ("stack", "text"),
    [
        ((), "augment"),
        (("data.loader:augment:41",), "augment (data.loader:41)"),
        (("__main__:augment:41",), "augment (line 41 of the script)"),
        (("... cut",), "augment"),
    ],
)
def test_the_function_is_located_by_its_innermost_frame(stack: tuple[str, ...], text: str) -> None:
    assert words.location(finding(stack=stack)) == text


@pytest.mark.parametrize("frame", ["", "no frame", "a:b", "a:b:c", "a:b:-1", "a:b:9999999999999"])
def test_what_is_no_frame_stays_as_it_is(frame: str) -> None:
    assert words.split_frame(frame) == ("", frame, 0)


def test_a_frame_may_hold_colons_in_its_module() -> None:
    assert words.split_frame("a:b:f.<locals>.g:7") == ("a:b", "f.<locals>.g", 7)


def test_characters_that_move_a_cursor_are_shown_as_escapes() -> None:
    assert words.visible("a\x1b[31m\nb\u202ec") == "a\\x1b[31m\\nb\\u202ec"


def test_every_cause_has_words() -> None:
    assert set(verdict.CAUSE_WORDS) == set(names.CAUSES)


@pytest.mark.parametrize(
    ("one", "kind", "sentence"),
    [
        (report(), "finding", "Rank 2 on node-c costs 46 ms of every 212 ms iteration (22 %)."),
        (
            report(findings=(finding(ranks=(0, 2), hosts=("node-c",), confidence="low"),)),
            "finding",
            "Ranks 0, 2 on node-c probably cost 46 ms of every 212 ms iteration (22 %).",
        ),
        (
            report(findings=(job_finding(stack=()),)),
            "finding",
            "The whole job is slower: augment costs 46 ms of every 212 ms iteration (22 %) on all workers alike.",
        ),
        (
            report(findings=(finding(impact_seconds=math.nan, impact_ratio=math.nan),), reason="blocked"),
            "finding",
            "Rank 2 on node-c holds up the job.",
        ),
        (
            report(findings=(finding(),), detail=None),
            "finding",
            "Rank 2 on node-c costs 46 ms of every iteration (22 %).",
        ),
        (quiet(), "quiet", "No finding: the 4 workers behave alike."),
        (quiet(findings=(finding(severity="info"),)), "quiet", "No finding that calls for action."),
        (
            quiet(detail=detail(4, (), iteration_seconds=0.133)),
            "quiet",
            "No finding: an iteration takes 133 ms, 20 % under the healthy reference of 166 ms.",
        ),
        (
            report(findings=(finding(scope="role", roles=("",), hosts=(), ranks=(6, 7)),)),
            "finding",
            "The role of ranks 6, 7 costs 46 ms of every 212 ms iteration (22 %).",
        ),
        (
            quiet(no_consensus=("aaaaaaaaaaaa",), notes=("no consensus: 1 of 2 nodes differs",)),
            "no_consensus",
            "No consensus: 1 of 2 nodes differs.",
        ),
        (quiet(no_consensus=("aaaaaaaaaaaa",)), "no_consensus", "No consensus: the workers split evenly."),
        (quiet(notes=("not enough evidence: one worker",)), "not_enough", "Not enough evidence: one worker."),
        (
            quiet(workers_seen=1, notes=("cannot be judged: 1 worker and no reference",)),
            "not_enough",
            "Cannot be judged: 1 worker and no reference.",
        ),
        (
            quiet(workers_seen=0, detail=None),
            "not_enough",
            "Not enough evidence: no worker reported on this window.",
        ),
        (report(no_consensus=("x",)), "finding", "Rank 2 on node-c costs 46 ms of every 212 ms iteration (22 %)."),
    ],
)
def test_the_verdict_in_one_sentence(one: Report, kind: str, sentence: str) -> None:
    assert verdict.outcome(one) == kind
    assert verdict.headline(one) == sentence


def test_no_finding_says_what_was_looked_at() -> None:
    expected = "4 workers, 42 functions, largest difference 1.8 % of the iteration (all_reduce, rank 1)"
    assert verdict.looked_at(quiet()) == expected


def test_a_split_names_the_functions() -> None:
    assert "differ in all_reduce;" in verdict.explanation(quiet(no_consensus=("aaaaaaaaaaaa",)))


@pytest.mark.parametrize(
    ("now", "before", "text"),
    [
        (0.212, 0.166, "28 % over the healthy reference of 166 ms"),
        (0.150, 0.166, "9.6 % under the healthy reference of 166 ms"),
        (0.166, 0.166, "as in the healthy reference of 166 ms"),
        (0.212, math.nan, ""),
        (0.212, 0.0, ""),
    ],
)
def test_change_against_the_reference(now: float, before: float, text: str) -> None:
    facts = detail(iteration_seconds=now, reference_iteration_seconds=before)
    assert verdict.change(report(detail=facts)) == text


@pytest.mark.parametrize(
    ("seconds", "ratio", "text"),
    [
        (0.046, 0.217, "46 ms of every 212 ms iteration (22 %)"),
        (0.046, math.nan, "46 ms of every 212 ms iteration"),
        (math.nan, 0.217, "22 % of every iteration"),
        (math.nan, math.nan, ""),
        (0.0, 0.0, ""),
    ],
)
def test_costs_are_told_as_far_as_known(seconds: float, ratio: float, text: str) -> None:
    assert verdict.cost(finding(impact_seconds=seconds, impact_ratio=ratio), 0.212) == text


def test_victims_wait_for_the_culprit() -> None:
    assert verdict.waits(Victims((0, 1, 3), "all_reduce", (2,))) == "ranks 0, 1, 3 wait for rank 2 in all_reduce"
    assert verdict.waits(Victims((0,), "", ())) == "rank 0 waits"


@pytest.mark.parametrize(
    ("seen", "missing", "text"),
    [(4, (), ""), (3, (3,), "rank 3 sent nothing"), (2, (), "2 workers sent nothing")],
)
def test_missing_workers_are_named_or_counted(seen: int, missing: tuple[int, ...], text: str) -> None:
    assert verdict.missing(report(workers_seen=seen, missing_ranks=missing)) == text


def test_the_window_id_is_a_time() -> None:
    assert verdict.window_time(report(window_id=0)) == "1970-01-01 00:00:00 UTC"
    assert verdict.window_time(report(window_id=10**30)) == ""


def test_missing_ranks_that_are_not_all_listed_are_counted() -> None:
    absent = report(workers_seen=4, workers_expected=5000, missing_ranks=tuple(range(4, 1004)))
    assert verdict.missing(absent) == "4,996 workers sent nothing"


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        ("train.data:augment:41", "augment (train.data:41)"),
        (
            "torch.utils.data.dataloader:_BaseDataLoaderIter.__next__:0",
            "_BaseDataLoaderIter.__next__ (torch.utils.data.dataloader)",
        ),
        ("__main__:main:7", "main (line 7 of the script)"),
        ("__main__:main:0", "main (the script)"),
    ],
)
def test_a_line_that_nobody_knows_is_left_out(frame: str, text: str) -> None:
    assert words.frame_text(frame) == text
