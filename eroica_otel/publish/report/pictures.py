"""Pictures of the HTML report with captions and legends: takes a Report, gives markup. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from eroica_otel.model import Detail, Finding, FunctionDetail, Report
from eroica_otel.publish.report.bars import bars, typical_peer
from eroica_otel.publish.report.figure import NAMED, NARROW, SMALL, WIDE, Story, draw
from eroica_otel.publish.report.markup import Markup, element, join, raw
from eroica_otel.publish.report.stacked import stacked
from eroica_otel.publish.report.verdict import grave, missing
from eroica_otel.publish.report.words import capital, duration, percent, plural, ranks_text, visible

_GLYPHS = {
    "dot": '<circle class="dot" cx="11" cy="7" r="4.5"/>',
    "culprit": '<path class="culprit" d="M11 0.5l6.5 6.5l-6.5 6.5l-6.5 -6.5z"/>',
    "absent": '<circle class="absent" cx="11" cy="7" r="4.5"/>',
    "rug": '<path class="rug" d="M5 11v-7M11 11v-7M17 11v-7"/>',
    "median": '<line class="median" x1="0" x2="22" y1="7" y2="7"/>',
    "reference": '<line class="reference" x1="0" x2="22" y1="7" y2="7"/>',
    "band": '<rect class="band" x="0" y="1" width="22" height="12"/>',
}


def function_picture(report: Report, finding: Finding | None) -> Markup | None:
    """Return the function of a finding over all ranks (of no finding: the one with the largest difference)."""
    detail = report.detail
    function = _function(detail, finding) if detail is not None else None
    if detail is None or function is None:
        return None
    culprits = frozenset(finding.ranks if finding is not None else ())
    named = detail.largest_difference[1] if finding is None else None
    story = Story(function, detail.ranks, detail.hosts, culprits, named)
    told = describe(story)
    title = element("figcaption", "Time in ", element("code", function.function), " on each rank", class_="title")
    absent = missing(report)
    note = element("p", f"Not drawn: {absent}.", class_="note") if absent else None
    drawings = [draw(story, sheet, told) for sheet in (WIDE, NARROW)]
    return element("figure", title, *drawings, _legend(story), _shares(story), note, class_="card")


def _shares(story: Story) -> Markup | None:
    """Return mu and sigma over all ranks; None where they were not measured on any."""
    function = story.function
    drawn = []
    for values, what in ((function.mu, "of its resource in use (mu)"), (function.sigma, "deviation of that (sigma)")):
        if any(math.isfinite(value) for value in values):
            known = replace(function, seconds=values, median=math.nan, tolerance=math.nan, reference=math.nan)
            one = replace(story, function=known, named=None, share=what)
            drawn.append(draw(one, SMALL, _share_told(one)))
    return element("div", *drawn, class_="plots") if drawn else None


def _share_told(story: Story) -> str:
    """Return the values of the culprits and the range of the others, for readers who cannot see it."""
    values = list(zip(story.ranks, story.function.seconds, strict=True))
    parts = [f"rank {rank}: {story.text(value)}" for rank, value in values if rank in story.culprits][:NAMED]
    others = [value for rank, value in values if rank not in story.culprits and math.isfinite(value)]
    if others:
        parts.append(f"{'other ranks' if parts else 'all ranks'}: {percent(min(others))} to {percent(max(others))}")
    return f"{capital(story.share)}: {', '.join(parts)}."


def describe(story: Story) -> str:
    """Return in words what the picture shows, for readers who cannot see it."""
    name, median = visible(story.function.function), duration(story.function.median)
    parts = [f"Time per iteration in {name} on {plural(len(story.ranks), 'rank')}: median {median}."]
    marked = [i for i, rank in enumerate(story.ranks) if rank in story.culprits]
    told = [f"rank {story.ranks[i]} takes {duration(story.function.seconds[i])}" for i in marked[:NAMED]]
    if told:
        parts.append(f"{capital(', '.join(told))}{' and others' if len(marked) > NAMED else ''}.")
    others = [story.ranks[i] for i in story.outside()]
    if others:
        parts.append(f"Also outside the tolerated range: {ranks_text(others)}.")
    return " ".join(parts)


def _legend(story: Story) -> Markup:
    function = story.function
    ordinary = [value for value, rank in zip(function.seconds, story.ranks, strict=True) if rank not in story.culprits]
    items = []
    if story.culprits:
        items.append(("culprit", "culprit" if len(story.culprits) == 1 else "culprits"))
    if any(math.isfinite(value) for value in ordinary):
        items.append(("dot", "other ranks" if story.culprits else "a rank"))
    if not all(math.isfinite(value) for value in ordinary):
        items.append(("absent" if len(story.ranks) <= 256 else "rug", "too small to be reported"))
    if math.isfinite(function.median):
        items.append(("median", f"median {duration(function.median)}"))
    if story.band() is not None:
        items.append(("band", f"tolerated, median ± {duration(function.tolerance)}"))
    if math.isfinite(function.reference):
        items.append(("reference", f"healthy reference {duration(function.reference)}"))
    return element("ul", *(element("li", _glyph(name), text) for name, text in items), class_="legend")


def _glyph(name: str) -> Markup:
    return element("svg", raw(_GLYPHS[name]), viewBox="0 0 22 14", class_="glyph", aria_hidden="true")


def _function(detail: Detail, finding: Finding | None) -> FunctionDetail | None:
    if finding is not None:
        return next((one for one in detail.functions if one.function_id == finding.function_id), None)
    name = detail.largest_difference[0]
    return next((one for one in detail.functions if one.function == name), None)


def shown_workers(report: Report) -> list[tuple[int, str]]:
    """Return (rank, what it is) of the first culprit and a typical peer (nobody named: of a typical worker)."""
    detail = report.detail
    if detail is None:
        return []
    first = next(iter(grave(report)), None)
    culprits = first.ranks if first is not None else ()
    rows = [(culprits[0], "culprit")] if culprits else []
    peer = typical_peer(detail, culprits)
    if peer is not None:
        rows.append((peer, "typical peer" if culprits else "a typical worker"))
    return rows


def iteration_picture(report: Report) -> Markup | None:
    """Return the iteration of the workers shown, by kind."""
    content = bars(report.detail, shown_workers(report)) if report.detail is not None else None
    if content is None:
        return None
    text = "Where the time of one iteration goes"
    return element("figure", join([element("figcaption", text, class_="title"), content]), class_="card")


def window_picture(report: Report) -> Markup | None:
    """Return the critical path of the workers shown over the window, as stacked bars by kind; None without any."""
    known = {line.rank: line for line in report.detail.timelines} if report.detail is not None else {}
    rows = [(known[rank], what) for rank, what in shown_workers(report) if rank in known]
    if not rows:
        return None
    title = element("figcaption", "The critical path over the window", class_="title")
    return element("figure", title, stacked(rows), class_="card")
