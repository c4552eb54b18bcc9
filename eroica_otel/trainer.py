"""The training process' side of windows: probe, agreed window, capture, hand-over to the helper.

``Windows`` is told of agreed windows by the 1 Hz thread and is called at the borders of iterations by the training
thread; both reach it through ``Recorder``. Composition only: what is done is in profile/, agree/ and signals/.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from eroica_otel.agree.window import FEWEST_ITERATIONS, nearer_stop
from eroica_otel.config import WorkerConfig
from eroica_otel.equipment import Equipment, readings
from eroica_otel.errors import CaptureError, Guard, unguarded
from eroica_otel.hardware import host
from eroica_otel.model import Identity, Window
from eroica_otel.profile.bell import LOADERS_FILE, Bell
from eroica_otel.profile.capture import BYTES_PER_EVENT_FILE, WindowCapture, affordable_iterations
from eroica_otel.profile.kineto import TorchProfiler, UserProfiler
from eroica_otel.signals.backward import inside_backward
from eroica_otel.signals.hooks import NEVER, Recorder

PROBE_ITERATIONS = 2
PROBE_PAUSE = 100
"""Updates after a probe that failed until the next one."""
MINIMUM_DISK_BYTES = 1 << 20
MOST_EXCLUDED = 8
"""Ranges kept: far more than windows that end between two rounds of the 1 Hz thread."""


class Windows:
    """Everything between "a window was agreed" and "its files lie there".

    Attributes:
        counts: Windows by "reason outcome".
        excluded: Latest ranges of update numbers whose iterations are counted, not timed.
        events_per_iteration: From the probe; None before.
        last: Latest window that was captured.
        late: Windows that were over when this rank heard of them ...
        missed: ... and the reason of the latest of these, "" when one was captured since.
        bell: Wakes the processes of the training's DataLoader; None where they are not to be sampled.
        equipment: The worker's GPUs, link and node agent.
    """

    def __init__(
        self,
        recorder: Recorder,
        config: WorkerConfig,
        folder: Path,
        environment: Mapping[str, str],
        say: Callable[[str], None],
        failed: Callable[[str, str], None],
        guard: Guard = unguarded,
    ) -> None:
        """Args: failed: Counts a failure of a stage. guard: Runs what is ours inside the training's own calls."""
        self._failed, self._guard = failed, guard
        self._recorder = recorder
        self.config = config
        self._folder = folder
        self._say = say
        self._identity: Identity | None = None
        self._pending: Window | None = None
        self._probing = False
        self._capture: WindowCapture | None = None
        self._lock = threading.Lock()
        self._next_probe = 0
        self._user: UserProfiler | None = None
        self.signature = ""
        self.equipment = Equipment(environment, config, failed)
        self.counts: Counter[str] = Counter()
        self.excluded: deque[range] = deque(maxlen=MOST_EXCLUDED)
        self.events_per_iteration: float | None = None
        self.measure_again()
        self.last: Window | None = None
        self.late, self.missed = 0, ""
        self.bell: Bell | None = None
        if config.loaders:
            guard("loaders", self._hang_bell)
        recorder.on_edge = self.on_edge

    def _hang_bell(self) -> None:
        self.bell = Bell(self._folder / LOADERS_FILE, create=True)

    def measure_again(self) -> None:
        """Have the rate of events found out by the next probe; stacks alone need none."""
        self.events_per_iteration = None if self.config.capture != "stacks" else 0.0

    @property
    def busy(self) -> bool:
        """Whether a window is agreed or running."""
        return self._pending is not None

    @property
    def probing(self) -> bool:
        return self._probing

    def activity(self) -> str:
        """Say what goes on, in a few words; "" outside windows."""
        pending = self._pending
        if pending is None:
            return ""
        if self._probing:
            return "trying the profiler out"
        doing = "profiling" if self._capture is not None else "will profile"
        return f"{doing} iterations {pending.start} to {pending.stop} ({pending.reason})"

    def most_iterations(self) -> int:
        """Return the longest window that budget, memory and disk allow now; 0 = none."""
        try:
            disk = shutil.disk_usage(self._folder).free
        except OSError:
            disk = 0
        if disk < MINIMUM_DISK_BYTES:
            return 0
        memory = host.free_memory_bytes(os.getpid())
        return affordable_iterations(self.events_per_iteration or 0.0, self.config.event_budget, memory, disk)

    def probe(self, identity: Identity) -> None:
        """Arrange that the next two iterations are captured, to learn the event rate and to warm the profiler up.

        Without a rate there is no event budget, so there is no window either; a probe that failed is made again later.
        """
        if self._recorder.steps < self._next_probe:
            return
        start = self._recorder.steps + 2
        self._probing = True
        self.take(Window(0, "probe", start, start + PROBE_ITERATIONS), identity)

    def take(self, window: Window, identity: Identity, seconds: float = 0.0) -> None:
        """Arrange that ``window`` is captured; one that is over, or that nothing is left for, is counted as skipped.

        Args:
            seconds: Until when it should be over; the node agent is told where that is known.
        """
        steps, self._identity = self._recorder.steps, identity
        if steps >= window.stop:
            self._finish_late(window, f"it ended at iteration {window.stop}, this rank learned of it at {steps}")
            return
        if not self._probing and self.most_iterations() < FEWEST_ITERATIONS:
            need = f"no room for {FEWEST_ITERATIONS} iterations"
            self._finish(window, f"{need}: free memory, or space in {self._folder} (EROICA_DIR moves it)")
            return
        self._guard("devices", lambda: self.equipment.prepare(identity.local_rank))
        self._pending = window
        self.excluded.append(range(window.start, window.stop + 3))
        self._recorder.edge = window.start
        if seconds > 0:
            self._guard("agent", lambda: self.equipment.announce(identity.rank, window.id, seconds))

    @property
    def agreed(self) -> Window | None:
        """The window that is agreed or running; None for a probe."""
        window = self._pending
        return window if window is not None and window.id else None

    def nearer_stop(self, window_seconds: float) -> int:
        """Return the update at which the running window had better end, 0 where there is none or it is in time."""
        capture, window = self._capture, self.agreed
        if capture is None or window is None:
            return 0
        return nearer_stop(window, self._recorder.steps, capture.age_seconds(), window_seconds)

    def shorten(self, window_id: int, stop: int) -> Window | None:
        """1 Hz thread: have that window end at an earlier update; return what it is now, None where nothing changed."""
        if not self._lock.acquire(blocking=False):  # it is being started or stopped
            return None
        try:
            window = self._pending
            if window is None or window.id != window_id or stop >= window.stop:
                return None
            self._pending = window = replace(window, stop=stop)
            self.excluded[-1] = range(window.start, stop + 3)
            return window
        finally:
            self._lock.release()

    def limit(self, expected_seconds: float) -> None:
        """1 Hz thread: have a window given up that lasts three times as long as expected, before it fills the memory.

        Validation or a checkpoint inside is the usual reason; it goes on without updates, but seldom without inputs.
        """
        capture = self._capture
        if capture is not None and capture.age_seconds() > 3 * expected_seconds + 5:
            self._recorder.overdue = True

    def on_edge(self) -> None:
        """Training thread, after an update inside or at the start of a window, or after any event when overdue."""
        with self._lock:
            if inside_backward():
                self._postpone()
                return
            if self._recorder.postponed:
                self._recorder.postponed = False
            in_order = False
            try:
                self._at_edge()
                in_order = True
            finally:
                if not in_order:
                    self._abandon()

    def _postpone(self) -> None:
        """Have the next input begin or end the window: an optimizer that runs in the backward pass cannot."""
        window = self._pending
        if self._capture is None and window is not None and self._recorder.steps >= window.stop:
            self._recorder.postponed = False
            why = "the optimizer runs inside the backward pass and no input is seen: put eroica_otel.watch() around it"
            self._finish(window, why)
        elif window is not None:
            self._recorder.postponed = True

    def _at_edge(self) -> None:
        steps, window, capture = self._recorder.steps, self._pending, self._capture
        if window is None:
            self._clear()
        elif capture is None:
            self._start(window, steps)
        elif self._recorder.overdue:
            capture.abort(f"it lasted {capture.age_seconds():.0f} s: validation or a checkpoint inside?")
            self._finish(window, capture.failure)
        elif capture.failure:
            self._finish(window, capture.failure)
        elif capture.here:
            capture.border()
            if steps >= window.stop:
                self._stop(window, capture)

    def _abandon(self) -> None:
        """After an error that nobody foresaw: nothing keeps running, nothing is tried again at the next update."""
        window, capture = self._pending, self._capture
        self._capture = None
        try:
            if capture is not None:
                capture.abort("it failed")
        finally:
            if window is not None:
                self._finish(window, "it failed")

    def _start(self, window: Window, steps: int) -> None:
        if steps >= window.stop:
            self._finish_late(window, f"this rank was at iteration {steps} when it heard of it")
            return
        assert self._identity is not None
        try:
            link = self.equipment.open()
            capture = WindowCapture(
                window,
                self._identity,
                self._place(window),
                self._profiler(),
                self.config.sampler_hertz,
                link,
                readings,
                self.bell if window.id else None,
            )
            capture.start(steps)
        except (CaptureError, OSError, RuntimeError) as error:
            self._finish(window, str(error))
            return
        self._capture = capture
        self._recorder.edge = steps + 1

    def _place(self, window: Window) -> Path:
        """Return the window's folder; the helper does not look at a probe's."""
        return self._folder / (f"window-{window.id}" if window.id else "probe")

    def _profiler(self) -> TorchProfiler | None:
        torch = sys.modules.get("torch")
        if torch is None or self.config.capture == "stacks":
            return None
        if self._user is None:
            self._user = UserProfiler(torch, self._on_conflict, self._guard)
        return TorchProfiler(torch, self.config.capture, self._user)

    def _on_conflict(self) -> None:
        if self._capture is not None:
            self._capture.abort("the training's own profiler started; it goes first")

    def _stop(self, window: Window, capture: WindowCapture) -> None:
        try:
            told = {"nic_peak_bytes": self.equipment.peak_bytes, "missing": dict(self.equipment.missing)}
            done = capture.stop({**told, "signature": self.signature})
        except (CaptureError, OSError, RuntimeError) as error:
            self._finish(window, str(error))
            return
        if self._probing:
            size = Path(done.trace).stat().st_size if done.trace else 0
            self.events_per_iteration = size / BYTES_PER_EVENT_FILE / PROBE_ITERATIONS
            self._finish(window, "")
            return
        self.last, self.missed = window, ""
        self._clear()
        self._say(
            f"window {window.id} ({window.reason}): {window.stop - window.start} iterations profiled; "
            f"training was paused {done.blocked_seconds:.1f} s"
        )

    def _finish(self, window: Window, why: str) -> None:
        """End without a result: the probe, or a window that failed."""
        shutil.rmtree(self._place(window), ignore_errors=True)
        if why and self._probing:
            self._next_probe = self._recorder.steps + PROBE_PAUSE
            self._failed("profiler", f"{why}; no window until it can be tried out; training is not affected")
        elif why:
            self._skip(window, why)
        self._clear()

    def _finish_late(self, window: Window, why: str) -> None:
        if not self._probing:
            self.late, self.missed = self.late + 1, window.reason
        self._finish(window, why)

    def _skip(self, window: Window, why: str) -> None:
        rank = self._identity.rank if self._identity is not None else "?"
        self.counts[f"{window.reason} skipped"] += 1
        self._say(f"window {window.id} ({window.reason}) skipped on rank {rank}: {why}")

    def _clear(self) -> None:
        self._recorder.edge = NEVER
        self._recorder.overdue = False
        self._capture = None
        self.equipment.close()
        self._probing = False
        self._pending = None  # last: from here on the 1 Hz thread may take the next window

    def forget(self) -> None:
        """In a forked child: leave the parent's window alone, and take the look at the training's profiler away."""
        self._capture = self.bell = None
        if self._user is not None:
            self._user.close()
            self._user = None

    def close(self) -> None:
        """Give up whatever runs; called when training ends."""
        with self._lock:
            capture, window = self._capture, self._pending
            if capture is not None and window is not None:
                capture.abort("training ended inside the window")
                self._finish(window, capture.failure)
            self._clear()
        if self._user is not None:
            self._user.close()
            self._user = None
