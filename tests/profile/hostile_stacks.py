"""A process in which a naive walk over another thread's frames crashes CPython 3.11: run by test_stacks.py.

A function that returns while somebody holds its frame object gives the frame over to it, and links it to its caller's,
for which that one's frame object is allocated. On CPython 3.11 an allocation may collect garbage, a collection calls
back Python, and Python lets go of the interpreter's lock: another thread then finds a frame on the stack that is about
to vanish. Here frames are held on purpose, collections are frequent and their callback takes long.

    python hostile_stacks.py ours|naive SECONDS
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from typing import Any

from eroica_otel.profile.stacks import frames_of

CALLBACK_SECONDS = 50e-6


def naive(thread: int) -> list[Any]:
    """Walk as any example does."""
    frame, seen = sys._current_frames().get(thread), []
    while frame is not None:
        seen.append(frame)
        frame = frame.f_back
    return [(one.f_code,) for one in reversed(seen)]


def sample(walk: Any, thread: int, until: float) -> None:
    """Look as often as possible."""
    while time.monotonic() < until:
        [id(seen[0]) for seen in reversed(walk(thread))]
        time.sleep(CALLBACK_SECONDS)


def slow_callback(phase: str, info: dict[str, Any]) -> None:
    """Take long enough that the other thread gets its turn."""
    until = time.perf_counter() + CALLBACK_SECONDS
    while time.perf_counter() < until:
        pass


def hold_frames(kept: list[Any], depth: int) -> None:
    """Return from a function whose frame is held, with callers that have no frame object yet."""
    if depth:
        hold_frames(kept, depth - 1)
    else:
        kept.append(sys._getframe())


def work(depth: int) -> None:
    """Hold frames at the end of a stack."""
    if depth:
        work(depth - 1)
        return
    kept: list[Any] = []
    for number in range(8):
        hold_frames(kept, number % 3)
    kept.clear()


def main() -> None:
    """Run for the given seconds, or crash."""
    until = time.monotonic() + float(sys.argv[2])
    walk = {"ours": frames_of, "naive": naive}[sys.argv[1]]
    sys.setswitchinterval(1e-5)
    gc.callbacks.append(slow_callback)
    gc.set_threshold(2, 1000, 1000)
    other = threading.Thread(target=sample, args=(walk, threading.get_ident(), until))
    other.start()
    while time.monotonic() < until:
        for depth in (3, 40, 5, 100):
            work(depth)
    other.join()


if __name__ == "__main__":
    main()
