from __future__ import annotations

import dataclasses
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from eroica_otel.model import Report, Timeline
from eroica_otel.publish.report import html
from eroica_otel.publish.report.raw import ROWS, shown_ranks
from factories_report import NAN, detail, finding, function, job_finding, quiet, report

VOID = {"meta", "link", "br", "hr"}
PAYLOAD = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """Elements, attributes and text of a page; fails on elements that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [found for name, found in self.elements if name == tag and wanted.items() <= found.items()]

    def text(self, tag: str) -> str:
        return "".join(text for place, text in self.texts if place == tag).replace("\u00a0", " ")

    def visible(self) -> str:
        return " ".join(text for place, text in self.texts if place != "style").replace("\u00a0", " ")


def page(one: Report) -> Page:
    return Page(html.render(one))


def large(workers: int, culprits: tuple[int, ...] = (7,), **changes: Any) -> Report:
    facts = detail(workers, culprits, functions=(function(workers, culprits, **changes),))
    hosts = tuple(facts.hosts[rank] for rank in culprits)
    return report(
        workers_seen=workers, workers_expected=workers, detail=facts, findings=(finding(ranks=culprits, hosts=hosts),)
    )


EVERY = {
    "story": report(),
    "without detail": report(detail=None),
    "job": report(findings=(job_finding(),)),
    "unknown numbers": report(
        findings=(finding(impact_ratio=NAN, impact_seconds=NAN, differential_distance=None),),
        detail=detail(
            iteration_seconds=NAN, reference_iteration_seconds=NAN, window_seconds=NAN, verdict_seconds=NAN,
            functions=(function(seconds=(NAN,) * 4, cpu_seconds=(NAN,) * 4, median=NAN, tolerance=NAN),),
            kinds={"python": (NAN,) * 4}, largest_difference=("", -1, NAN),
        ),
    ),
    "nothing measured": report(detail=detail(0, kinds={}, functions=(), ranks=(), hosts=(), ruled_out=())),
    "zero": report(detail=detail(functions=(function(seconds=(0.0,) * 4, median=0.0, tolerance=0.0),))),
    "culprit not in detail": report(findings=(finding(ranks=(99,), hosts=("elsewhere",)),)),
    "quiet": quiet(),
    "split": quiet(no_consensus=("aaaaaaaaaaaa",)),
    "thin": quiet(workers_seen=0, detail=None),
    "one": large(1, ()),
    "4096": large(4096, (1337,)),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_report_gives_a_well_formed_page_that_loads_and_runs_nothing(name: str) -> None:
    text = html.render(EVERY[name])
    found = Page(text)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert not {tag for tag, _ in found.elements} & {"script", "img", "iframe", "object", "embed", "form", "a", "use"}
    assert [one["href"] for one in found.all("link")] == ["data:,"]
    assert not re.search(r"url\(|@import|https?:|//", text.replace("<!doctype", ""))
    for tag, attributes in found.elements:
        assert not any(key.startswith("on") for key in attributes), tag
    assert len(found.all("h1")) == 1
    assert "nan" not in found.visible().lower().split()


@pytest.mark.parametrize(
    "where", ["training_job", "function", "host", "evidence", "advice", "stack", "note", "ruled_out"]
)
def test_whatever_comes_from_the_report_is_inert(where: str) -> None:
    facts = detail(
        functions=(function(function=PAYLOAD),),
        hosts=(PAYLOAD,) * 4,
        kinds={"python": (0.1,) * 4, PAYLOAD: (0.1,) * 4},
        ruled_out=(PAYLOAD,) if where == "ruled_out" else (),
    )
    one = report(
        training_job=PAYLOAD if where == "training_job" else "job",
        findings=(
            finding(
                function=PAYLOAD, hosts=(PAYLOAD,), stack=(f"{PAYLOAD}:{PAYLOAD}:3",), evidence=(PAYLOAD,),
                advice=PAYLOAD, roles=(PAYLOAD,), kind=PAYLOAD,
            ),
        ),
        notes=(PAYLOAD,),
        no_consensus=(PAYLOAD,),
        detail=facts,
    )  # fmt: skip
    text = html.render(one)
    assert "<script" not in text
    assert "<img" not in text
    assert "alert(1)" in text
    assert not {"script", "img"} & {tag for tag, _ in Page(text).elements}
    for _, attributes in Page(text).elements:
        assert "onerror" not in attributes


def test_a_number_in_a_style_cannot_be_anything_else() -> None:
    styles = [attributes["style"] for _, attributes in page(report()).elements if "style" in attributes]
    assert styles
    assert all(re.fullmatch(r"width:\d+\.\d\d%", style) for style in styles)


def test_the_verdict_comes_first() -> None:
    found = page(report())
    assert found.text("h1") == "Rank 2 on node-c costs 46 ms of every 212 ms iteration (22 %)."
    assert found.text("title").startswith(found.text("h1"))
    tags = [tag for tag, _ in found.elements]
    assert tags.index("h1") < tags.index("svg")


def test_the_story_is_told_in_plain_words() -> None:
    told = page(report()).visible()
    for words in (
        "Move the work into DataLoader workers", "28 % over the healthy reference of 166 ms", "Python code",
        "Ranks 0, 1, 3 wait for rank 2 in all_reduce.", "CPU limits (throttled 0 %)", "typical peer",
        "2025-11-29 15:26:40 UTC", "high confidence", "31 iterations", "rank 2, node-c, 46 ms",
    ):  # fmt: skip
        assert words in told
    assert not re.search(r"\bbeta\b", told)


def test_the_method_has_three_sentences() -> None:
    told = page(report()).visible()
    method = told[told.index("All workers were profiled") :]
    assert method[: method.index("Numbers")].strip().count(". ") == 2


def test_the_picture_marks_and_names_the_culprit_and_says_so_in_words() -> None:
    found = page(report())
    pictures = found.all("svg", role="img")
    assert len(pictures) == 2
    assert all("Rank 2 takes 46" in one["aria-label"] for one in pictures)
    assert len(found.all("circle", class_="dot")) == 2 * 3 + 1
    assert len(found.all("path", class_="culprit")) == 2 + 1
    assert len(found.all("rect", class_="band")) == 2 + 1


def test_mu_and_sigma_are_drawn_over_all_ranks_with_the_culprit_marked() -> None:
    measured = function(mu=(0.5, 0.5, 0.96, 0.5), sigma=(0.3, 0.3, 0.04, 0.3))
    page = html.render(report(detail=detail(functions=(measured,))))
    drawings = re.findall(r'<svg class="plot small".*?</svg>', page)
    assert len(drawings) == 2
    assert all(drawing.count('class="culprit"') == 1 and drawing.count('class="dot"') == 3 for drawing in drawings)
    assert "Of its resource in use (mu): rank 2: 96 %, other ranks: 50 % to 50 %." in drawings[0]
    assert "Deviation of that (sigma): rank 2: 4.0 %, other ranks: 30 % to 30 %." in drawings[1]


def test_what_was_measured_on_no_rank_is_not_drawn_and_on_some_is_hollow() -> None:
    unknown = function(mu=(NAN,) * 4, sigma=(0.1, NAN, 0.2, 0.3))
    page = html.render(report(detail=detail(functions=(unknown,))))
    (drawing,) = re.findall(r'<svg class="plot small".*?</svg>', page)
    assert "deviation of that (sigma)" in drawing
    assert drawing.count("not measured") == 1
    assert 'class="plot small"' not in html.render(report())


def test_dots_stand_at_the_height_of_their_value() -> None:
    """The axis runs from 0 to 50 ms over the plot's 220 units, from y = 250 up to y = 30."""
    seconds = (0.010, 0.020, 0.046, 0.040)
    one = report(detail=detail(functions=(function(seconds=seconds, median=0.01, tolerance=0.002),)))
    heights = [float(dot["cy"]) for dot in page(one).all("circle", class_="dot")[:3]]
    assert heights == pytest.approx([250 - 220 * value / 0.050 for value in (0.010, 0.020, 0.040)], abs=0.06)


