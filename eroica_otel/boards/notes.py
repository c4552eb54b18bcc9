"""Windows and findings as annotations of Grafana: takes verdicts, gives times, tags and a short text for each. Pure.

The tag ``eroica_id=`` is made from what an annotation is about alone, so that a restarted localizer, or a second one
that sees the same, finds the one that is there.
"""

from __future__ import annotations

import hashlib
import html
import math
from collections.abc import Iterable
from dataclasses import dataclass

from eroica_otel.boards.api import Noted
from eroica_otel.errors import one_line
from eroica_otel.model import Finding, Report
from eroica_otel.publish.report.verdict import CAUSE_WORDS, claim, headline, window_time
from eroica_otel.publish.report.words import capital, location, sentence, visible

ALL = "eroica"
WINDOW, FINDING = "window", "finding"
_TEXT = 600
_TAG = 100
"""Longest text, and longest tag, in characters; Grafana keeps a tag in a column of so many (its tag_mig.go)."""


@dataclass(frozen=True, slots=True)
class Note:
    """One annotation.

    Attributes:
        id: Tag that tells it from all others.
        start_ms: Its start, milliseconds since 1970.
        end_ms: Its end; the start of what has not ended.
        tags: All its tags.
        text: What it says, as HTML.
    """

    id: str
    start_ms: int
    end_ms: int
    tags: tuple[str, ...]
    text: str

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.end_ms <= self.start_ms

    def is_(self, held: Noted) -> bool:
        """Return whether one that Grafana holds under this id is this one, and not one that ended before it began."""
        return held.is_open or held.timeEnd >= self.start_ms


def of_window(team: str, report: Report) -> Note | None:
    """Return the annotation of a judged window; None where its id is no time."""
    if not window_time(report):
        return None
    seconds = report.detail.window_seconds if report.detail is not None else math.nan
    start = report.window_id * 1000
    end = start + (int(seconds * 1000) if math.isfinite(seconds) and seconds > 0 else 0)
    own = _id(WINDOW, team, report.training_job, report.window_id)
    tags = _tags(own, team, report.training_job, WINDOW, f"reason={report.reason}")
    return Note(own, start, end, tags, _text(f"Window ({report.reason}).", headline(report)))


def of_finding(team: str, training_job: str, window_id: int, finding: Finding) -> Note:
    """Return the annotation of an open finding that was first seen in this window."""
    own = _id(FINDING, team, training_job, finding.verdict, finding.ranks, finding.function_id, finding.link)
    tags = _tags(own, team, training_job, FINDING, f"cause={finding.cause}", f"severity={finding.severity}")
    cause = CAUSE_WORDS.get(finding.cause, finding.cause)
    why = f"In {location(finding)}, {cause}." if finding.function else sentence(capital(cause))
    advice = f"Advice: {sentence(finding.advice)}" if finding.advice else ""
    # Without the length of the iteration: it differs from window to window, and the text with it.
    said = f"{capital(claim(finding, math.nan))}."
    return Note(own, window_id * 1000, window_id * 1000, tags, _text(said, why, advice))


def _id(*about: object) -> str:
    return f"eroica_id={hashlib.blake2b(repr(about).encode(), digest_size=8).hexdigest()}"


def _tags(own: str, team: str, training_job: str, *more: str) -> tuple[str, ...]:
    named: Iterable[str] = (ALL, f"training_job={training_job}", *([f"team={team}"] if team else []), *more, own)
    return tuple(visible(tag)[:_TAG] for tag in named)


def _text(*parts: str) -> str:
    return html.escape(one_line(" ".join(part for part in parts if part), _TEXT), quote=False)
