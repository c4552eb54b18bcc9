"""What went wrong with one file: takes nothing, holds the sentence that a person gets; the other files go on."""

from __future__ import annotations

from dataclasses import dataclass


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
