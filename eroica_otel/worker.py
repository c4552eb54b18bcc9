"""Puts the parts of one worker together at its first event, and takes them apart at its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eroica_otel import __version__
from eroica_otel.agree.poller import Poller
from eroica_otel.agree.store import Store, connect, new_attempt
from eroica_otel.config import WorkerConfig
from eroica_otel.folder import private_folder, remove
from eroica_otel.identity import is_another, resolve
from eroica_otel.model import Identity
from eroica_otel.monitor import Guard, Monitor
from eroica_otel.orders import Orders
from eroica_otel.profile.watchdog import Watchdog
from eroica_otel.rounds import Rounds
from eroica_otel.signals.hooks import Recorder
from eroica_otel.spawn import HelperProcess
from eroica_otel.status import STATUS_FILE, WATCHDOG_FILE
from eroica_otel.trainer import Windows
from eroica_otel.wanted import described

if TYPE_CHECKING:
    from eroica_otel.export.metered import Metered


@dataclass(slots=True)
class Worker:
    """The parts of one worker that run."""

    windows: Windows
    thread: Rounds
    poller: Poller
    monitor: Monitor
    helper: HelperProcess
    folder: Path
    watchdog: Watchdog | None = None
    metered: Metered | None = None

    def stop(self, wait: bool) -> None:
        """End all parts.

        Args:
            wait: False at the end of training, when the helper ends by itself after a last delivery; True when the
                process goes on and nothing may stay behind.
        """
        try:
            if self.metered is not None:  # before the helper hears of the end and takes its file away
                (self.metered.release if wait else self.metered.finish)()
            self.windows.close()
            ended = self.thread.stop()
            self.monitor.standstill.close()
            if self.watchdog is not None:
                self.watchdog.close()
            self.poller.stop()
            self.monitor.finished = True
            if ended:  # else it is in the middle of a round, and a second one beside it would tear its state
                self.monitor.tick()
        finally:
            if wait:
                self.helper.stop()
            if self.helper.pid is None:  # else the helper removes it after the last delivery
                remove(self.folder)

    def forget(self) -> None:
        """In a forked child, which has none of the threads: touch nothing that is the parent's."""
        self.windows.forget()
        self.helper.forget()
        if self.watchdog is not None:
            self.watchdog.forget()
        if self.metered is not None:
            self.metered.release()


def start(
    recorder: Recorder,
    config: WorkerConfig,
    guard: Guard,
    say: Callable[[str], None],
    disable: Callable[[], None],
    again: Callable[[], None],
    metered: Metered | None = None,
) -> Worker:
    """Start monitor, poller and helper for this process; return what ends them.

    Args:
        disable: Called on the 1 Hz thread when ``eroica-otel disable`` asks for it.
        again: Called there when the process group tells of another rank or size, or the folder has been removed.
        metered: The instruments on a meter provider of the training's, where it has given one.
    """
    identity = resolve(config, os.environ, sys.argv, sys.modules.get("torch.distributed"))
    folder = private_folder(config.directory, os.getpid())
    windows = Windows(recorder, config, folder, os.environ, say, guard.failed, guard)
    recorder.on_edge = lambda: guard("capture", windows.on_edge)
    poller = _poller(recorder, config, identity, guard)
    monitor = Monitor(recorder, config, identity, folder, windows, poller, guard, say)
    _show_by(metered, monitor, folder, guard)
    helper = HelperProcess(folder, config, os.environ, guard.failed)
    _greet(identity, config, say)
    orders = Orders(folder, monitor.change, disable, busy=lambda: windows.busy)
    watchdog = _watchdog(folder, guard) if config.watchdog else None

    def tick() -> None:
        monitor.tick()
        whole = _renew(folder, helper)
        guard("orders", orders.look)
        if not windows.busy and _is_over(folder, whole, identity, guard):
            guard("start", again)

    thread = _every_second(tick, guard)
    poller.on_agreed = thread.wake
    poller.start()
    thread.start()
    return Worker(windows, thread, poller, monitor, helper, folder, watchdog, metered)


def _every_second(tick: Callable[[], None], guard: Callable[[str, Callable[[], None]], None]) -> Rounds:
    def once() -> float:
        guard("monitor", tick)
        return 1.0

    return Rounds("eroica-monitor", once, first=1.0)


def _show_by(metered: Metered | None, monitor: Monitor, folder: Path, guard: Guard) -> None:
    if metered is not None:
        monitor.measured = metered.record
        metered.follow(folder, guard)


def _renew(folder: Path, helper: HelperProcess) -> bool:
    """Keep the helper running; return whether the folder is whole, without which it would find nothing."""
    whole = (folder / STATUS_FILE).exists()
    if whole:
        helper.keep_running()
    return whole


def _is_over(folder: Path, whole: bool, identity: Identity, guard: Guard) -> bool:
    """Return whether all is to be started anew; say so where the folder is gone."""
    if not whole:
        moves = "all is started anew in another, which EROICA_DIR can move"
        guard.failed("folder", f"{folder} was removed; {moves}; training is not affected")
    return not whole or is_another(identity, sys.modules.get("torch.distributed"))


def _poller(recorder: Recorder, config: WorkerConfig, identity: Identity, guard: Guard) -> Poller:
    attempt = new_attempt() if identity.rank == 0 else ""
    return Poller(
        lambda: _store(identity, attempt),
        identity.world_size,
        config.window_seconds,
        iteration=lambda: recorder.steps,
        guard=guard,
    )


def _watchdog(folder: Path, guard: Guard) -> Watchdog | None:
    """Return the handler for a training that hangs in C; None where it cannot be set."""
    made: list[Watchdog] = []
    guard("watchdog", lambda: made.append(Watchdog(folder / WATCHDOG_FILE)))
    return made[0] if made else None


def _store(identity: Identity, attempt: str) -> Store:
    prefix = f"eroica/{identity.run_id}/"
    return connect(sys.modules.get("torch.distributed"), os.environ, prefix, identity.world_size, attempt)


def _greet(identity: Identity, config: WorkerConfig, say: Callable[[str], None]) -> None:
    if identity.rank == 0:
        say(
            f"{__version__}: watching job {identity.training_job}, {identity.world_size} ranks; "
            f"{described(os.environ, config, identity.local_rank)}; EROICA_DISABLED=1 turns it off"
        )
