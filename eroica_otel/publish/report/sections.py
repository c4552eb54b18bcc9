"""Parts of the HTML report that are text and tables: takes a Report, gives markup. Pure."""

from __future__ import annotations

import math

from eroica_otel.model import Finding, Report
from eroica_otel.publish.report.markup import Markup, element, join
from eroica_otel.publish.report.verdict import (
    CAUSE_WORDS,
    change,
    cost,
    explanation,
    grave,
    headline,
    headlined,
    iteration_seconds,
    missing,
    outcome,
    persistence,
    stands_still,
    waits,
    window_time,
)
from eroica_otel.publish.report.words import (
    capital,
    duration,
    frame_place,
    location,
    percent,
    place,
    plural,
    sentence,
    split_frame,
    visible,
)

_OUTER_FRAMES_FROM = 8
_STANDSTILL = (
    "No iteration ended, so nothing could be compared. Each worker's process state, its call stack and the "
    "collectives that it had entered were read instead. A worker is named when it is stopped or gone, when it has "
    "not entered a collective that others wait in, or when it stands in code that is no wait for others."
)
_SIGNS = {"critical": "▲", "warning": "▲", "info": "●", "quiet": "✓", "no_consensus": "?", "not_enough": "?"}


def section(title: str, *children: Markup | None, class_: str | None = None) -> Markup | None:
    """Return a section with a heading, None when there is nothing in it."""
    filled = [child for child in children if child]
    return element("section", element("h2", title), *filled, class_=class_) if filled else None


def hero(report: Report) -> Markup:
    """Return the top of the page: the verdict, its meaning, what to do, and the main numbers."""
    first = grave(report)[0] if grave(report) else None
    parts = [
        element("p", "Training job ", element("b", report.training_job), class_="eyebrow"),
        element("h1", headline(report)),
        element("p", capital(explanation(report)), class_="lead"),
        element("p", *_badges(report, first), class_="badges"),
    ]
    if first is not None and first.advice:
        parts.append(element("p", element("b", "What to do"), " ", capital(sentence(first.advice)), class_="advice"))
    return element("header", *parts, _facts(report, first), class_=f"hero {_tone(report, first)}")


def _tone(report: Report, first: Finding | None) -> str:
    return first.severity if first is not None else outcome(report).replace("_", "-")


def _badges(report: Report, first: Finding | None) -> list[Markup]:
    kind = outcome(report)
    if first is None:
        words = {"quiet": "no finding", "no_consensus": "no consensus", "not_enough": "not judged"}
        texts = [f"{_SIGNS[kind]} {words.get(kind, kind)}"]
    else:
        texts = [f"{_SIGNS.get(first.severity, '●')} {first.severity}", f"{first.confidence} confidence"]
        texts += [first.cause, persistence(first)]
    return [element("span", text, class_="badge") for text in texts if text]


def _facts(report: Report, first: Finding | None) -> Markup:
    rows: list[tuple[str, str, str]] = []
    if iteration_seconds(report) > 0:
        rows.append(("Iteration", duration(iteration_seconds(report)), change(report)))
    if first is not None and stands_still(first):
        rows.append(("Nothing has moved for", duration(first.impact_seconds), "the whole job waits"))
    elif first is not None and math.isfinite(first.impact_seconds):
        rows.append(("Lost in each iteration", duration(first.impact_seconds), _share(first.impact_ratio)))
    if report.detail is not None:
        length = duration(report.detail.window_seconds)
        rows.append(("Looked at", plural(report.detail.iterations, "iteration"), f"{length}, {report.reason} window"))
    absent = missing(report)
    seen = f"{report.workers_seen:,} of {report.workers_expected:,}" if absent else f"all {report.workers_seen:,}"
    rows.append(("Workers heard", seen, absent or "none is missing"))
    if report.detail is not None and report.detail.verdict_seconds >= 0:
        rows.append(("Time to verdict", duration(report.detail.verdict_seconds), "from the first data to the verdict"))
    return element("dl", *(element("div", *_fact(row)) for row in rows), class_="facts")


def _share(ratio: float) -> str:
    return f"{percent(ratio)} of the iteration" if math.isfinite(ratio) else ""


def _fact(row: tuple[str, str, str]) -> list[Markup]:
    name, value, note = row
    return [
        element("dt", name),
        element("dd", element("span", value, class_="value"), element("span", note, class_="note") if note else None),
    ]