def test_a_function_that_a_rank_does_not_list_is_drawn_hollow_and_not_as_zero() -> None:
    one = report(detail=detail(functions=(function(seconds=(NAN, NAN, 0.046, NAN), median=NAN, tolerance=NAN),)))
    found = page(one)
    assert len(found.all("circle", class_="absent")) == 2 * 3 + 1
    assert found.all("circle", class_="dot") == []
    assert "too small to be reported" in found.visible()


def test_thousands_of_ranks_stay_small_and_only_those_outside_are_named() -> None:
    text = html.render(EVERY["4096"])
    found = Page(text)
    assert len(text) < 400_000
    assert len(found.all("path", class_="dots")) == 2
    names = [text for place, text in found.texts if place == "text" and text.startswith("rank ") and "ms" in text]
    assert [name.split(",")[0] for name in names] == ["rank 1337", "rank 1337"]


@pytest.mark.parametrize("workers", [257, 4096])
def test_absent_ranks_of_large_jobs_are_a_rug(workers: int) -> None:
    seconds = tuple(0.046 if rank == 7 else NAN for rank in range(workers))
    found = page(large(workers, seconds=seconds, median=NAN, tolerance=NAN))
    assert len(found.all("path", class_="rug")) == 2 + 1


def test_many_culprits_are_all_marked_and_some_named() -> None:
    found = page(large(64, tuple(range(20))))
    assert len(found.all("path", class_="culprit")) == 2 * 20 + 1


