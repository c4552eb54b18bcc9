"""Attaches eroica_otel to a training process; the one place where failures of the trainer's side are swallowed.

Nothing here imports torch, opens a port or starts a thread before the first event of a training loop, so launchers,
resource trackers and loader workers stay as they are.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

from eroica_otel.config import OPTIONS, WorkerConfig
from eroica_otel.errors import ConfigError
from eroica_otel.profile.loaders import WorkerLoop
from eroica_otel.signals.hooks import Hooks, Recorder, Watched
from eroica_otel.signals.loaderhook import LoaderHook

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from eroica_otel.export.metered import Metered
    from eroica_otel.worker import Worker

LOGGER = logging.getLogger("eroica_otel")
T = TypeVar("T")


class Guard:
    """Runs our own code inside the user's process: counts what it raises, logs each stage's first failure, goes on."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, stage: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self.failed(stage, f"{type(error).__name__}: {error}; training is not affected")

    def failed(self, stage: str, text: str) -> None:
        """Count a failure of ``stage``; log the first; what the training's handlers of logs raise is not let out."""
        self.counts[stage] += 1
        if self.counts[stage] == 1:
            with suppress(Exception):
                LOGGER.warning("eroica_otel: %s: %s", stage, text, exc_info=LOGGER.isEnabledFor(logging.DEBUG))


class Handle:
    """What ``instrument()`` returns; ``close()`` undoes everything it did."""

    def __init__(self, config: WorkerConfig, steps: int = 0, provider: MeterProvider | None = None) -> None:
        """Args:
        steps: Where the count of updates goes on, when this process was watched before.
        provider: Where the series go, where the training has a meter provider of its own for them.
        """
        self.config = config
        self._guard = Guard()
        self._recorder = Recorder(lambda: self._guard("start", self._start), lambda: None, steps)
        self._provider = provider
        self._hooks: Hooks | None = None
        self._loader_hook: LoaderHook | None = None
        self._worker: Worker | None = None
        self._left: list[Worker] = []
        self._finalizer: Any = None
        self._pid = os.getpid()
        self._log_handler: logging.Handler | None = None
        self.detached = False

    def attach(self) -> None:
        """Set the hooks, unless the kill switch is on; nothing that fails here is raised."""
        self._guard("start", self._attach)

    def _attach(self) -> None:
        self._say_problems(self.config.problems)
        if self.config.disabled:
            return
        self._hooks = Hooks(self._recorder, self._guard)
        if self.config.loaders:
            directory = self.config.directory
            self._loader_hook = LoaderHook(lambda name, loop: WorkerLoop(name, directory, loop), self._guard)
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(itself()))
        atexit.register(self._at_exit)

    def _say_problems(self, problems: Iterable[str]) -> None:
        for problem in problems:
            self._guard.counts["config"] += 1
            LOGGER.warning("eroica_otel: config: %s", problem)

    @property
    def recorder(self) -> Recorder:
        return self._recorder

    def watch(self, iterable: Iterable[T]) -> Watched[T]:
        """Return ``iterable``, an input that is not a DataLoader, so that each item is timed."""
        return Watched(self._recorder, iterable)

    def step(self) -> None:
        """Say that one update of a loop without a torch optimizer is done."""
        self._recorder.update(self)

    def _start(self) -> None:
        """First event: find out who this is and start the threads."""
        data = sys.modules.get("torch.utils.data")
        if data is not None and data.get_worker_info() is not None:
            self.close()
            return
        # Imported here: a process without a training loop must not pay for numpy.
        from eroica_otel import identity, worker

        self._show_log()
        self._say_problems(filter(None, [identity.problem(os.environ, sys.modules.get("torch.distributed"))]))
        self._worker = worker.start(
            self._recorder, self.config, self._guard, self._say, self.disable, self._start_again, self._metered()
        )
        self._end_with_child()

    def _metered(self) -> Metered | None:
        """Return the instruments on the training's meter provider; None without one, or where it makes none."""
        provider, made = self._provider, list["Metered"]()
        if provider is not None:
            self._guard("meter", lambda: made.append(_instruments_of(provider)))
        return made[0] if made else None

    def _start_again(self) -> None:
        """1 Hz thread: the folder is gone, or the process group came after the first input and tells another rank."""
        if self._worker is not None:
            self._at_exit(wait=True)
            if self._hooks is not None:  # else the training has closed it meanwhile
                self._start()

    def _end_with_child(self) -> None:
        """A child of multiprocessing that was forked ends without atexit, by its own list of what is to be done."""
        processes, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
        if self._finalizer is not None or processes is None or util is None:
            return
        if processes.parent_process() is not None:
            self._finalizer = util.Finalize(None, self._at_exit, exitpriority=100)

    def _say(self, text: str) -> None:
        LOGGER.info("eroica_otel: %s", text)

    def _show_log(self) -> None:
        """Let our few lines reach stderr where the training has configured no logging at all."""
        if LOGGER.level == logging.NOTSET and not LOGGER.hasHandlers():
            self._log_handler = logging.StreamHandler()
            LOGGER.addHandler(self._log_handler)
            LOGGER.setLevel(logging.INFO)

    def _at_exit(self, wait: bool = False) -> None:
        if os.getpid() != self._pid:
            return
        running, self._worker = self._worker, None
        if running is not None:
            self._guard("stop", lambda: running.stop(wait))
        elif not wait and not self._recorder.started:
            self._guard("stop", self._say_unseen)

    def _say_unseen(self) -> None:
        """At the end of a training of which nothing was seen: say so, because silence looks like health."""
        from eroica_otel.identity import is_launched_as_rank_zero

        processes = sys.modules.get("multiprocessing.process")
        child = processes is not None and processes.parent_process() is not None
        if "torch" in sys.modules and is_launched_as_rank_zero(os.environ, child):
            self._show_log()
            LOGGER.warning(
                "eroica_otel: no input and no update was seen in this process, so nothing was watched: it used neither "
                "a torch DataLoader nor a torch optimizer; put eroica_otel.watch() around the input and call "
                "eroica_otel.step() after each update (EROICA_DISABLED=1 where nothing trains)"
            )

    def close(self) -> None:
        """Undo every hook, end the threads and the helper."""
        if self._hooks is not None:
            self._guard("stop", self._hooks.close)
            self._hooks = None
        self._unhook_loaders()
        self._at_exit(wait=True)
        atexit.unregister(self._at_exit)
        if self._finalizer is not None:
            self._finalizer.cancel()
            self._finalizer = None
        if self._log_handler is not None:
            LOGGER.removeHandler(self._log_handler)
            LOGGER.setLevel(logging.NOTSET)
            self._log_handler = None
        if _ACTIVE and _ACTIVE[-1] is self:
            _ACTIVE.pop()
            _COUNTED[:] = [self._recorder.steps]

    def _unhook_loaders(self) -> None:
        if self._loader_hook is not None:
            self._guard("stop", self._loader_hook.close)
            self._loader_hook = None

    def disable(self) -> None:
        """Stop watching, from another thread than the one that trains, until ``instrument()`` is called again."""
        self.detached = True
        if self._hooks is not None:
            self._hooks.close(elsewhere=True)
        self._unhook_loaders()
        self._say("detached, as eroica-otel disable has asked; eroica_otel.instrument() or a restart attaches again")
        self._at_exit(wait=True)

    def forget(self) -> None:
        """In a forked child: touch nothing that the parent owns; the hooks wait for a training of the child's own."""
        self._pid = os.getpid()
        self._guard.counts.clear()
        self._recorder.forget()
        parents, self._worker = self._worker, None
        self._finalizer = None  # multiprocessing has dropped it in this process
        if parents is not None:
            self._guard("fork", parents.forget)
            # Kept: a store's client would be taken apart while its lock may be held by a thread that is not here.
            self._left.append(parents)


