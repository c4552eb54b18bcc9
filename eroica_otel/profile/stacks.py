"""The stack sampler: a thread that looks at the training thread about 1,000 times a second, inside a window only.

A sample waits for the GIL and gets it where the training thread lets go. At the interpreter's default switch interval
of 5 ms a Python function of 0.4 ms that takes 99 % of the time gets 0 % of the samples; at 0.1 ms it gets its share
(a known-share test is in tests/profile). So the interval is lowered for the window and put back after.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from array import array
from collections.abc import Callable
from itertools import accumulate, chain, islice, repeat
from operator import attrgetter, itemgetter
from types import CodeType, FrameType
from typing import Any, TypeVar

from eroica_otel.aside import Aside

SWITCH_INTERVAL_SECONDS = 1e-4
NIC_HERTZ = 200.0

T = TypeVar("T")
Frame = tuple[str, str, str, int]
Seen = tuple[CodeType, dict[str, Any]] | tuple[CodeType, dict[str, Any], FrameType]
"""Code and globals of a frame; the frame too where its locals are needed for the function's qualified name (3.10)."""


def _with_frame(frame: FrameType) -> Seen:
    return (frame.f_code, frame.f_globals, frame)


_seen: Callable[[Any], Seen] = attrgetter("f_code", "f_globals") if sys.version_info >= (3, 11) else _with_frame