def test_ranks_outside_the_tolerated_range_are_named_though_they_are_no_culprits() -> None:
    seconds = (0.0005, 0.030, 0.046, 0.0005)
    told = page(report(detail=detail(functions=(function(seconds=seconds),)))).visible()
    assert "rank 1, 30 ms" in told


def test_missing_ranks_are_said_beside_the_picture() -> None:
    one = report(missing_ranks=(4,), workers_seen=4, workers_expected=5)
    assert "Not drawn: rank 4 sent nothing." in page(one).visible()


def test_bars_of_culprit_and_peer_are_to_one_scale() -> None:
    """Each kind's share of the longer of the two iterations, 212 ms: 59 ms of Python are 27.83 %, 14 ms are 6.60 %."""
    found = page(report())
    assert [one["style"] for one in found.all("div", class_="segment kind-python")] == ["width:27.83%", "width:6.60%"]
    assert found.text("td").count("+45 ms") == 1


def test_a_kind_that_neither_worker_has_is_left_out() -> None:
    found = page(report(detail=detail(kinds={"memory": (0.0,) * 4, "python": (0.1,) * 4})))
    assert len(found.all("span", class_="swatch kind-python")) == 1
    assert found.all("span", class_="swatch kind-memory") == []


def test_of_traces_the_critical_path_over_the_window_is_drawn_as_stacked_bars() -> None:
    lines = (
        Timeline(2, 5.2, {"compute": (0.25, 0.0), "python": (0.75, 0.5), "idle": (0.0, 0.5)}),
        Timeline(0, 5.2, {"compute": (1.0, 1.0), "idle": (0.0, 0.0)}),
        Timeline(3, 5.2, {"compute": (1.0, 1.0), "idle": (0.0, 0.0)}),
    )
    page = html.render(report(detail=detail(timelines=lines)))
    section = page[page.index("The critical path over the window") :]
    section = section[: section.index("</figure>")]
    # The culprit and its typical peer alone; a picture of 840 by 96, so a part is 420 wide less the gap of 1.
    assert re.findall(r"<b>rank (\d)</b>", section) == ["2", "0"]
    # 25 % at the bottom, python on it: 75 % of the first bar, 50 % of the second, which stands on nothing.
    assert '<path class="fill-compute" d="M0.0 72.0h419.0v24.0h-419.0z"/>' in section
    assert '<path class="fill-python" d="M0.0 0.0h419.0v72.0h-419.0zM420.0 48.0h419.0v48.0h-419.0z"/>' in section
    assert "rank 2: Computing 12 %, Python code 62 %, Nothing recorded 25 %" in section


