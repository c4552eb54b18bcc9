"""A page of sections with tables, as Markdown and as HTML that loads nothing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from eroica_otel.publish.report.html import POLICY, style
from eroica_otel.publish.report.markup import Markup, element, raw

Row = Sequence[str]


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        title: Its heading.
        text: Paragraphs.
        head, rows: A table, where it has one.
    """

    title: str
    text: tuple[str, ...] = ()
    head: Row = ()
    rows: Sequence[Row] = field(default_factory=tuple)


def markdown(title: str, sections: Sequence[Section]) -> str:
    """Return the page as Markdown."""
    blocks = []
    for level, section in [("#", Section(title)), *(("##", section) for section in sections)]:
        blocks += [f"{level} {section.title}", *section.text]
        if section.rows:
            lines = [section.head, ["---"] * len(section.head), *section.rows]
            blocks.append("\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines))
    return "\n\n".join(blocks) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def html(title: str, sections: Sequence[Section]) -> str:
    """Return the page as HTML; every text is escaped."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", raw(style())),
    )
    body = element("body", element("main", element("h1", title), *map(_section, sections)))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _section(section: Section) -> Markup:
    table = None
    if section.rows:
        first = element("thead", element("tr", *(element("th", text) for text in section.head)))
        rest = (element("tr", *(element("td", text) for text in row)) for row in section.rows)
        table = element("div", element("table", first, element("tbody", *rest)), class_="scroll")
    text = (element("p", paragraph.replace("`", "")) for paragraph in section.text)
    return element("section", element("h2", section.title), *text, table)
