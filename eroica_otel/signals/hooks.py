"""The torch-facing edge: takes calls of next() and step() in the training, gives rows in a bounded queue.

A row is ``(loader key, begin ns, end ns)`` for an input and ``(optimizer key, ~number, ns)`` for an update, whose
second item is negative: ``number`` is Recorder.steps after it. The hooks only append: a deque append is atomic, needs
no lock, and reuses its blocks. torch is never imported here; hooks are set when torch's own modules are, and looked up
at each call, so loaders and optimizers that exist already are seen too.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from types import ModuleType
from typing import Any, Generic, TypeVar

import wrapt

NEVER = sys.maxsize
CAPACITY = 1 << 16
"""Rows kept until the 1 Hz thread takes them; the oldest are lost beyond (65,536 a second)."""
LOST_AFTER = 128
"""Updates of one other optimizer, with none of the counted one between them, after which the other one is counted."""

Row = tuple[int, int, int]
T = TypeVar("T")


class Recorder:
    """Receives events from the training thread and calls back at the borders that a window needs.

    Attributes:
        rows: Events not yet taken.
        steps: Updates by the counted optimizer, the first one seen: the one count that is equal on all ranks. When the
            training replaces it, the count goes on with another (LOST_AFTER), by a rule that depends on events alone.
        counted: Key of the counted optimizer, 0 before.
        edge: From this value of ``steps`` on ``on_edge`` is called after each update, on the training thread.
        attention: Whether ``notice`` is to be called at the next event: before the first, and while ``overdue``.
        optimizer: The counted optimizer (weak), for the signature of the loop.
        latest: Key of the latest event; who sets it to 0 before a call sees afterwards whether that call had an event.
        thread: threading.get_ident() of the thread that produced the first event.
    """

    __slots__ = (
        "_overdue",
        "_rival",
        "_rival_steps",
        "_started",
        "attention",
        "counted",
        "edge",
        "latest",
        "on_edge",
        "on_first",
        "optimizer",
        "rows",
        "steps",
        "thread",
    )

    def __init__(self, on_first: Callable[[], None], on_edge: Callable[[], None]) -> None:
        self.rows: deque[Row] = deque(maxlen=CAPACITY)
        self.steps = 0
        self.edge = NEVER
        self.on_edge = on_edge
        self.on_first = on_first
        self.optimizer: weakref.ref[Any] | None = None
        self.counted = self.latest = self.thread = 0
        self.attention = True
        self._started = self._overdue = False
        self._rival = self._rival_steps = 0

    @property
    def overdue(self) -> bool:
        """Whether ``on_edge`` is called after inputs too, because a window that found no end must be given up."""
        return self._overdue

    @overdue.setter
    def overdue(self, value: bool) -> None:
        self._overdue = value
        self.attention = value or not self._started

    def notice(self) -> None:
        """Take note of the first event and of the thread that it came from; later: end what is overdue."""
        if self._overdue:
            self.on_edge()
        elif not self._started:
            self._started = True
            self.attention = False
            self.thread = threading.get_ident()
            self.on_first()

    def input(self, key: int, begin: int, end: int) -> None:
        """Record one input that took from ``begin`` to ``end``."""
        if self.attention:
            self.notice()
        self.latest = key
        self.rows.append((key, begin, end))

    def update(self, optimizer: Any) -> None:
        """Record one update by ``optimizer``."""
        if self.attention:
            self.notice()
        self.latest = key = id(optimizer)
        if key != self.counted and not self._count_instead(key, optimizer):
            self.rows.append((key, ~self.steps, perf_counter_ns()))
            return
        self._rival = 0
        self.steps = steps = self.steps + 1
        self.rows.append((key, ~steps, perf_counter_ns()))
        if steps >= self.edge:
            self.on_edge()

    def _count_instead(self, key: int, optimizer: Any) -> bool:
        """Count ``optimizer`` from now on, if it is the first or the counted one is gone; return whether."""
        if self.counted and self._rival in (0, key):
            self._rival_steps = self._rival_steps + 1 if self._rival else 1
            self._rival = key
        if self.counted and (self._rival != key or self._rival_steps < LOST_AFTER):
            return False
        self.counted = key
        try:
            self.optimizer = weakref.ref(optimizer)
        except TypeError:  # a class with __slots__
            self.optimizer = None
        return True

    def take(self) -> list[Row]:
        """Return the events since the last call, oldest first."""
        rows = self.rows
        return [rows.popleft() for _ in range(len(rows))]


class Watched(Generic[T]):
    """An input that is not a DataLoader, timed: iterates as often as the original, passes all else on to it."""

    def __init__(self, recorder: Recorder, iterable: Iterable[T]) -> None:
        self._recorder = recorder
        self._iterable = iterable
        self._iterator: Iterator[T] | None = None

    def __iter__(self) -> Iterator[T]:
        recorder, key = self._recorder, id(self._iterable)
        source = iter(self._iterable)
        while True:
            recorder.latest = 0
            begin = perf_counter_ns()
            try:
                item = next(source)
            except StopIteration:
                return
            # A DataLoader inside has been recorded by its own hook; twice would look like two inputs.
            if not recorder.latest:
                recorder.input(key, begin, perf_counter_ns())
            yield item

    def __next__(self) -> T:
        if self._iterator is None:
            self._iterator = iter(self)
        return next(self._iterator)

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]  # TypeError where the original has no length either

    def __getattr__(self, name: str) -> Any:
        if name == "_iterable":  # a copy before its fields are there
            raise AttributeError(name)
        return getattr(self._iterable, name)


class Hooks:
    """Sets the hooks as soon as torch's modules are imported; ``close()`` takes all of them away."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._undo: list[Callable[[], None]] = []
        self._closed = False
        wrapt.register_post_import_hook(self._hook_loader, "torch.utils.data.dataloader")
        wrapt.register_post_import_hook(self._hook_optimizer, "torch.optim.optimizer")
        wrapt.register_post_import_hook(self._hook_scaler, "torch.amp.grad_scaler")

    def _hook_loader(self, module: ModuleType) -> None:
        if self._closed:
            return
        owner: Any = module._BaseDataLoaderIter
        original = owner.__next__
        recorder, append = self._recorder, self._recorder.rows.append
        silent = False

        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:  # Recorder.input written out: a call less is 0.1 us less in every iteration
            begin = perf_counter_ns()
            batch = original(iterator)
            if recorder.attention and not silent:
                recorder.notice()
            recorder.latest = key = id(iterator._dataset)
            append((key, begin, perf_counter_ns()))
            return batch

        def undo() -> None:
            # Somebody may have wrapped this hook in the meantime and go on calling it.
            nonlocal append, silent
            append, silent = _ignore, True
            if owner.__next__ is __next__:
                owner.__next__ = original

        owner.__next__ = __next__
        self._undo.append(undo)

    def _hook_optimizer(self, module: ModuleType) -> None:
        if self._closed:
            return
        recorder, append = self._recorder, self._recorder.rows.append

        def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:  # Recorder.update written out, as above
            if (key := id(optimizer)) != recorder.counted or recorder.attention:
                recorder.update(optimizer)
                return
            recorder.latest = key
            recorder._rival = 0
            recorder.steps = steps = recorder.steps + 1
            append((key, ~steps, perf_counter_ns()))
            if steps >= recorder.edge:
                recorder.on_edge()

        handle = module.register_optimizer_step_post_hook(after_step)
        self._undo.append(handle.remove)

    def _hook_scaler(self, module: ModuleType) -> None:
        """See the updates that mixed precision skips: without them two iterations would look like one."""
        owner: Any = getattr(module, "GradScaler", None)
        if self._closed or owner is None:
            return
        original, recorder, hooks = owner.step, self._recorder, self

        @functools.wraps(original)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            recorder.latest = 0
            result = original(scaler, optimizer, *args, **kwargs)
            if not recorder.latest and not hooks._closed:
                recorder.update(optimizer)
            return result

        def undo() -> None:
            if owner.step is step:
                owner.step = original

        owner.step = step
        self._undo.append(undo)

    def close(self) -> None:
        """Undo every hook; a later import of torch sets none."""
        self._closed = True
        while self._undo:
            self._undo.pop()()


def _ignore(row: Row) -> None:
    """Stand where a queue stood."""
