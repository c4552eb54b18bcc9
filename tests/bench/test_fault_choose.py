"""What the fault board runs next."""

from __future__ import annotations

from typing import Any

import pytest

from faultboard import board, case, run_line

CHOOSE = board("choose")


def turn(name: str = "input", klass: str = "input", seed: int = 1) -> Any:
    return CHOOSE.Turn(case(name, klass=klass), seed)


@pytest.mark.parametrize(
    ("patterns", "names"),
    [("", "link-a link-b quota"), ("link-*", "link-a link-b"), ("cpu, link-b", "link-b quota"), ("none", "")],
)
def test_cases_are_chosen_by_id_or_class(patterns: str, names: str) -> None:
    rows = [case("link-a", klass="network"), case("link-b", klass="network"), case("quota", klass="cpu")]
    assert [row.name for row in CHOOSE.selected(rows, patterns)] == names.split()


def test_each_case_has_one_published_seed_and_thirty_have_three() -> None:
    rows = [case(f"case-{number}") for number in range(40)] + [case("new", group="unseen")]
    published = CHOOSE.turns(rows, "published", rows)
    assert published == [CHOOSE.Turn(row, row.seeds()[0]) for row in rows]
    thrice = CHOOSE.turns(rows, "thrice", rows)
    assert len(thrice) == 90
    assert "new" not in {one.case.name for one in thrice}
    assert set(CHOOSE.turns(rows, "all", rows)) == {*published, *thrice}
    assert CHOOSE.turns(rows[:1], "2,3", rows) == [CHOOSE.Turn(rows[0], 2), CHOOSE.Turn(rows[0], 3)]


def test_which_cases_have_three_seeds_does_not_depend_on_what_is_asked_for() -> None:
    rows = [case(f"case-{number}") for number in range(40)]
    whole = CHOOSE.turns(rows, "thrice", rows)
    assert [one for row in rows for one in CHOOSE.turns([row], "thrice", rows)] == whole


@pytest.mark.parametrize(
    ("lines", "done"),
    [
        ([{}], True),
        ([], False),
        ([{"round": 1}], False),
        ([{"seed": 2}], False),
        ([{"row": "another"}], False),
        ([{"right": False}], True),
        ([{"measurable": False}], True),
        ([{"void": True}], False),
        ([{"void": True}] * 2 + [{}], True),
        ([{"void": True}] * 3, True),  # made again twice, no more
    ],
)
def test_a_turn_is_done_when_this_round_has_a_run_that_counts(lines: list[dict[str, Any]], done: bool) -> None:
    row = case()
    written = [run_line(row, 1, **({"round": 2} | fields)) for fields in lines]
    assert CHOOSE.is_done(CHOOSE.Turn(row, 1), written, 2) is done


def test_the_class_of_which_the_least_share_has_run_comes_first() -> None:
    waiting = [turn("a", "cpu"), turn("b", "cpu"), turn("c", "network")]
    # Of cpu one of three has run, of network three of four.
    done = [turn("d", "cpu"), turn("e", "network"), turn("f", "network"), turn("g", "network")]
    assert CHOOSE.next_turn(waiting, done).case.klass == "cpu"
    assert CHOOSE.next_turn(waiting, [turn("d", "cpu")]) == waiting[2]


def test_a_run_takes_what_its_workload_took_else_what_any_took() -> None:
    lines = [
        run_line(case(workload="ddp"), took_seconds=100),
        run_line(case(workload="conv"), took_seconds=300),
        run_line(case(workload="conv"), took_seconds=500),
    ]
    conv, fsdp = (CHOOSE.Turn(case(workload=name), 1) for name in ("conv", "fsdp"))
    assert CHOOSE.expected_seconds(conv, lines) == 400
    assert CHOOSE.expected_seconds(fsdp, lines) == 300
    assert CHOOSE.expected_seconds(fsdp, []) == CHOOSE.RUN_SECONDS