def _forget(handle: Handle | None) -> None:
    if handle is not None:
        handle._guard("fork", handle.forget)
        _COUNTED.clear()


_ACTIVE: list[Handle] = []
"""The handle of this process, at most one: ``import eroica_otel.auto``, ``instrument()``, ``watch()`` and ``step()``
have to meet, and a process has one training."""
_COUNTED: list[int] = []
"""Where the count of updates stood at the latest ``close()``: it goes on, because windows that were agreed on before
lie in the job's store under their numbers."""

_METERED: WeakKeyDictionary[Any, Metered] = WeakKeyDictionary()
"""The instruments on each meter provider, where they stay: OpenTelemetry makes none twice and takes none away."""


def _instruments_of(provider: MeterProvider) -> Metered:
    from eroica_otel.export.metered import Metered

    if provider not in _METERED:
        _METERED[provider] = Metered(provider)
    return _METERED[provider]


def instrument(meter_provider: MeterProvider | None = None, **options: Any) -> Handle:
    """Watch the training of this process; options are fields of WorkerConfig (window_seconds=5, role="encoder").

    Safe to call before or after torch is imported and more than once: a second call returns the first one's handle.
    A wrong option is logged and ignored, the others hold, training goes on.

    Args:
        meter_provider: The series go to this one, in this process, instead of being delivered by the helper.
    """
    if meter_provider is not None:
        options["meter_provider"] = meter_provider
    if _ACTIVE and _ACTIVE[-1].detached:
        _ACTIVE[-1].close()
    if _ACTIVE:
        if options:
            LOGGER.warning("eroica_otel: config: attached already: %s not changed", ", ".join(sorted(options)))
        return _ACTIVE[-1]
    provider = _usable(options.pop("meter_provider", None))
    try:
        config = WorkerConfig.from_env(os.environ, **options)
    except ConfigError as error:
        known = {name: value for name, value in options.items() if name in OPTIONS}
        config = WorkerConfig.from_env(os.environ, **known)
        LOGGER.warning("eroica_otel: config: %s", error)
    if provider is not None:
        config = config.with_own_provider()
    handle = Handle(config, _COUNTED[0] if _COUNTED else 0, provider)
    _ACTIVE.append(handle)
    handle.attach()
    return handle


def _usable(provider: Any) -> MeterProvider | None:
    if provider is None or hasattr(provider, "get_meter"):
        return cast("MeterProvider | None", provider)
    LOGGER.warning("eroica_otel: config: meter_provider is no MeterProvider; it is ignored")
    return None


def watch_input(iterable: Iterable[T]) -> Watched[T]:
    """Time an input that is not a DataLoader: ``for batch in eroica_otel.watch(batches)``."""
    return _handle().watch(iterable)


def step() -> None:
    """Mark one update of a loop whose optimizer is no torch Optimizer; call it after each update."""
    _handle().step()


def _handle() -> Handle:
    """Return the handle of this process; one that was detached from outside stays so."""
    return _ACTIVE[-1] if _ACTIVE else instrument()
