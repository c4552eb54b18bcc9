"""A blocked window inside the training process: stacks alone, by wall clock, nothing on the training thread."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from eroica_otel.errors import CaptureError
from eroica_otel.model import Capture, Identity, Window
from eroica_otel.profile import samples
from eroica_otel.profile.bell import Bell
from eroica_otel.profile.capture import realtime_offset_ns
from eroica_otel.profile.stacks import StackSampler

MOST_SECONDS = 5.0
"""A standing job's stacks do not change, and the verdict waits for them."""
MOST_HERTZ = 100.0


class StackLook:
    """Samples the thread that trains between ``start`` and ``stop``; both are the 1 Hz thread's to call."""

    def __init__(
        self, window: Window, identity: Identity, folder: Path, thread: int, hertz: float, bell: Bell | None = None
    ) -> None:
        """Args: thread: threading.get_ident() of the thread that trains. bell: As WindowCapture."""
        self.window = window
        self.identity = identity
        self._folder = folder
        self._thread = thread
        self._hertz, self._bell = min(hertz, MOST_HERTZ), bell
        self._start_ns = 0

    def start(self) -> None:
        """Begin to sample.

        Raises:
            CaptureError: the thread that trains has ended, or no further thread can start.
            OSError: the folder cannot be made.
        """
        alive = {thread.ident: thread.native_id or 0 for thread in threading.enumerate()}
        if self._thread not in alive:
            raise CaptureError("the thread that trained has ended")
        self._native = alive[self._thread]
        self._sampler = StackSampler(self._thread, self._hertz)
        self._folder.mkdir(mode=0o700)
        self._offset = realtime_offset_ns()
        try:
            self._sampler.start()
        except RuntimeError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise CaptureError(f"the stack sampler cannot start: {error}") from error
        if self._bell is not None:
            self._bell.ring(self.window.id, self._hertz)
        self._start_ns = time.perf_counter_ns()

    def abort(self) -> None:
        """Stop without a result, and leave no file."""
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def stop(self, facts: Mapping[str, Any]) -> Capture:
        """End, save, and return what was seen; ``facts`` are further fields of model.Capture. Raises OSError."""
        self._stop()
        capture = self._capture(time.perf_counter_ns(), facts)
        samples.write(self._folder, capture)
        return capture

    def _stop(self) -> None:
        if self._bell is not None:
            self._bell.silence(self.window.id)
        self._sampler.stop()

    def _capture(self, end_ns: int, facts: Mapping[str, Any]) -> Capture:
        sampler, count = self._sampler, len(self._sampler.stack_ns)
        nothing = np.zeros(0, np.int64)
        return Capture(
            window=self.window,
            identity=self.identity,
            start_ns=self._start_ns,
            end_ns=end_ns,
            iteration_ns=np.array([self._start_ns], np.int64),
            realtime_offset_ns=(self._offset, realtime_offset_ns()),
            training_thread=self._native,
            trace="",
            frames=tuple(sampler.frames),
            stacks=tuple(sampler.stacks),
            stack_ns=np.array(sampler.stack_ns, np.int64)[:count],
            stack_ids=np.array(sampler.stack_ids, np.int32)[:count],
            cpu_ns=np.array(sampler.cpu_ns, np.int64)[:count],
            gc_ns=np.array(sampler.gc_ns, np.int64).reshape(-1, 2),
            nic_ns=nothing,
            nic_tx=nothing,
            nic_rx=nothing,
            end_realtime_seconds=time.time(),
            **facts,
        )
