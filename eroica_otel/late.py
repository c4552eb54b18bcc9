"""Whether the node agent's late samples of a captured window have come: Nsight Systems tells after the window only.

Takes the shared folder and the file that says that a capture is complete; runs in the helper.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eroica_otel.hardware.gather import reached

FAMILY = "nsys"
LOOK_SECONDS = 1.0


@dataclass(slots=True)
class _Held:
    """A capture that waits: when its window ended, until when it may wait, when to look again."""

    end_ns: int
    until: float
    look: float
    over: bool = False


class Late:
    """Holds a capture back until its late samples are there, or for as long as was allowed."""

    def __init__(self, shared: str, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """``shared`` is the folder of the agent, "" for none; ``seconds`` of 0 hold nothing back."""
        self._shared, self._clock = Path(shared), clock
        self._seconds = seconds if shared else 0.0
        self._waiting: dict[Path, _Held] = {}

    def settled(self, meta: Path) -> bool:
        """Return whether the capture whose facts are in ``meta`` need not wait any longer; never raises."""
        if not self._seconds:
            return True
        now = self._clock()
        held = self._waiting.get(meta)
        if held is None:
            held = self._waiting[meta] = _Held(_end_of(meta), now + self._seconds, now)
        if now >= held.look:
            held.look = now + LOOK_SECONDS
            held.over = now >= held.until or reached(self._shared, FAMILY, held.end_ns)
        if held.over:
            del self._waiting[meta]
            return True
        return False


def _end_of(meta: Path) -> int:
    """Return when the captured window ended; 0 for what is no capture, as its reader will tell."""
    try:
        return int(json.loads(meta.read_text())["end_ns"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0
