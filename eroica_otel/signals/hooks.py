"""The torch-facing edge: takes calls of next() and step() in the training, gives rows in a bounded queue.

A row is ``(loader key, begin ns, end ns)`` for an input and ``(optimizer key, ~number, ns)`` for an update, whose
second item is negative: ``number`` is Recorder.steps after it. ``AFRESH`` stands where the rows before it mislead. The
hooks only append: a deque append is atomic, needs no lock, and reuses its blocks. torch is never imported here; hooks
are set when torch's own modules are, and looked up at each call, so loaders and optimizers that exist already are seen
too.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import get_ident
from time import perf_counter_ns
from types import ModuleType
from typing import Any, Generic, TypeVar

import wrapt

from eroica_otel.errors import Guard, unguarded
from eroica_otel.signals.counting import Successors
from eroica_otel.signals.threads import TrainingThread

NEVER = sys.maxsize
CAPACITY = 1 << 13
"""Rows kept until the 1 Hz thread takes them; beyond 8,192 a second the oldest are lost. Not more, because rows that
pile up beyond the core's cache double what an event costs (bench/README.md)."""
GONE = -1
"""Key of the counted optimizer after its end; no object has it."""

Row = tuple[int, int, int]
T = TypeVar("T")

AFRESH: Row = (0, 0, 0)
"""A row that says: inputs so far came from a thread that does not train, forget what was concluded from them."""


class Recorder:
    """Receives events from the training thread and calls back at the borders that a window needs.

    Attributes:
        rows: Events not yet taken.
        steps: Updates by the counted optimizer, the first one seen: the one count that is equal on all ranks. When the
            training replaces it, the count goes on with its successor (counting.py).
        counted: Key of the counted optimizer; 0 before the first, GONE after its end.
        edge: From this value of ``steps`` on ``on_edge`` is called after each update, on the training thread.
        attention: Whether ``notice`` is to be called at the next events, until a whole iteration has been seen.
        optimizer: The counted optimizer (weak), for the signature of the loop.
        latest: Key of the latest event but updates of the counted optimizer, which ``steps`` shows; who sets it to 0
            before a call sees afterwards whether that call had an event.
        thread: threading.get_ident() of the one thread that trains, whose inputs count; 0 while no other thread has
            fetched any, so that nobody need ask which thread it is, or where several train.
        patient: Whether to start with the first update, not with an input: a forked child that only reads data, beside
            a training, is no worker.
        postponed: Whether ``on_edge`` is called after the next events too, inputs or updates: at an update inside a
            backward pass a window can neither begin nor end.
        place: Called with "is it an update" at the events that are noticed, to see where in the program they are.
    """

    __slots__ = (
        "_overdue", "_postponed", "_seen_update", "_started", "_successors", "_trainer", "attention", "counted", "edge",
        "latest", "on_edge", "on_first", "optimizer", "patient", "place", "rows", "steps", "thread",
    )  # fmt: skip

    def __init__(self, on_first: Callable[[], None], on_edge: Callable[[], None], steps: int = 0) -> None:
        self.rows: deque[Row] = deque(maxlen=CAPACITY)
        self.on_first = on_first
        self._reset(on_edge, steps)
        self.patient = False

    def _reset(self, on_edge: Callable[[], None], steps: int) -> None:
        self.steps = steps
        self.edge = NEVER
        self.on_edge = on_edge
        self.optimizer: weakref.ref[Any] | None = None
        self.counted = self.latest = self.thread = 0
        self.attention = True
        self._started = self._overdue = self._postponed = self._seen_update = False
        self._successors = Successors()
        self._trainer = TrainingThread()
        self.place: Callable[[bool], None] | None = None

    def forget(self) -> None:
        """In a forked child: as before the first event, without the parent's rows."""
        self.patient = self.patient or self._started
        self.rows.clear()
        self._reset(lambda: None, 0)

    @property
    def started(self) -> bool:
        """Whether there was an event."""
        return self._started

    @property
    def overdue(self) -> bool:
        """Whether ``on_edge`` is called after inputs too, because a window that found no end must be given up."""
        return self._overdue

    @overdue.setter
    def overdue(self, value: bool) -> None:
        self._overdue = value
        self.attention = True

    @property
    def postponed(self) -> bool:
        return self._postponed

    @postponed.setter
    def postponed(self, value: bool) -> None:
        self._postponed = value
        self.attention = True

    def notice(self, update: bool) -> None:
        """Take note of the first event and of the thread that it comes from; do what is overdue or was postponed."""
        if self._overdue or (self._postponed and self.thread in (0, get_ident())):
            self.on_edge()
            return
        if self.place is not None:
            self.place(update)
        self._look_at_thread(update)
        if not self._started and (update or not self.patient):
            self._started = True
            self.on_first()
        if update:
            # From one update to the next, or a thread that always fetches right after an update is never noticed.
            self.attention = not self._seen_update
            self._seen_update = self.attention

    def _look_at_thread(self, update: bool) -> None:
        trainer = self._trainer
        misled = trainer.see_update(get_ident()) if update else trainer.see_input(get_ident())
        if misled and not self.thread:
            self.rows.append(AFRESH)
        if misled or self.thread:
            self.thread = trainer.ident

    def input(self, key: int, begin: int, end: int) -> None:
        """Record one input that took from ``begin`` to ``end``, unless it is that of a thread that fetches ahead."""
        if self.attention:
            self.notice(False)
        if self.thread and self.thread != get_ident():
            return
        self.latest = key
        self.rows.append((key, begin, end))

    def update(self, optimizer: Any) -> None:
        """Record one update by ``optimizer``."""
        if self.attention:
            self.notice(True)
        self.latest = key = id(optimizer)
        if key != self.counted:
            if self.counted and not self._successors.succeeds(optimizer, self.steps):
                self.rows.append((key, ~self.steps, perf_counter_ns()))
                return
            self._count(optimizer)
        self.steps = steps = self.steps + 1
        self.rows.append((key, ~steps, perf_counter_ns()))
        if steps >= self.edge:
            self.on_edge()

    def _count(self, optimizer: Any) -> None:
        """Count ``optimizer`` from now on; another one may get its number when it is gone, and is not meant."""
        self.counted = id(optimizer)
        try:
            self.optimizer = weakref.ref(optimizer, self._end_of)
        except TypeError:  # a class with __slots__
            self.optimizer = None

    def _end_of(self, optimizer: weakref.ref[Any]) -> None:
        if optimizer is self.optimizer:
            self.counted = GONE

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