def test_a_live_report_has_no_picture_of_its_window() -> None:
    assert "over the window" not in html.render(report())


def test_the_typical_peer_is_the_one_nearest_to_the_medians() -> None:
    kinds = {"compute": (0.1, 0.2, 0.1, 0.11), "python": (0.01, 0.01, 0.09, 0.01)}
    assert "rank 3" in page(report(detail=detail(kinds=kinds))).text("b")


def test_the_table_of_ranks_is_bounded_and_holds_the_culprits() -> None:
    one = EVERY["4096"]
    assert one.detail is not None
    columns = shown_ranks(one, one.detail)
    assert len(columns) == ROWS
    assert 1337 in columns
    assert columns == sorted(columns)
    assert "The file report.json holds every rank." in page(one).visible()


def test_further_findings_have_sections_of_their_own() -> None:
    second = finding(ranks=(0,), hosts=("node-a",), function="read_record", cause="slow_input", severity="warning")
    told = page(report(findings=(finding(), second)))
    assert "Also: rank 0 on node-a costs 46 ms of every 212 ms iteration (22 %)" in told.text("h2")
    assert "1 more finding below." in told.visible()


def test_info_stands_in_the_table_but_not_in_the_headline() -> None:
    told = page(quiet(findings=(job_finding(severity="info", cause="cpu_contention"),)))
    assert told.text("h1") == "No finding that calls for action."
    assert "cpu_contention" in told.visible()


def test_it_is_made_for_phone_paper_and_dark_rooms() -> None:
    style = html.style()
    for words in ("prefers-color-scheme: dark", "max-width: 40rem", "@media print"):
        assert words in style
    assert page(report()).all("meta", name="viewport")


def palette(dark: bool) -> dict[str, str]:
    blocks = re.findall(r":root \{(.*?)\}", html.style(), re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[0]))
    return colours | (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[1])) if dark else {})


def luminance(colour: str) -> float:
    """WCAG 2.1, relative luminance."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast(dark: bool) -> None:
    colours = palette(dark)
    pairs = [(text, ground) for text in ("text", "muted", "accent", "warning", "good") for ground in ("page", "card")]
    pairs += [("on-dark", kind) for kind in ("compute", "memory", "host")]
    pairs += [("on-light", "communication"), ("text", "idle")]
    too_weak = {pair for pair in pairs if contrast(colours[pair[0]], colours[pair[1]]) < 4.5}
    assert too_weak == set()
    assert contrast("#1a1f24", colours["python"]) >= 4.5


@pytest.mark.parametrize("dark", [False, True])
def test_marks_have_contrast(dark: bool) -> None:
    colours = palette(dark)
    for mark in ("dot", "accent", "median", "reference"):
        assert contrast(colours[mark], colours["card"]) >= 3
        assert contrast(colours[mark], colours["band"]) >= 3


def test_the_same_report_gives_the_same_page() -> None:
    assert html.render(report()) == html.render(dataclasses.replace(report()))


def test_infinite_and_negative_values_do_not_break_the_picture() -> None:
    odd = function(seconds=(math.inf, -1.0, 0.046, 1e300), median=-1.0, tolerance=math.inf, reference=1e9)
    found = page(report(detail=detail(functions=(odd,))))
    for _, attributes in found.elements:
        assert not re.search(
            r"\b(nan|inf)\b", " ".join(v for k, v in attributes.items() if k in ("cx", "cy", "d", "y"))
        )
