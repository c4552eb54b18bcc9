"""What is known of a rank beside its window: takes nothing, holds the facts that only the job's memory has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Presence:
    """One rank as the job sees it when a window is judged.

    Attributes:
        state: State that the worker says it is in, "" while unknown.
        silent_seconds: Time since its latest delivery; None when it never delivered.
        gone: It delivered once and has been silent for so long that it counts as dead.
        host: Its host, "" unknown.
        role: Its role, "" unknown.
    """

    state: str = ""
    silent_seconds: float | None = None
    gone: bool = False
    host: str = ""
    role: str = ""
