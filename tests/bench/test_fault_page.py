"""What the pages of the fault board say of the lines there are."""

from __future__ import annotations

import re
from typing import Any

import pytest

from faultboard import board, case, run_line

PAGE, SCORE, RENDER = board("page"), board("score"), board("render")
HANG = {"verdict": "hang", "causes": frozenset({"hang_in_python"})}


def sections(rows: list[Any], lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the page's sections by title."""
    return {section.title: section for section in PAGE.sections(rows, lines)}


def figures(rows: list[Any], lines: list[dict[str, Any]], row: int = 0) -> dict[str, str]:
    section = sections(rows, lines)["How often it is right"]
    return dict(zip(section.head, section.rows[row], strict=True))


def test_only_what_has_run_is_counted_and_the_rest_is_listed() -> None:
    rows = [case("a"), case("b"), case("c")]
    lines = [run_line(rows[0]), run_line(rows[1], worker=True, cause=False, right=False, named="rank 1: unknown")]
    said = figures(rows, lines)
    assert said["right worker"] == "2 of 2 (100.0%)"
    assert said["right worker and cause"] == "1 of 2 (50.0%)"
    absent = sections(rows, lines)["Not run"]
    assert absent.text == ("1 of 3 cases have not run.",)
    assert [row[0] for row in absent.rows] == ["c"]


def test_of_a_case_and_seed_the_latest_run_counts() -> None:
    row = case()
    lines = [run_line(row, right=False, cause=False), run_line(row), run_line(row, right=False, cause=False, void=True)]
    assert figures([row], lines)["right worker and cause"] == "1 of 1 (100.0%)"


def test_a_run_of_a_row_that_has_changed_since_is_not_counted() -> None:
    old, new = case(), case(causes=frozenset({"storage_slow"}))
    assert figures([new], [run_line(old)])["right worker"] == "none has run"


def test_other_seeds_count_in_their_own_line() -> None:
    rows = [case(f"case-{number}") for number in range(30)]
    one, two, three = rows[0].seeds(3)
    lines = [
        run_line(rows[0], one),
        run_line(rows[0], two),
        run_line(rows[0], three, right=False),
        run_line(rows[0], 1),
    ]
    assert figures(rows, lines, 0)["right worker and cause"] == "1 of 1 (100.0%)"
    assert figures(rows, lines, 1)["right worker and cause"] == "2 of 3 (66.7%)"


def test_cases_never_tuned_on_count_in_their_own_line() -> None:
    rows = [case("a"), case("b", group="unseen")]
    lines = [run_line(rows[0]), run_line(rows[1], right=False)]
    assert figures(rows, lines, 0)["right worker and cause"] == "1 of 1 (100.0%)"
    assert figures(rows, lines, 2)["right worker and cause"] == "0 of 1 (0.0%)"


def test_what_is_not_measurable_or_gave_no_verdict_is_counted_apart_and_shown() -> None:
    rows = [case("a"), case("b"), case("c")]
    weak = {"clean_seconds": 0.1, "faulty_seconds": 0.101, "noise_seconds": 0.01, "stood_still": False}
    unseen = run_line(rows[0], measurable=False, right=False, effect=weak)
    failed = run_line(rows[1], measurable=False, right=False, error="the training ended early")
    for name in ("named", "seconds", "worker", "cause", "healthy"):
        del unseen[name], failed[name]
    lines = [unseen, failed, run_line(rows[2])]
    said = figures(rows, lines)
    assert said["right worker"] == "1 of 1 (100.0%)"
    assert (said["not measurable here"], said["without a verdict"]) == ("1", "1")
    (shown,) = sections(rows, lines)["Not measurable here"].rows
    assert shown == ("a", "batches come 70 ms late", "+1%, 0.1 sd")


def test_what_kept_silent_with_a_fault_does_not_raise_the_figure() -> None:
    rows = [case("a"), case("small", verdict="silence", causes=frozenset())]
    lines = [run_line(rows[0], right=False, cause=False), run_line(rows[1])]
    said = figures(rows, lines)
    assert said["right worker and cause"] == "0 of 1 (0.0%)"
    assert said["silent where silence is right"] == "1 of 1 (100.0%)"


def test_clean_cases_and_healthy_workers_that_are_named_are_counted_apart() -> None:
    rows = [case("a"), case("quiet", fault=None, verdict="silence", causes=frozenset()), case("b")]
    lines = [
        run_line(rows[0], healthy=[2], worker=False, right=False),
        run_line(rows[1], effect=None, named="no finding"),
        run_line(rows[2]),
    ]
    said = figures(rows, lines)
    assert said["right worker"] == "1 of 2 (50.0%)"
    assert said["runs that name a healthy worker"] == "1"
    assert said["silent where silence is right"] == "1 of 1 (100.0%)"


def test_every_wrong_case_is_listed_with_its_explanation() -> None:
    rows = [case("a", explanation="the loader hides it"), case("b"), case("c")]
    lines = [
        run_line(rows[0], right=False, named="rank 2: unknown"),
        run_line(rows[1], right=False, error="waited 120 s in vain"),
        run_line(rows[2]),
    ]
    wrong = sections(rows, lines)["Wrong"]
    assert [(row[0], *row[2:]) for row in wrong.rows] == [
        ("a", "worker, ranks 1: slow_input", "rank 2: unknown", "the loader hides it"),
        ("b", "worker, ranks 1: slow_input", "waited 120 s in vain", "not studied yet"),
    ]


def test_times_are_medians_by_length_of_windows_and_hangs_apart() -> None:
    rows = [case("a"), case("b"), case("c"), case("long", window_seconds=20.0), case("hang", **HANG)]
    lines = [run_line(row, seconds={"detection": 5.0, "verdict": 9.0, "firing": firing}) for row, firing in
             zip(rows, (20.0, 30.0, 70.0, 50.0, 40.0), strict=True)]  # fmt: skip
    long, short, hangs = sections(rows, lines)["How long it takes"].rows
    assert long == ("windows of 20 s (1)", "5", "9", "50", "60 s", "50")
    assert short == ("windows of 5 s (3)", "5", "9", "30", "-", "70")
    assert hangs == ("hangs (1)", "5", "9", "40", "90 s", "40")


def test_classes_show_how_many_cases_they_have_and_how_many_ran() -> None:
    rows = [case("a", klass="cpu"), case("b", klass="cpu"), case("c", klass="network")]
    found = sections(rows, [run_line(rows[0])])["By class"].rows
    assert found == [("cpu", "2", "1", "1 of 1 (100.0%)", "1 of 1 (100.0%)", "24"),
                     ("network", "1", "0", "none has run", "none has run", "-")]  # fmt: skip


def test_changed_expectations_and_other_tools_are_listed() -> None:
    row = case(changed="two causes are true")
    peer = {"kind": "peer", "peer": "another", "case": "a", "seed": 1, "worker": True, "note": "CPU only"}
    found = sections([row], [peer, peer | {"worker": False}, peer | {"case": "b"}])
    assert found["Expectations that were changed, and why"].rows == [("input", "two causes are true")]
    assert found["Others"].rows == [("another", "2", "1", "CPU only")]


def test_clean_jobs_are_added_up() -> None:
    clean, digest = board("clean"), board("ledger").row_digest
    first, second, *_ = clean.jobs()
    line = {"kind": "clean", "workload": "ddp", "windows": 5, "degraded": 1, "named": [], "error": "", "void": False}
    lines = [
        line | {"case": first.name, "row": digest(first)},
        line | {"case": second.name, "row": digest(second), "named": ["rank 0: unknown"]},
    ]
    found = sections([], lines)["Clean jobs"]
    assert "2 of 20 jobs have run: 10 windows by hand (5 in each), 1 jobs with a finding" in found.text[0]
    assert [row[-1] for row in found.rows] == ["no finding", "rank 0: unknown"]


def test_the_pages_are_whole_without_any_line() -> None:
    for text in PAGE.pages([], [case()]).values():
        assert "The fault board" in text
        assert "Nothing has run yet." in text


def test_both_pages_show_the_same_cells_and_nothing_of_a_line_is_markup() -> None:
    section = RENDER.Section("Title", ("A paragraph.",), ("a", "b"), [("x | y", "<script>alert(1)</script>")])
    text, page = RENDER.markdown("Top", [section]), RENDER.html("Top", [section])
    assert text == (
        "# Top\n\n## Title\n\nA paragraph.\n\n| a | b |\n| --- | --- |\n| x \\| y | &lt;script>alert(1)&lt;/script> |\n"
    )
    assert "<script" not in page
    assert "<td>x | y</td>" in page
    assert not re.search(r"(src|href)=", page)


@pytest.mark.parametrize("name", ["fault-board.md", "fault-board.html"])
def test_the_pages_in_docs_are_current(name: str) -> None:
    pages = {path.name: (path, text) for path, text in PAGE.pages().items()}
    path, text = pages[name]
    assert path.read_text("utf-8") == text, "make docs renews it"
