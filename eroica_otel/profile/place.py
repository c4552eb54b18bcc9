"""Is the training still in its loop? Where its events came from, compared with where the thread is now.

A training that has ended makes no event, and neither does one that hangs. They differ in the place: a thread whose
functions have left the loop that called ``next()`` and ``step()`` exports, evaluates or waits for the end. The loop is
read from the byte code: what lies between the target of a backward jump and the jump.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import get_ident
from types import CodeType, FrameType

from eroica_otel.profile.glance import Place

EVENT_LOOPS = ("asyncio", "tornado", "ipykernel", "IPython", "ray", "concurrent", "threading")
"""Packages whose loops go on for ever around any training: a notebook waits in one of them for the next cell."""
_INNER = ("torch", "eroica_otel", "wrapt", "accelerate", "deepspeed")
"""Packages whose innermost frames are the event itself: its own loops are not those of the training."""
_OUTERMOST = ("<module>", "_bootstrap")
"""Where a thread of Python begins; autograd's own threads, which may run a step in backward, begin elsewhere."""
_NOWHERE = -1
_Range = tuple[int, int]


class Where:
    """Remembers the stacks of the latest input and update; ``see`` runs on the training thread.

    Attributes:
        thread: threading.get_ident() of the thread that trains; 0 before the first event.
    """

    def __init__(self) -> None:
        self._input: tuple[int, tuple[Place, ...]] = (0, ())
        self._stacks: tuple[tuple[Place, ...], ...] = ()
        self.thread = 0

    def see(self, update: bool) -> None:
        """Take note of where the calling thread is, at an event: some microseconds, about once a second.

        An input counts once an update follows it: validation fetches too.
        """
        ident, places = get_ident(), _stack(sys._getframe(1))
        fetcher, fetched = self._input
        if not update:
            self._input = (ident, places)
        elif places and places[0][0].co_name in _OUTERMOST:
            self.thread, self._stacks = ident, (places, fetched) if fetched and fetcher == ident else (places,)
        elif fetched:
            self.thread, self._stacks = fetcher, (fetched,)

    def of(self, now: Sequence[Place]) -> str:
        """Return where the thread with the stack ``now`` (outermost first) is: inside, between, outside; "" unknown."""
        stacks = self._stacks
        if not stacks:
            return ""
        loops = [_common_loops([stack[depth] for stack in stacks]) for depth in range(_shared(stacks))]
        looping = [depth for depth, found in enumerate(loops) if found]
        if not looping:
            return ""
        # One loop around the events for each frame that has any: in the deepest the innermost, the one that trains.
        together = _shared([stacks[0], now])
        still = [depth for depth in looping if depth < together and _around(loops[depth], now[depth][1])]
        deepest = looping[-1]
        if deepest in still and _around([min(loops[deepest], key=_length)], now[deepest][1]):
            return "inside"
        return "between" if still else "outside"


def _stack(frame: FrameType | None) -> tuple[Place, ...]:
    """Return the calling stack outermost first, without the frames that make the event."""
    found: list[Place] = []
    inner = True
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        inner = inner and package in _INNER
        if not inner:
            found.append((frame.f_code, _NOWHERE if package in EVENT_LOOPS else frame.f_lasti))
        frame = frame.f_back
    return tuple(reversed(found))


def _shared(stacks: Sequence[Sequence[Place]]) -> int:
    """Return how many frames all stacks have in common, from the outermost on."""
    depth = 0
    for frames in zip(*stacks, strict=False):
        if any(code is not frames[0][0] for code, _ in frames):
            break
        depth += 1
    return depth


def _common_loops(places: Sequence[Place]) -> list[_Range]:
    """Return the loops of one function that are around all given places in it."""
    code = places[0][0]
    return [loop for loop in loops(code) if all(_around([loop], at) for _, at in places)]


def _around(found: Iterable[_Range], at: int) -> bool:
    return any(start <= at <= end for start, end in found)


def _length(loop: _Range) -> int:
    return loop[1] - loop[0]


@lru_cache(maxsize=256)
def loops(code: CodeType) -> tuple[_Range, ...]:
    """Return first and last byte-code offset of each loop of a function; ``continue`` jumps back to the same place."""
    jumps = {*dis.hasjrel, *dis.hasjabs}
    last: dict[int, int] = {}
    for one in dis.get_instructions(code):
        if one.opcode in jumps and "NO_INTERRUPT" not in one.opname and int(one.argval) < one.offset:
            last[int(one.argval)] = one.offset
    return tuple(sorted(last.items()))
