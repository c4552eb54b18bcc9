"""Report -> one self-contained HTML page: no request to anywhere, no script, readable on phone and paper. Pure."""

from __future__ import annotations

from importlib.resources import files

from eroica_otel.model import Report
from eroica_otel.publish.report import pictures, sections
from eroica_otel.publish.report.markup import Markup, element, raw
from eroica_otel.publish.report.raw import raw_numbers
from eroica_otel.publish.report.verdict import claim, grave, headline, iteration_seconds
from eroica_otel.publish.report.words import capital, sentence

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What the page may load: nothing. A second fence behind the escaping."""
_PICTURED = 5
"""Findings that get a section of their own; the table lists all."""


def render(report: Report) -> str:
    """Return the page; everything that comes from the report is escaped."""
    page = element("html", _head(report), element("body", element("main", *_main(report))), lang="en")
    return f"<!doctype html>\n{page}\n".encode("utf-8", "replace").decode("utf-8")


def _head(report: Report) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{headline(report)} {report.training_job}"),
        element("link", rel="icon", href="data:,"),
        element("style", raw(style())),
    )


def style() -> str:
    """Return the style sheet that the page carries."""
    return files("eroica_otel.publish.report").joinpath("style.css").read_text(encoding="utf-8")


def _main(report: Report) -> list[Markup | None]:
    named = grave(report)
    first = named[0] if named else None
    return [
        sections.hero(report),
        sections.section(
            "What shows it" if first else "What was looked at",
            sections.evidence(first) if first else None,
            pictures.function_picture(report, first),
            pictures.iteration_picture(report),
            pictures.window_picture(report),
            sections.stack(first) if first else None,
        ),
        *(_further(report, number) for number in range(1, min(len(named), _PICTURED))),
        sections.section("All findings" if first else "Worth knowing", sections.findings_table(report)),
        sections.section("Waiting, not the cause", sections.bystanders(report)),
        sections.section("Ruled out" if first else "Checked and normal", sections.ruled_out(report)),
        sections.section("Notes", sections.notes(report)),
        sections.section("How this was found", sections.method(report)),
        sections.section("Numbers", raw_numbers(report), class_="numbers"),
        sections.footer(report),
    ]


def _further(report: Report, number: int) -> Markup | None:
    finding = grave(report)[number]
    advice = element("p", element("b", "What to do"), " ", capital(sentence(finding.advice)), class_="advice")
    return sections.section(
        f"Also: {claim(finding, iteration_seconds(report))}",
        advice if finding.advice else None,
        sections.evidence(finding),
        pictures.function_picture(report, finding),
        sections.stack(finding),
    )