class StackSampler:
    """Samples one thread between ``start`` and ``stop``; results lie in the public arrays afterwards.

    Attributes:
        stack_ns, stack_ids, cpu_ns: Time, index into ``stacks`` and CPU time of the thread, per sample.
        nic_ns, nic_tx, nic_rx: Time and cumulative bytes, per network sample.
        gc_ns: Start and end of garbage collections, flat.
    """

    def __init__(
        self,
        thread: int,
        hertz: float,
        nic: Callable[[], tuple[int, int] | None] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._thread = thread
        self._pause = 1.0 / hertz
        self._nic = nic
        self._link = Aside(self._read_nic, "eroica-link") if nic is not None else None
        self._clock = clock
        self._cpu_clock = time.pthread_getcpuclockid(thread)
        self._codes: dict[int, int] = {}
        self._kept: list[CodeType] = []
        self._known: dict[tuple[int, ...], int] = {}
        self.frames: list[Frame] = []
        self.stacks: list[tuple[int, ...]] = []
        self.stack_ns, self.stack_ids, self.cpu_ns = array("q"), array("i"), array("q")
        self.nic_ns, self.nic_tx, self.nic_rx = array("q"), array("q"), array("q")
        self.gc_ns = array("q")
        self._gc_start = 0
        self._pid = os.getpid()
        self._stopping = threading.Event()
        self._switch_interval = 0.0
        self._runner = threading.Thread(target=self._run, name="eroica-sampler", daemon=True)

    def start(self) -> None:
        """Begin to sample; lowers the interpreter's switch interval. Raises RuntimeError where no thread can start."""
        self._runner.start()
        self._switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        gc.callbacks.append(self._on_gc)

    def stop(self) -> None:
        """End, and put the switch interval back unless somebody else has changed it meanwhile."""
        self._stopping.set()
        self._runner.join(timeout=1.0)
        if self._link is not None:
            self._link.close()
        self._undo()

    def leave(self) -> None:
        """In a child that was forked inside the window, and has no sampler: put back what ``start`` has changed."""
        if os.getpid() != self._pid:
            self._undo()

    def _undo(self) -> None:
        if self._on_gc in gc.callbacks:
            gc.callbacks.remove(self._on_gc)
        if abs(sys.getswitchinterval() - SWITCH_INTERVAL_SECONDS) < 1e-7:
            sys.setswitchinterval(self._switch_interval)

    def _on_gc(self, phase: str, info: dict[str, Any]) -> None:
        if os.getpid() != self._pid:
            self.leave()
        elif phase == "start":
            self._gc_start = self._clock()
        elif self._gc_start:
            self.gc_ns.extend((self._gc_start, self._clock()))

    def _run(self) -> None:
        next_nic = self._clock()
        step = int(1e9 / NIC_HERTZ)
        while not self._stopping.is_set():
            now = self._sample()
            if self._link is not None and now >= next_nic:
                next_nic = max(next_nic + step, now + step // 2)  # no burst after a gap
                self._sample_nic(self._link)
            time.sleep(self._pause)
        if self._link is not None:
            self._keep_nic(self._link)

    def _sample_nic(self, link: Aside[tuple[int, int, int]]) -> None:
        """Take the reading that was asked for the last time, and ask for one: a device may never answer."""
        self._keep_nic(link)
        if self._nic is not None:
            link.ask()

    def _keep_nic(self, link: Aside[tuple[int, int, int]]) -> None:
        seen = link.answer()
        if seen is not None:
            self.nic_ns.append(seen[0])
            self.nic_tx.append(seen[1])
            self.nic_rx.append(seen[2])

    def _read_nic(self) -> tuple[int, int, int] | None:
        """Return time and bytes; no more is asked after an error."""
        try:
            seen = None if self._nic is None else self._nic()
        except (OSError, ValueError):
            self._nic = None
            return None
        return None if seen is None else (self._clock(), *seen)

    def _sample(self) -> int:
        frames = frames_of(self._thread)
        now = self._clock()
        if not frames:
            return now
        try:
            cpu, stack = time.clock_gettime_ns(self._cpu_clock), self._stack(frames)
        except (OSError, AttributeError):  # the thread has ended, or a frame cannot be read: it costs this sample
            return now
        self.stack_ids.append(stack)
        self.cpu_ns.append(cpu)
        self.stack_ns.append(now)
        return now

    def _stack(self, frames: list[Seen]) -> int:
        """Return the number of the stack, whose frames come innermost first."""
        codes = self._codes
        key = []
        for seen in reversed(frames):
            index = codes.get(id(seen[0]))
            key.append(self._learn(*seen) if index is None else index)
        stack = tuple(key)
        known = self._known.get(stack)
        if known is None:
            known = self._known[stack] = len(self.stacks)
            self.stacks.append(stack)
        return known

    def _learn(self, code: CodeType, names: dict[str, Any], frame: FrameType | None = None) -> int:
        """Give a function a number; its code object is kept, so that its id stays its own."""
        name = code.co_name if frame is None else qualified_name(frame)
        self._kept.append(code)
        self._codes[id(code)] = len(self.frames)
        self.frames.append(
            (str(names.get("__name__", "?")), getattr(code, "co_qualname", name), code.co_filename, code.co_firstlineno)
        )
        return len(self.frames) - 1


def frames_of(thread: int) -> list[Seen]:
    """Return what is on the stack of a running thread, innermost first; [] when it has ended."""
    return walk(thread, _seen)


def walk(thread: int, read: Callable[[Any], T]) -> list[T]:
    """Return what ``read``, which must be written in C, gives for each frame, innermost first; [] when it has ended.

    From the look-up to the last frame not one bytecode of ours runs, so that the interpreter's lock cannot change
    hands, and no frame object outlives the walk. On CPython 3.11 a frame object that is held when its function returns
    has to take the frame over, which allocates; a garbage collection there, with a callback in Python, lets another
    walk find a frame that is about to vanish: a segmentation fault of the training (a test makes the conditions).
    Collection is held back meanwhile for the same reason.
    """
    top = islice(map(itemgetter(thread), iter(sys._current_frames, None)), 1)
    found = map(read, accumulate(chain(top, repeat("f_back")), getattr))
    frames: list[T] = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        frames.extend(found)
    except (AttributeError, KeyError):  # the frame beyond the outermost is None; a thread that has ended has no frames
        pass
    finally:
        if collecting:
            gc.enable()
    return frames


def qualified_name(frame: FrameType) -> str:
    """Return "Class.function" of the frame: what Python 3.11 and later know as co_qualname, by its first argument."""
    code = frame.f_code
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    kind = first if isinstance(first, type) else type(first)
    for owner in kind.__mro__ if first is not None else ():
        found = vars(owner).get(code.co_name)
        if getattr(getattr(found, "__func__", found), "__code__", None) is code:
            return f"{owner.__qualname__}.{code.co_name}"
    # A method that somebody has wrapped is found under no class; that of its argument is as good.
    method = first is not None and code.co_varnames[0] == "self"
    return f"{kind.__qualname__}.{code.co_name}" if method else code.co_name
