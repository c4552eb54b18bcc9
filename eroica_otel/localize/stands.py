"""Where each rank stands while nothing moves: takes blocked windows, gives for each rank what it does and whether it
waits.

A rank is judged by what most of its stack samples show; a loop that never ends shows many stacks, so what they have
in common counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eroica_otel.kinds import Frame, frame_name, is_input, is_wait, pause_of
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.sequence import outstanding
from eroica_otel.model import Pattern, WorkerWindow

_CUT = "..."
_SAME = 0.9
"""Share of the samples whose stacks must agree on a frame that is not left."""


@dataclass(frozen=True, slots=True)
class Stand:
    """One rank in a blocked window.

    Attributes:
        window: What it reported.
        state: State that it says it is in, "" while unknown.
        stopped: The process was in state T for most of the window.
        read: A stack was seen.
        waits: Its innermost frame waits for peers or the device in most samples, or a collective that it has entered
            has not completed.
        in_frame: The first of the two alone.
        stack: Frames that it did not leave, outermost first; () where none was read.
        function: Name of the innermost of them.
        function_id: Function that stands for them, "" without one.
        share: Share of the samples with these frames.
        input: It stands in the call of the training's input.
        pause: Family and frame of an intended pause (saving, evaluation, debugger), None without.
    """

    window: WorkerWindow
    state: str
    stopped: bool
    read: bool
    waits: bool
    in_frame: bool
    stack: tuple[str, ...] = ()
    function: str = ""
    function_id: str = ""
    share: float = 0.0
    input: bool = False
    pause: tuple[str, str] | None = None

    @property
    def rank(self) -> int:
        """Rank of the worker."""
        return self.window.identity.rank


def stand_of(window: WorkerWindow, state: str, policy: Policy) -> Stand:
    """Return where one rank stands; never raises on what it reported."""
    patterns = [p for p in window.patterns if p.kind == "python" and math.isfinite(p.beta) and p.beta > 0]
    total = sum(pattern.beta for pattern in patterns)
    waiting = [pattern for pattern in patterns if _waits(pattern)]
    in_frame = sum(pattern.beta for pattern in waiting) > policy.hang_share * total
    stopped = window.stopped_seconds >= policy.hang_share * max(window.seconds, 0.0) and window.stopped_seconds > 0
    waits = in_frame or outstanding(window.progress)
    bare = Stand(window, state, stopped, bool(patterns), waits, in_frame)
    if not patterns:
        return bare
    return _placed(bare, waiting if in_frame else [p for p in patterns if p not in waiting] or patterns, total)


def _placed(bare: Stand, patterns: Sequence[Pattern], total: float) -> Stand:
    stack, share = _kept(patterns)
    largest = max(patterns, key=lambda pattern: pattern.beta)
    exact = next((p for p in patterns if p.stack == stack), largest if len(patterns) == 1 else None)
    chosen = exact or largest
    pause = _pause(patterns, total)
    return Stand(
        bare.window, bare.state, bare.stopped, bare.read, bare.waits, bare.in_frame,
        stack=stack or chosen.stack,
        function=chosen.function if exact or not stack else frame_name(frame_of(stack[-1])),
        function_id=chosen.function_id,
        share=min(share / total, 1.0),
        input=chosen.family in ("input", "loader") or any(is_input(frame_of(frame)) for frame in stack),
        pause=pause,
    )  # fmt: skip


def _kept(patterns: Iterable[Pattern]) -> tuple[tuple[str, ...], float]:
    """Return the longest stack that nearly all samples begin with, and the samples that do."""
    rest = [pattern for pattern in patterns if pattern.stack]
    need = _SAME * sum(pattern.beta for pattern in rest)
    kept: tuple[str, ...] = ()
    samples = sum(pattern.beta for pattern in rest)
    while True:
        weights: dict[str, float] = {}
        for pattern in rest:
            if len(pattern.stack) > len(kept):
                weights[pattern.stack[len(kept)]] = weights.get(pattern.stack[len(kept)], 0.0) + pattern.beta
        frame = max(weights, key=lambda each: weights[each], default="")
        if not frame or weights[frame] < need:
            # A stack that was cut begins with "...", which says nothing about where the rank is.
            return (kept, samples) if kept[-1:] != (_CUT,) else ((), samples)
        kept, samples = (*kept, frame), weights[frame]
        rest = [pattern for pattern in rest if pattern.stack[: len(kept)] == kept]


def _pause(patterns: Iterable[Pattern], total: float) -> tuple[str, str] | None:
    """Return the pause that most samples show."""
    weights: dict[tuple[str, str], float] = {}
    for pattern in patterns:
        found = pause_of(frame_of(frame) for frame in pattern.stack)
        if found is not None:
            key = (found[0], f"{found[1].module}:{found[1].qualname}")
            weights[key] = weights.get(key, 0.0) + pattern.beta
    largest = max(weights, key=lambda each: weights[each], default=None)
    return largest if largest is not None and sum(weights.values()) > total / 2 else None


def _waits(pattern: Pattern) -> bool:
    return pattern.family == "wait" or bool(pattern.stack and is_wait(frame_of(pattern.stack[-1])))


def frame_of(text: str) -> Frame:
    """Return the frame that "module:qualname:firstline" names; text that names none is the name of a function."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not parts[2].isdecimal() or len(parts[2]) > 9:
        return Frame("", text, "", 0)
    return Frame(parts[0], parts[1], parts[0], int(parts[2]))


def inside_loop(stand: Stand, usual: frozenset[str]) -> bool:
    """Return whether the rank stands in something that the training loop calls: the input, or a function of the
    reference (``usual``, see :func:`usual_frames`).
    """
    return stand.input or any(frame in usual for frame in stand.stack)


def usual_frames(reference: Iterable[WorkerWindow]) -> frozenset[str]:
    """Return the frames of the reference that belong to some of its stacks, not to all: what the loop calls."""
    patterns = [pattern for window in reference for pattern in window.patterns]
    # Those of other processes and of collections do not begin where the training does.
    stacks = {pattern.stack for pattern in patterns if pattern.stack and pattern.family not in ("loader", "gc")}
    if not stacks:
        return frozenset()
    return frozenset().union(*stacks) - frozenset.intersection(*(frozenset(stack) for stack in stacks))