def evidence(finding: Finding) -> Markup | None:
    """Return what shows a finding, as a list."""
    items = list(finding.evidence)
    if finding.differential_distance is not None:
        items.append(f"differs from {percent(finding.differential_distance)} of its peers by more than is tolerated")
    if not items:
        return None
    return element("ul", *(element("li", capital(item)) for item in items), class_="evidence")


def stack(finding: Finding) -> Markup | None:
    """Return the call stack, outermost first, the innermost marked; many outer frames are folded."""
    if not finding.stack:
        return None
    frames = [_frame(frame, last=i == len(finding.stack) - 1) for i, frame in enumerate(finding.stack)]
    hidden = len(frames) - _OUTER_FRAMES_FROM
    title = element("h3", "Where in the code")
    if hidden < 2:
        return join([title, element("ol", *frames, class_="stack")])
    summary = element("summary", plural(hidden, "outer frame"))
    folded = element("details", summary, element("ol", *frames[:hidden], class_="stack"))
    return join([title, folded, element("ol", *frames[hidden:], class_="stack", start=hidden + 1)])


def _frame(frame: str, last: bool) -> Markup:
    module, name, line = split_frame(frame)
    where = element("span", frame_place(module, line), class_="where") if module else None
    return element("li", element("code", name), where, class_="inner" if last else None)


def findings_table(report: Report) -> Markup | None:
    """Return one row per finding."""
    heads = ("Who", "What", "Costs", "How sure")
    rows = [_finding_row(finding, report, heads) for finding in report.findings]
    if not rows:
        return None
    head = element("thead", element("tr", *(element("th", text, scope="col") for text in heads)))
    return element("table", head, element("tbody", *rows), class_="stacked")


def _finding_row(finding: Finding, report: Report, heads: tuple[str, ...]) -> Markup:
    meaning = CAUSE_WORDS.get(finding.cause, finding.cause)
    who = join([element("b", capital(place(finding))), _small(", ".join(_roles(finding)))])
    name = element("code", location(finding)) if finding.function else None
    what = join([name, _small(f"{capital(meaning)} ({finding.cause})")])
    price = cost(finding, iteration_seconds(report)) or "no measurable time"
    sure = join([f"{finding.confidence} confidence", _small(f"{_SIGNS.get(finding.severity, '')} {finding.severity}")])
    cells = zip(heads, (who, what, element("span", price), sure), strict=True)
    return element("tr", *(element("td", element("div", cell), data_label=head) for head, cell in cells))


def _roles(finding: Finding) -> list[str]:
    roles = [role for role in dict.fromkeys(finding.roles) if role and role != "all"]
    return [f"role {visible(role)}" for role in roles[:4]]


def _small(text: str) -> Markup | None:
    return element("span", text, class_="small") if text.strip() else None


def bystanders(report: Report) -> Markup | None:
    """Return who waits for whom; they are not the cause."""
    items = [element("li", f"{capital(waits(victims))}.") for victims in report.victims]
    return element("ul", *items, class_="plain") if items else None


def ruled_out(report: Report) -> Markup | None:
    """Return what was looked at and is not the cause."""
    texts = report.detail.ruled_out if report.detail is not None else ()
    items = [element("li", capital(text)) for text in texts]
    return element("ul", *items, class_="ruled-out") if items else None


def notes(report: Report) -> Markup | None:
    """Return the notes that the headline does not hold already."""
    told = headlined(report)
    items = [element("li", capital(note)) for note in report.notes if visible(note) != told]
    return element("ul", *items, class_="plain") if items else None


def method(report: Report) -> Markup:
    """Return how the verdict came about, in three sentences."""
    if report.reason == "blocked":
        return element("p", _STANDSTILL)
    detail = report.detail
    stretch = "the same stretch of training"
    if detail is not None and detail.iterations > 0:
        stretch += f", {plural(detail.iterations, 'iteration')}"
    who = "The workers that reported" if missing(report) else "All workers"
    return element(
        "p",
        f"{who} were profiled over {stretch}, and each moment was charged to one function. "
        "The time of each function per iteration was then compared with the other workers that have the same role and, "
        "where there is one, with a healthy reference window of this job. "
        "A worker is named for what it does or lacks itself, unlike its peers; waiting for others never counts "
        "against it.",
    )


def footer(report: Report) -> Markup:
    """Return the line that identifies the window."""
    parts = [f"Window {report.window_id}", window_time(report), f"reason: {report.reason}", "made by eroica_otel"]
    return element("footer", " · ".join(part for part in parts if part))
