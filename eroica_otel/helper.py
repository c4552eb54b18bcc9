"""The helper process of one worker: reads status and captures, summarises, exports. Composition only; no torch.

``python -m eroica_otel.helper FOLDER PARENT_PID`` is started by spawn.py and ends when the worker does, after a last
delivery.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from opentelemetry.metrics import Histogram

from eroica_otel.config import WorkerConfig
from eroica_otel.errors import EroicaError
from eroica_otel.export.board import Board
from eroica_otel.export.budget import fit
from eroica_otel.export.handed import HandBack
from eroica_otel.export.instruments import create, record
from eroica_otel.export.outlet import Outlet
from eroica_otel.export.points import window_points
from eroica_otel.export.redact import Redactor
from eroica_otel.export.secret import NamesFile, redactor
from eroica_otel.export.standing import standing_points
from eroica_otel.folder import RENEW_SECONDS, remove, renew, turn
from eroica_otel.fromagent import Sampled, with_agent
from eroica_otel.hardware import host
from eroica_otel.hardware.hostuse import HostUse
from eroica_otel.identity import pod_of
from eroica_otel.kinds import Frame
from eroica_otel.late import Late
from eroica_otel.model import GPU_RESOURCES, Capture, WorkerWindow
from eroica_otel.outside import HEARTBEAT_SECONDS, Frozen, Heartbeat, Stops
from eroica_otel.profile import loaderfiles, samples
from eroica_otel.spawn import CONFIG_FILE
from eroica_otel.status import STATUS_FILE, Status, StatusReader, hold
from eroica_otel.summarize.loaders import unseen
from eroica_otel.summarize.pattern import summarize
from eroica_otel.summarize.resources import HOLD

LOGGER = logging.getLogger("eroica_otel.helper")
TICK_SECONDS = 0.1
REFRESH_SECONDS = 1.0
SUMMARIES_AT_A_TIME = 2
"""Of the helpers of one node, so that summaries do not take all of the trainers' cores."""
LAST_DELIVERY_SECONDS = 5.0
LAST_WINDOW_SECONDS = 20.0
"""For a last delivery with a window in it that has not arrived yet."""


