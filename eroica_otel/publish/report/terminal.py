"""The verdict for a terminal: takes a Report, gives lines of plain text that fit a width. Pure.

The verdict stands first, then the numbers that prove it, what was ruled out, and what to do. Colour only adds.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from eroica_otel.model import Finding, Report
from eroica_otel.publish.report.verdict import (
    grave,
    headlined,
    iteration_seconds,
    looked_at,
    missing,
    outcome,
    persistence,
    price,
    unjudged,
    waits,
)
from eroica_otel.publish.report.words import (
    NO_BREAK,
    duration,
    frame_text,
    glued,
    location,
    place,
    plural,
    ranks_text,
    visible,
)

GUTTER = 10
"""Columns of the label at the left."""
NARROWEST = 40
_GAP = "   "
_FRAMES = 8
_LABELS: Mapping[str, str] = MappingProxyType({"culprit": "CULPRIT", "job": "JOB-WIDE", "role": "ROLE"})
_STYLES: Mapping[str, str] = MappingProxyType({"critical": "1;31", "warning": "1;33", "info": "2", "good": "32"})


def render(report: Report, width: int = 100, colour: bool = False, more: Sequence[str] = ()) -> str:
    """Return the verdict as text with a final newline.

    Args:
        report: The verdict on one window.
        width: Columns of the terminal; below 40 it is taken as 40. A word longer than a line is the only exception.
        colour: Whether ANSI colours may be used.
        more: What stands behind "more" at the end: where the other forms of the report are.
    """
    width = max(width, NARROWEST)
    blocks = [_facts(report, width), _verdict(report, width, colour), _context(report, width)]
    tail = _stacks(report, width) + _entry("more", _GAP.join(more), width)
    return "\n\n".join("\n".join(block) for block in (*blocks, tail) if block) + "\n"


def _facts(report: Report, width: int) -> list[str]:
    parts = [f"job {visible(report.training_job)}", f"window {report.window_id}", report.reason]
    detail = report.detail
    if detail is not None:
        parts.append(f"{plural(detail.iterations, 'iteration')}, {duration(detail.window_seconds)}")
    parts.append(f"{report.workers_seen:,} of {plural(report.workers_expected, 'worker')}")
    if detail is not None and detail.verdict_seconds >= 0:
        parts.append(f"{duration(detail.verdict_seconds)} to verdict")
    lines = [parts[0]]
    for part in parts[1:]:
        joined = lines[-1] + _GAP + part
        lines = [*lines[:-1], joined] if len(joined) <= width else [*lines, part]
    return lines


def _verdict(report: Report, width: int, colour: bool) -> list[str]:
    kind = outcome(report)
    if kind == "finding":
        return _findings(report, width, colour)
    if kind == "quiet":
        lines = _wrapped(f"no finding: {headlined(report) or looked_at(report)}", width)
        style = "good"
    else:
        lines = _wrapped(unjudged(report), width)
        style = "warning"
    infos = _findings(report, width, colour)
    return [_paint(line, style, colour) for line in lines] + ([""] if infos else []) + infos


def _findings(report: Report, width: int, colour: bool) -> list[str]:
    cells = [(place(one), location(one), one.cause) for one in report.findings]
    columns = [max((len(row[i]) for row in cells), default=0) for i in range(3)]
    lines: list[str] = []
    for one, row in zip(report.findings, cells, strict=True):
        lines += [""] if lines else []
        label = "info" if one.severity == "info" else _LABELS.get("role" if one.scope == "role" else one.verdict, "")
        head = _head(row, columns, width)
        lines.append(_paint(label.ljust(GUTTER) + head[0], one.severity, colour))
        lines += [" " * GUTTER + line for line in head[1:]]
        for text in _body(one, iteration_seconds(report)):
            lines += _entry("", text, width)
    return lines


def _head(row: tuple[str, str, str], columns: Sequence[int], width: int) -> list[str]:
    """Return the cells side by side where they fit, else below one another."""
    if GUTTER + sum(columns) + 2 * len(_GAP) <= width:
        return [_GAP.join(cell.ljust(size) for cell, size in zip(row, columns, strict=True)).rstrip()]
    return [line for cell in row for line in textwrap.wrap(cell, width - GUTTER)]


def _body(finding: Finding, iteration: float) -> list[str]:
    facts = [price(finding, iteration), f"{finding.confidence} confidence", persistence(finding)]
    lines = [", ".join(fact for fact in facts if fact), *finding.evidence, _distances(finding)]
    return lines + ([f"do: {finding.advice}"] if finding.advice else [])


def _distances(finding: Finding) -> str:
    """Return the three distances with their symbols, for those who compare runs; "" where none was computed."""
    parts = (
        (finding.differential_distance, "peers {:.2f} (Delta)"),
        (finding.drift_distance, "reference {:+.2f} (Gamma)"),
        (finding.expectation_distance, "expectation {:.2f} (D)"),
    )
    known = ", ".join(text.format(number) for number, text in parts if number is not None)
    return f"distance from {known}" if known else ""


def _context(report: Report, width: int) -> list[str]:
    lines: list[str] = []
    named = bool(grave(report))
    for victims in report.victims:
        # Beside a finding its evidence says where they wait; without one this is all there is.
        lines += _entry("victims", ranks_text(victims.ranks, limit=12) if named else waits(victims), width)
    lines += _entry("missing", missing(report), width)
    if report.detail is not None:
        lines += _entry("ruled out", ", ".join(report.detail.ruled_out), width)
    told = headlined(report)
    for note in report.notes:
        if visible(note) != told:
            lines += _entry("note", note, width)
    return lines


def _stacks(report: Report, width: int) -> list[str]:
    lines: list[str] = []
    for finding in grave(report):
        frames = [frame_text(frame) for frame in finding.stack]
        hidden = len(frames) - _FRAMES
        if hidden > 0:
            frames = [f"({plural(hidden, 'outer frame')})", *frames[hidden:]]
        lines += _entry("stack", " > ".join(frames), width)
    return lines


def _entry(label: str, text: str, width: int) -> list[str]:
    """Return a labelled paragraph; nothing for an empty text."""
    first, rest = label.ljust(GUTTER), " " * GUTTER
    return _wrapped(text, width, first, rest) if text.strip() else []


def _wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    lines = textwrap.wrap(
        glued(visible(text)), width, initial_indent=first, subsequent_indent=rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(NO_BREAK, " ") for line in lines]


def _paint(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colour and style in _STYLES else text
