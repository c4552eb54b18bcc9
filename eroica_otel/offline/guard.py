"""One file that is read -> a Watch that tells how far it is, and refuses to go on before memory runs out."""

from __future__ import annotations

import os

from eroica_otel.errors import TraceError
from eroica_otel.hardware.host import free_memory_bytes
from eroica_otel.offline.tally import note
from eroica_otel.summarize.readers.watch import Watch

EVENT_BYTES = 100
"""What an event that is read will still take to be sorted and charged: measured 30 (operators) to 210 (kernels alone);
a third of a trace's events are kernels at most."""


def watch_of(path: str, *, tally: str = "", place: int = 0, beside: int = 1, guarded: bool = True) -> Watch:
    """Return what watches the reading of ``path``.

    Args:
        tally: File that is told how far it is, as ``place`` of it; reading ends where it is gone. "" for nobody.
        beside: Files that are read at a time, which share the memory.
        guarded: Whether reading ends, by a TraceError, where what was read needs more memory than is free.
    """

    def read(size: int) -> None:
        if tally and not note(tally, place, size):
            raise TraceError(f"{path}: given up after {size} bytes; start it again")

    def held(events: int, position: int) -> None:
        free = free_memory_bytes(os.getpid())
        if free is not None and events * EVENT_BYTES * beside > free:
            raise TraceError(_too_much(path, events, position, free, beside))

    return Watch(read, held) if guarded else Watch(read)


def _too_much(path: str, events: int, position: int, free: int, beside: int) -> str:
    others = f", {beside} files at a time" if beside > 1 else ""
    fewer = "read fewer files at a time (--jobs 1), or " if beside > 1 else ""
    return (
        f"{path}: memory would run out: the {events} events in its first {position} bytes take "
        f"{_size(events * EVENT_BYTES * beside)} more{others}, {_size(free)} are free; "
        f"{fewer}profile fewer iterations; --limit GB reads that much of it, however little is free"
    )


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"
