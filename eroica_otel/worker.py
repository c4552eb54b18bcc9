"""Puts the parts of one worker together at its first event, and takes them apart at its end."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from eroica_otel import __version__
from eroica_otel.agree.poller import Poller
from eroica_otel.agree.store import Store, connect
from eroica_otel.config import WorkerConfig
from eroica_otel.identity import resolve
from eroica_otel.model import Identity
from eroica_otel.monitor import Monitor, MonitorThread
from eroica_otel.signals.hooks import Recorder
from eroica_otel.spawn import HelperProcess
from eroica_otel.trainer import Windows


class Guard(Protocol):
    """Where failures of the trainer's side are swallowed and counted (plugin.py)."""

    counts: Counter[str]

    def __call__(self, stage: str, call: Callable[[], None]) -> None: ...

    def failed(self, stage: str, text: str) -> None: ...


def private_folder(directory: str, pid: int) -> Path:
    """Make and return this process' folder, 0700 and empty; raises OSError where somebody else owns the parent."""
    parent = Path(directory)
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if parent.stat().st_uid != os.getuid():
        raise PermissionError(f"{parent} belongs to another user: set EROICA_DIR to a folder of your own")
    folder = parent / str(pid)
    # Left by a process that had this number before and was killed: its captures and requests are not ours.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def start(
    recorder: Recorder,
    config: WorkerConfig,
    guard: Guard,
    say: Callable[[str], None],
) -> Callable[[bool], None]:
    """Start monitor, poller and helper for this process; return what ends them.

    That takes one argument: False at the end of training, when the helper ends by itself after a last delivery, True
    when the process goes on and nothing may stay behind.
    """
    environment = os.environ
    identity = resolve(config, environment, sys.argv, sys.modules.get("torch.distributed"))
    folder = private_folder(config.directory, os.getpid())
    windows = Windows(recorder, config, folder, environment, say, guard.failed)
    edge = windows.on_edge
    recorder.on_edge = lambda: guard("capture", edge)
    poller = Poller(lambda: _store(identity), identity.world_size, config.window_seconds)
    monitor = Monitor(recorder, config, identity, folder, windows, poller, guard.counts, say)
    helper = HelperProcess(folder, config, environment, guard.failed)
    _greet(identity, say)

    def tick() -> None:
        monitor.tick()
        helper.keep_running()

    thread = MonitorThread(tick, guard)
    poller.start()
    thread.start()
    return functools.partial(_stop, windows, thread, poller, monitor, helper, folder)


def _stop(
    windows: Windows,
    thread: MonitorThread,
    poller: Poller,
    monitor: Monitor,
    helper: HelperProcess,
    folder: Path,
    wait: bool,
) -> None:
    try:
        windows.close()
        ended = thread.stop()
        poller.stop()
        monitor.finished = True
        if ended:  # else it is in the middle of a round, and a second one beside it would tear its state
            monitor.tick()
    finally:
        if wait:
            helper.stop()
        if helper.pid is None:  # else the helper removes it after the last delivery
            shutil.rmtree(folder, ignore_errors=True)


def _store(identity: Identity) -> Store:
    prefix = f"eroica/{identity.run_id}/{identity.restart}/"
    return connect(sys.modules.get("torch.distributed"), os.environ, prefix, identity.world_size)


def _greet(identity: Identity, say: Callable[[str], None]) -> None:
    if identity.rank == 0:
        endpoint = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
        say(
            f"{__version__}: watching job {identity.training_job}, {identity.world_size} ranks; "
            f"series to {endpoint}; EROICA_DISABLED=1 turns it off"
        )
