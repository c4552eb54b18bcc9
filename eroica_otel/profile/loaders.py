"""What runs inside a process of the DataLoader: a thread that sleeps until a window, then samples the loader's loop.

``WorkerLoop`` stands where torch's ``_worker_loop`` stood and calls it. It is pickled by name and finds the original by
name: a wrapper that carries the function cannot be pickled under spawn, which kills the training's loader. Whatever
fails here is left out of the window and never reaches the loader. No torch, no numpy, no OpenTelemetry.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from eroica_otel.profile.bell import LOADERS_FILE, POLL_SECONDS, Bell
from eroica_otel.profile.stacks import StackSampler

FLUSH_SECONDS = 0.5
"""A process that is killed inside a window, as at the end of an epoch, loses no more than this."""
FINISH_SECONDS = 0.2
"""Longest time that the end of a loader's process waits for its last samples to be written."""
MOST_SAMPLES = 1 << 20
"""Limit of a window that nobody ends, because the training was killed in it."""
FEWEST_HERTZ = 100.0
FULL_RATE_WORKERS = 4
"""Up to so many processes sample at the full rate; more share it, so that a machine of many ranks has its cores."""
BATCHES_KEPT = 4096
ATTRIBUTE = "_worker_loop"
END = b'{"end":1}\n'

Loop = Callable[..., Any]


class WorkerLoop:
    """Stands in for the function ``_worker_loop`` of a module, and calls it in the loader's process."""

    def __init__(self, module: str, directory: str, original: Loop | None = None) -> None:
        """Args: directory: The folder under which the training's private folder is, or will be.

        original: The function itself, known in this process and in those forked from it.
        """
        self._module = module
        self._directory = directory
        self._original = original

    def __reduce__(self) -> tuple[type[WorkerLoop], tuple[str, str]]:
        return WorkerLoop, (self._module, self._directory)

    @property
    def original(self) -> Loop:
        """The function that this stands in for; looked up by name in a process that was spawned."""
        found: Any = self._original or getattr(importlib.import_module(self._module), ATTRIBUTE)
        # A training that attaches at import does so in its spawned processes too.
        return found.original if isinstance(found, WorkerLoop) else found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the loader's loop with the listener beside it."""
        loop = self.original
        listener: Listener | None = None
        with suppress(Exception):  # the loader's process has to run, whatever goes wrong here
            listener = Listener(_training_folder(self._directory), _workers(loop, args))
            args = listener.watch_batches(loop, args)
            listener.start()
        try:
            return loop(*args, **kwargs)
        finally:
            if listener is not None:
                with suppress(Exception):
                    listener.finish()


def _training_folder(directory: str) -> Path:
    """Return the private folder of the process whose loader this is; under forkserver it is not the parent."""
    process = sys.modules["multiprocessing.process"].parent_process()
    return Path(directory) / f"pid-{process.pid if process is not None else os.getppid()}"


def _place(loop: Loop, name: str) -> int:
    return list(inspect.signature(loop).parameters).index(name)


def _workers(loop: Loop, args: tuple[Any, ...]) -> int:
    """Return how many processes the loader has."""
    return int(args[_place(loop, "num_workers")])


class Batches:
    """The queue from which a loader's process takes its tasks; notes when a task was done, passes all else on.

    Attributes:
        ended_ns: When batches were handed over: the next task is asked for right after.
    """

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._working = False
        self.ended_ns: deque[int] = deque(maxlen=BATCHES_KEPT)

    def get(self, *args: Any, **kwargs: Any) -> Any:
        if self._working:
            self._working = False
            self.ended_ns.append(time.perf_counter_ns())
        task = self._queue.get(*args, **kwargs)
        self._working = True
        return task

    def __getattr__(self, name: str) -> Any:
        if name == "_queue":  # a copy before its fields are there
            raise AttributeError(name)
        return getattr(self._queue, name)


