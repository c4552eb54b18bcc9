"""What went wrong with one file: takes nothing, holds the sentence that a person gets; the other files go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST = 20
"""Files left out that a report names; standard error names all."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One file or path that is left out.

    Attributes:
        path: What it is about.
        text: What is wrong, where, and what to do; names the path.
        usage: Whether the command line is to blame, not the file.
    """

    path: str
    text: str
    usage: bool = False


def with_more(problems: Sequence[Problem]) -> str:
    """Return the first of some problems, and how many there are beside it."""
    more = len(problems) - 1
    return problems[0].text + (f" (and {more} more problem{'s' if more > 1 else ''})" if more else "")


def left_out(problems: Sequence[Problem]) -> list[str]:
    """Return the notes of a report on what could not be used."""
    more = len(problems) - _MOST
    notes = [f"left out: {problem.text}" for problem in problems[:_MOST]]
    return [*notes, *([f"left out: {more} more file{'s' if more > 1 else ''}"] if more > 0 else [])]