class Helper:
    """Everything the helper knows; ``tick`` is one round of 0.1 s."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        config = json.loads((folder / CONFIG_FILE).read_text())
        self._config = WorkerConfig(**config | {"problems": tuple(config["problems"])})
        self._folder = folder
        self._environment = environment
        self._reader: StatusReader | None = None
        self._status: Status | None = None
        self._board = Board()
        self._outlet: Outlet | HandBack | None = None
        self._histograms: Mapping[str, Histogram] = {}
        self._redaction: tuple[Redactor, NamesFile] | None = None
        self._stops = Stops()
        self._host: HostUse | None = None
        self._heartbeat = Heartbeat()
        self._frozen = Frozen(folder, self._config.cooldown_seconds)
        self._failures: Counter[str] = Counter()
        self._windows: Counter[str] = Counter()
        self._missing: dict[str, str] = {}
        self._said_missing = False
        self._late = Late(self._config.hardware_dir, self._config.hardware_wait_seconds)
        self._dropped = 0
        self._shown_at = 0.0
        self._shown_ns = 0
        self._refreshed = 0.0
        self._renewed = time.monotonic()

    def tick(self, last: bool = False) -> None:
        """Read the status, take a finished capture if there is one, renew the board once a second.

        Args:
            last: No further round will come, so a capture is taken as it is.
        """
        if self._reader is None:
            if not (self._folder / STATUS_FILE).exists():
                return
            self._reader = StatusReader(self._folder / STATUS_FILE)
            self._held = (self._folder / STATUS_FILE).open("rb")
            hold(self._held)
        seen = self._reader.read()
        if seen is not None:
            self._status = seen[0]
            self._heartbeat.see(seen[1])
            if self._outlet is None:
                self._open()
            if self._histograms:  # else there is no way out yet, or the trainer records them itself
                record(self._histograms, self._status.identity.labels(), seen[2])
        if self._status is not None:
            self._watch(self._status)
        for path in sorted(self._folder.glob("window-*/" + samples.META)):
            if last or (loaderfiles.settled(path.parent, path) and self._late.settled(path)):
                self._take(path.parent)
                _give_back()
        if time.monotonic() - self._refreshed >= REFRESH_SECONDS:
            self._refresh()

    def _watch(self, status: Status) -> None:
        """See from outside what the trainer cannot say itself: that it is stopped, or that its 1 Hz thread is."""
        if self._host is None:
            self._host = HostUse(status.pid)
        self._host.watch(status.link)
        self._host.sample(fast=bool(status.activity))
        now, state = time.perf_counter_ns(), host.process_state(status.pid)
        self._stops.see(state, now)
        if self._heartbeat.stopped(now) and state not in (None, "Z") and status.state != "finished":
            self._failed(
                "monitor",
                f"nothing heard from the training process for {HEARTBEAT_SECONDS:.0f} s (process state {state}): "
                "stopped, or frozen in a call that holds the interpreter? its state is what this process sees of it",
            )
        heard = self._heartbeat.latest_ns
        if heard is not None and state not in (None, "Z"):
            window = self._frozen.see(status, heard, now, self._stops, time.time())
            if window is not None:
                self._show(fit(window), self._frozen.stack)

    def _open(self) -> None:
        assert self._status is not None
        who, pid = self._status.identity, self._status.pid
        self._redaction = redactor(self._config, who, self._environment, lambda why: self._failed("redact", why))
        if self._config.own_provider:
            self._outlet = HandBack(self._folder, self._board, self._failed)
        else:
            self._outlet = Outlet(self._environment, who, pid, self._failed, self._config, self._folder)
            self._histograms = create(self._outlet.meter(), self._board)
        self._refresh()
        self._outlet.start()

    def _failed(self, stage: str, text: str) -> None:
        self._failures[stage] += 1
        if self._failures[stage] == 1 or stage == "delivery":
            rank = self._status.identity.rank if self._status is not None else "?"
            LOGGER.warning("eroica_otel: rank %s: %s; training is not affected", rank, text)

    def _take(self, folder: Path) -> None:
        """Summarise the capture in ``folder``, show it, push it, delete it."""
        reason = "unknown"
        try:
            capture = samples.read(folder)
            reason = capture.window.reason
            sampled = self._sampled(capture)  # before others have their turn: the agent keeps a minute
            capture = sampled.capture
            with turn(self._folder, SUMMARIES_AT_A_TIME, TICK_SECONDS):
                hold = {**HOLD, **self._config.held_shares()}
                window = summarize(
                    capture,
                    self._config.top_functions,
                    hold,
                    order=self._config.charge_order(),
                    failed=self._failed,
                    device=sampled.shares,
                )
            self._missing = {**sampled.missing, **unseen(capture)}
            self._say_missing(capture)
            self._show(
                self._complete(window, capture.start_ns, capture.end_ns, sampled.states),
                (Frame(*frame) for frame in capture.all_frames),
            )
        except (EroicaError, OSError, ValueError, ArithmeticError, LookupError, MemoryError) as error:
            self._failed("summarize", f"{folder.name} could not be summarised: {error}")
            self._windows[f"{reason} failed"] += 1
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _sampled(self, capture: Capture) -> Sampled:
        """Return the capture with what the node agent has sampled of the window.

        A blocked window has stacks alone: what is missing of a GPU stays as it was.
        """
        if self._status is None or not capture.window.stop:
            before = {name: why for name, why in self._missing.items() if name in GPU_RESOURCES}
            return Sampled(capture, {}, {**before, **capture.missing})
        return with_agent(capture, self._status, self._config.hardware_dir)

    def _say_missing(self, capture: Capture) -> None:
        """On a GPU, where most of it is the agent's to sample: say once on a node what is missing, and why."""
        status, told = self._status, {name: why for name, why in self._missing.items() if name in GPU_RESOURCES}
        if not told or self._said_missing or status is None or status.identity.local_rank or not capture.gpu:
            return
        self._said_missing = True
        names, reasons = ", ".join(told), "; ".join(dict.fromkeys(told.values()))
        LOGGER.warning("eroica_otel: rank %s: not sampled: %s: %s", status.identity.rank, names, reasons)

    def _complete(self, window: WorkerWindow, start_ns: int, end_ns: int, states: Mapping[str, float]) -> WorkerWindow:
        """Add what only the helper saw, and cut what the budget does not allow."""
        used = {**states, **({} if self._host is None else self._host.during(start_ns, end_ns))}
        fitted = fit(replace(window, stopped_seconds=self._stops.seconds(start_ns, end_ns), host_use=used))
        self._dropped += fitted.dropped
        return fitted

    def _show(self, window: WorkerWindow, frames: Iterable[Frame]) -> None:
        """Let a window leave; nothing of the training's code does but through here. ``frames`` are its stacks'."""
        if self._redaction is None:
            return  # the worker has not said who it is, so nothing is open
        points = window_points(self._redaction[0].window(window, frames))
        self._windows[f"{window.reason} sent"] += 1
        self._refresh()
        self._board.show(points)
        self._shown_at, self._shown_ns = time.monotonic(), time.perf_counter_ns()
        if self._outlet is not None:
            self._outlet.push_now()

    def _refresh(self) -> None:
        self._refreshed = time.monotonic()
        if self._refreshed - self._renewed >= RENEW_SECONDS:
            self._renewed = self._refreshed
            renew(self._folder)
        if self._status is None or self._redaction is None:
            return
        self._keep_names(self._redaction[1])
        windows = Counter(self._status.windows) + self._windows
        unheard = self._heartbeat.silent and self._status.state != "finished"
        self._board.stand(
            standing_points(
                self._redaction[0].status(replace(self._status, state=self._frozen.state) if unheard else self._status),
                deliveries=self._outlet.counts() if self._outlet is not None else {},
                failures=Counter(self._status.failures) + self._failures,
                windows=windows,
                dropped=self._dropped,
                missing=self._missing,
                helper_cpu_seconds=time.process_time(),
                device={
                    "gpu_uuid": self._status.gpu_uuid,
                    "pci_bus_id": self._status.pci_bus_id,
                    "k8s_pod": pod_of(self._environment),
                },
            )
        )
        held = time.monotonic() - self._shown_at > self._config.hold_seconds
        if self._shown_at and held and self._outlet is not None and self._outlet.delivered_since(self._shown_ns):
            self._board.show(())
            self._shown_at = 0.0
        if self._outlet is not None:
            self._outlet.renewed()

    def _keep_names(self, names: NamesFile) -> None:
        try:
            names.write()
        except OSError as error:
            self._failed("redact", f"the names behind the tokens cannot be kept: {error}")

    def close(self, at_once: bool = False) -> None:
        """Deliver once more and remove the folder; bounded, whatever the endpoint does; tighter when ``at_once``."""
        self.tick(last=True)
        self._refresh()
        if self._outlet is not None:
            if at_once or not self._shown_at or self._outlet.delivered_since(self._shown_ns):
                self._outlet.stop(LAST_DELIVERY_SECONDS)
            else:
                self._outlet.stop(LAST_WINDOW_SECONDS, self._shown_ns)
        remove(self._folder)

    @property
    def over(self) -> bool:
        """Whether the trainer said that it has ended."""
        return self._status is not None and self._status.state == "finished"


def _give_back() -> None:
    """Give the memory of a summary back to the system, of which glibc keeps what lies below something still in use."""
    with suppress(OSError, AttributeError):  # other C libraries have no such call
        ctypes.CDLL(None).malloc_trim(0)


def main(argv: list[str]) -> int:
    """Run until the worker ends; return the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    folder, parent = Path(argv[0]), int(argv[1])
    stopping: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.append(number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        helper = Helper(folder, os.environ)
    except FileNotFoundError:
        return 1  # the folder was removed just now; the worker says so
    while not stopping and os.getppid() == parent and not helper.over:
        helper.tick()
        time.sleep(TICK_SECONDS)
    helper.close(at_once=bool(stopping))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