class Listener:
    """Sleeps until the training rings, samples the thread that made it until the training says stop, and again."""

    def __init__(self, folder: Path, workers: int) -> None:
        """Args: folder: The training's private folder, which may not be there yet."""
        self._folder = folder
        self._share = min(1.0, FULL_RATE_WORKERS / max(workers, 1))
        self._thread = threading.get_ident()
        self._batches: Batches | None = None
        self._record: Record | None = None
        self._ending = False
        self._runner = threading.Thread(target=self._run, name="eroica-loader", daemon=True)

    def watch_batches(self, loop: Loop, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of the loop with its queue of tasks watched."""
        at = _place(loop, "index_queue")
        self._batches = Batches(args[at])
        return (*args[:at], self._batches, *args[at + 1 :])

    def start(self) -> None:
        """Begin to listen. Raises RuntimeError where no thread can start."""
        for callback in list(gc.callbacks):  # forked inside a window: the training's sampler is not here
            sampler = getattr(callback, "__self__", None)
            if isinstance(sampler, StackSampler):
                sampler.leave()
        self._runner.start()

    def finish(self) -> None:
        """Write what was seen in a window that still runs; called when the loop has ended."""
        self._ending = True
        record = self._record
        if record is not None:
            record.close(FINISH_SECONDS)

    def _run(self) -> None:
        with suppress(Exception):
            bell, sampled = self._open(), 0
            while bell is not None and not self._ending:
                word = bell.word
                if word & 1 and word != sampled:
                    sampled = word
                    self._sample(bell, word)
                else:
                    bell.wait(word)

    def _open(self) -> Bell | None:
        """Wait for the training's first event, before which it has no folder; None at the end of the process."""
        while not self._ending:
            try:
                return Bell(self._folder / LOADERS_FILE)
            except OSError:
                time.sleep(POLL_SECONDS)
        return None

    def _sample(self, bell: Bell, word: int) -> None:
        window, hertz = bell.window
        path = self._folder / f"window-{window}" / f"loader-{os.getpid()}.jsonl"
        sampler = StackSampler(self._thread, max(hertz * self._share, min(hertz, FEWEST_HERTZ)))
        try:
            record = self._record = Record(path, sampler, self._batches)
        except OSError:  # the window is over, or was given up
            return
        sampler.start()
        try:
            while bell.wait(word, FLUSH_SECONDS) == word and not self._ending and record.samples < MOST_SAMPLES:
                record.write()
        except OSError:  # the disk is full: what has been written counts
            pass
        finally:
            sampler.stop()
            self._record = None
            with suppress(OSError):
                record.close(FINISH_SECONDS)


class Record:
    """The file of one process and window: a line of JSON for each part that was written, ``END`` at the end."""

    def __init__(self, path: Path, sampler: StackSampler, batches: Batches | None) -> None:
        """Raises OSError where the window's folder is gone."""
        self._file: int | None = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        self._sampler = sampler
        self._batches = batches
        self._lock = threading.Lock()
        self._frames = self._stacks = 0
        self._latest_batch = time.perf_counter_ns()
        self.samples = 0

    def write(self) -> None:
        """Add what is new. Raises OSError."""
        with self._lock:
            if self._file is not None:
                os.write(self._file, self._part())

    def _part(self) -> bytes:
        sampler, before = self._sampler, self.samples
        seen = len(sampler.stack_ns)  # first: it is the column that is written last
        stacks = len(sampler.stacks)
        frames = len(sampler.frames)
        ended = self._batches.ended_ns.copy() if self._batches is not None else ()
        batches = [at for at in ended if at > self._latest_batch]
        part = {
            "frames": sampler.frames[self._frames : frames],
            "stacks": sampler.stacks[self._stacks : stacks],
            "stack_ns": sampler.stack_ns[before:seen].tolist(),
            "stack_ids": sampler.stack_ids[before:seen].tolist(),
            "cpu_ns": sampler.cpu_ns[before:seen].tolist(),
            "batch_ns": batches,
        }
        self._frames, self._stacks, self.samples = frames, stacks, seen
        self._latest_batch = max(batches, default=self._latest_batch)
        return json.dumps(part, separators=(",", ":")).encode() + b"\n"

    def close(self, patience_seconds: float) -> None:
        """Write the rest and the end; does nothing the second time, or while another thread is at it for too long.

        Raises:
            OSError: they could not be written.
        """
        if not self._lock.acquire(timeout=patience_seconds):
            return
        try:
            descriptor, self._file = self._file, None
            if descriptor is not None:
                try:
                    os.write(descriptor, self._part() + END)
                finally:
                    os.close(descriptor)
        finally:
            self._lock.release()
