"""What a reader tells of its progress while it reads a large file: two calls in, nothing out unless they raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Watch:
    """Is told between two pieces of a file, in the thread that reads; what it raises ends the reading.

    Attributes:
        read: Takes the bytes of the file, as it is stored, that are gone through.
        held: Takes the events held by all processes that read the file, and the unpacked bytes that they came from.
    """

    read: Callable[[int], None] = lambda size: None
    held: Callable[[int, int], None] = lambda events, position: None


NOBODY = Watch()
"""Lets everything pass."""