def _guarded(guard: Guard, hook: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    return lambda module: guard("start", lambda: hook(module))


class Hooks:
    """Sets the hooks as soon as torch's modules are imported; ``close()`` takes all of them away."""

    def __init__(self, recorder: Recorder, guard: Guard = unguarded) -> None:
        """Args: guard: Sets each hook; it is called inside the training's ``import torch``."""
        self._recorder = recorder
        self._undo: list[Callable[[], None]] = []
        self._steps: list[Any] = []
        self._closed = False
        names = ("torch.utils.data.dataloader", "torch.optim.optimizer", "torch.amp.grad_scaler")
        for name, hook in zip(names, (self._hook_loader, self._hook_optimizer, self._hook_scaler), strict=True):
            wrapt.register_post_import_hook(_guarded(guard, hook), name)

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
                recorder.notice(False)
            if (thread := recorder.thread) and thread != get_ident():
                return batch
            try:  # costs nothing where it holds
                source = iterator._dataset
            except AttributeError:  # a loader of another kind
                source = iterator
            recorder.latest = key = id(source)
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
            recorder.steps = steps = recorder.steps + 1
            append((key, ~steps, perf_counter_ns()))
            if steps >= recorder.edge:
                recorder.on_edge()

        self._steps.append(module.register_optimizer_step_post_hook(after_step))

    def _hook_scaler(self, module: ModuleType) -> None:
        """See the updates that mixed precision skips: without them two iterations would look like one."""
        owner: Any = getattr(module, "GradScaler", None)
        if self._closed or owner is None:
            return
        original, recorder, hooks = owner.step, self._recorder, self

        @functools.wraps(original)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before, recorder.latest = recorder.steps, 0
            result = original(scaler, optimizer, *args, **kwargs)
            if recorder.steps == before and not recorder.latest and not hooks._closed:
                recorder.update(optimizer)
            return result

        def undo() -> None:
            if owner.step is step:
                owner.step = original

        owner.step = step
        self._undo.append(undo)

    def close(self, elsewhere: bool = False) -> None:
        """Undo every hook; a later import of torch sets none.

        Args:
            elsewhere: Called by another thread than the one that trains, which may be going through torch's table of
                hooks: no entry may leave it, so the one of the optimizer's step stays, and only counts updates, until
                ``close()`` is called by the one that trains.
        """
        self._closed = True
        while self._undo:
            self._undo.pop()()
        for handle in self._steps:
            table = handle.hooks_dict_ref()
            if not elsewhere:
                handle.remove()
            elif table is not None and handle.id in table:
                table[handle.id] = self._count_alone
        if not elsewhere:
            self._steps.clear()

    def _count_alone(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Keep the number of updates equal on all ranks, should they be watched again."""
        if id(optimizer) == self._recorder.counted:
            self._recorder.steps += 1


def _ignore(row: Row) -> None:
    """Stand where a queue stood."""
