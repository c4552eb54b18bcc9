"""Stacks around a DataLoader: does the training wait for its processes, and what do these run? Takes frames, looks at
their names.

torch's own names, and those of the Python modules under it; a version that uses others is a longer expression here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from eroica_otel import kinds
from eroica_otel.kinds import Frame

_QUEUE = re.compile(
    r"(?:torch\.utils\.data\.dataloader|torchdata\.stateful_dataloader(?:\.\w+)*)"
    r":\w*MultiProcessingDataLoaderIter\.(?:_try_get_data|_get_data)"
)
"""Takes a batch from the processes' queue."""
_WAIT = re.compile(
    r"selectors:(?:\w+\.)?select|threading:(?:\w+\.)?wait|queue:Queue\.get"
    r"|multiprocessing\.connection:(?:\w+\.)?(?:wait|poll|_poll|_recv)|multiprocessing\.reduction:recvfds"
)
"""Waits below that for a batch, or for the memory it lies in: a thread of the process hands that over, once it gets the
interpreter.
"""
_IDLE = re.compile(r"(?:torch\.)?multiprocessing(?:\.\w+)*:.*")
"""Right below the loop of such a process: it waits for work, or hands a batch over."""


def _named(pattern: re.Pattern[str], frame: Frame) -> bool:
    return pattern.fullmatch(f"{frame.module}:{frame.qualname}") is not None


def awaits_loader(stack: Iterable[Frame]) -> bool:
    """Return whether a thread with this stack (outermost first) waits for a process of its DataLoader."""
    frames = tuple(stack)
    return bool(frames) and _named(_WAIT, frames[-1]) and any(_named(_QUEUE, frame) for frame in frames)


def loader_stack(stack: Iterable[Frame]) -> tuple[Frame, ...]:
    """Return what a process of the DataLoader runs, from its loop inwards; () where it waits for work or ends.

    What is around the loop is left out: under fork that is the stack from which the process was made.
    """
    frames = tuple(stack)
    at = next((place for place, frame in enumerate(frames) if kinds.python_family((frame,)) == "loader"), len(frames))
    mine = tuple(frame for frame in frames[at:] if not kinds.is_own(frame))
    return () if len(mine) > 1 and _named(_IDLE, mine[1]) else mine
