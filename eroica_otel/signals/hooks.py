"""The torch-facing edge: takes calls of next() and step() in the training, gives rows in a bounded queue.

A row is ``(loader key, begin ns, end ns)`` for an input and ``(optimizer key, NO_BEGIN, ns)`` for an update. The
hooks only append: a deque append is atomic, needs no lock, and reuses its blocks. torch is never imported here; hooks
are set when torch's own modules are, and looked up at each call, so loaders and optimizers that exist already are
seen too.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from types import ModuleType
from typing import Any

import wrapt

NO_BEGIN = -1
NEVER = sys.maxsize
CAPACITY = 1 << 16
"""Rows kept until the 1 Hz thread takes them; the oldest are lost beyond (65,536 a second)."""

Row = tuple[int, int, int]


class Recorder:
    """Receives events from the training thread and calls back at the borders that a window needs.

    Attributes:
        rows: Events not yet taken.
        steps: Updates by the first-seen optimizer, the one count that is equal on all ranks.
        edge: From this value of ``steps`` on ``on_edge`` is called after each update, on the training thread.
        first: Key of the first-seen optimizer, 0 before.
        optimizer: The first-seen optimizer (weak), for the signature of the loop.
        started: Whether there was an event.
        thread: threading.get_ident() of the thread that produced the first event.
    """

    __slots__ = ("edge", "first", "on_edge", "on_first", "optimizer", "rows", "started", "steps", "thread")

    def __init__(self, on_first: Callable[[], None], on_edge: Callable[[], None]) -> None:
        self.rows: deque[Row] = deque(maxlen=CAPACITY)
        self.steps = 0
        self.edge = NEVER
        self.on_edge = on_edge
        self.on_first = on_first
        self.optimizer: weakref.ref[Any] | None = None
        self.first = 0
        self.thread = 0
        self.started = False

    def start(self) -> None:
        """Take note of the first event and of the thread that it came from."""
        self.started = True
        self.thread = threading.get_ident()
        self.on_first()

    def input(self, key: int, begin: int, end: int) -> None:
        """Record one input that took from ``begin`` to ``end``."""
        if not self.started:
            self.start()
        self.rows.append((key, begin, end))

    def update(self, optimizer: Any) -> None:
        """Record one update by ``optimizer``."""
        key = id(optimizer)
        self.rows.append((key, NO_BEGIN, perf_counter_ns()))
        if key == self.first:
            self.steps += 1
            if self.steps >= self.edge:
                self.on_edge()
        elif self.first == 0:
            if not self.started:
                self.start()
            self.first = key
            self.optimizer = weakref.ref(optimizer)
            self.steps = 1

    def take(self) -> list[Row]:
        """Return the events since the last call, oldest first."""
        rows = self.rows
        return [rows.popleft() for _ in range(len(rows))]


def watch(recorder: Recorder, iterable: Iterable[Any]) -> Iterator[Any]:
    """Yield from an input that is not a DataLoader, recording each item."""
    key = id(iterable)
    source = iter(iterable)
    while True:
        begin = perf_counter_ns()
        try:
            item = next(source)
        except StopIteration:
            return
        recorder.input(key, begin, perf_counter_ns())
        yield item


class Hooks:
    """Sets the hooks as soon as torch's modules are imported; ``close()`` takes all of them away."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._undo: list[Callable[[], None]] = []
        self._closed = False
        wrapt.register_post_import_hook(self._hook_loader, "torch.utils.data.dataloader")
        wrapt.register_post_import_hook(self._hook_optimizer, "torch.optim.optimizer")

    def _hook_loader(self, module: ModuleType) -> None:
        if self._closed:
            return
        owner: Any = module._BaseDataLoaderIter
        original = owner.__next__
        recorder, append = self._recorder, self._recorder.rows.append

        def __next__(iterator: Any) -> Any:  # written out: a call less is 0.1 us less in every iteration
            begin = perf_counter_ns()
            batch = original(iterator)
            if not recorder.started:
                recorder.start()
            append((id(iterator._dataset), begin, perf_counter_ns()))
            return batch

        owner.__next__ = __next__

        def undo() -> None:
            if owner.__next__ is __next__:
                owner.__next__ = original

        self._undo.append(undo)

    def _hook_optimizer(self, module: ModuleType) -> None:
        if self._closed:
            return
        recorder, append = self._recorder, self._recorder.rows.append

        def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:  # written out, as above
            if (key := id(optimizer)) != recorder.first:
                recorder.update(optimizer)
                return
            append((key, NO_BEGIN, perf_counter_ns()))
            recorder.steps = steps = recorder.steps + 1
            if steps >= recorder.edge:
                recorder.on_edge()

        handle = module.register_optimizer_step_post_hook(after_step)
        self._undo.append(handle.remove)

    def close(self) -> None:
        """Undo every hook; a later import of torch sets none."""
        self._closed = True
        while self._undo:
            self._undo.pop()()
