"""One look at a thread of this process: its stack as frames with names, and where in each function it is."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from types import CodeType
from typing import Any

from eroica_otel.kinds import Frame
from eroica_otel.profile.stacks import walk

Place = tuple[CodeType, int]
"""A function and the offset of the instruction that it is at."""

_read = attrgetter("f_code", "f_globals", "f_lasti")


@dataclass(frozen=True, slots=True)
class Glance:
    """A stack at one moment, outermost frame first; both tuples have the same length."""

    frames: tuple[Frame, ...]
    places: tuple[Place, ...]


def glance(thread: int) -> Glance:
    """Return the stack of the thread with this ``threading.get_ident()``; empty when it has ended."""
    seen: list[tuple[CodeType, dict[str, Any], int]] = walk(thread, _read)
    seen.reverse()
    return Glance(tuple(_frame(code, names) for code, names, _ in seen), tuple((code, at) for code, _, at in seen))


def _frame(code: CodeType, names: dict[str, Any]) -> Frame:
    """Name a function; before Python 3.11 without its class, which the tables of kinds.py do not need."""
    name = getattr(code, "co_qualname", code.co_name)
    return Frame(str(names.get("__name__", "?")), name, code.co_filename, code.co_firstlineno)
