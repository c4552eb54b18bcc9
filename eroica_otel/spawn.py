"""Starts the helper process beside a worker and starts it again when it is killed.

``subprocess`` with the interpreter's own path, never multiprocessing: spawn would run the user's script again, fork
would carry its locks. Variables that would make the helper look like a rank, or instrument it, are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from eroica_otel.config import WorkerConfig
from eroica_otel.identity import LOCALS, RANKS, WORLDS

CONFIG_FILE = "config.json"
REMOVED = {*RANKS, *LOCALS, *WORLDS, "MASTER_ADDR", "MASTER_PORT", "LD_PRELOAD"}
MOST_STARTS = 5
HEALTHY_SECONDS = 60.0


def helper_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the helper inherits: no rank, no instrumentation of itself, one thread for numpy, no arenas."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in REMOVED and not name.startswith(("TORCHELASTIC_", "OTEL_PYTHON_", "TORCH_"))
    }
    paths = [path for path in kept.get("PYTHONPATH", "").split(os.pathsep) if path and not _instruments(path)]
    kept["PYTHONPATH"] = os.pathsep.join(paths)
    kept |= {"EROICA_DISABLED": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    # Python's own allocator pins an arena of 1 MB here and there with each summary: 20 MB after 20 windows.
    kept["PYTHONMALLOC"] = "malloc"
    return kept


def _instruments(path: str) -> bool:
    """Whether ``path`` is a folder whose sitecustomize attaches OpenTelemetry or us, and not a place of the user's."""
    folder = Path(path)
    ours = folder.name == "startup" and folder.parent.name == "eroica_otel"
    return (ours or "opentelemetry" in path) and (folder / "sitecustomize.py").exists()


class HelperProcess:
    """Keeps one helper running while the worker lives."""

    def __init__(
        self,
        folder: Path,
        config: WorkerConfig,
        environment: Mapping[str, str],
        failed: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._environment = helper_environment(environment)
        self._nice = os.getpriority(os.PRIO_PROCESS, 0) + config.helper_nice
        self._failed = failed
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._started_at = 0.0
        self._options = json.dumps(asdict(config))
        self._write_options()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def _write_options(self) -> None:
        (self._folder / CONFIG_FILE).write_text(self._options)

    def keep_running(self) -> None:
        """Start the helper if it does not run; called once a second. Gives up after MOST_STARTS quick deaths."""
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return
            if self._clock() - self._started_at > HEALTHY_SECONDS:
                self._starts = 0
            self._process = None
            again = "it is started again" if self._starts < MOST_STARTS else "nothing is exported until a restart"
            self._failed("helper", f"the helper process ended with code {code}; {again}; training is not affected")
        if self._starts < MOST_STARTS:
            self._starts += 1
            self._started_at = self._clock()
            with suppress(FileNotFoundError):  # the folder was removed just now: the worker will start anew
                self._write_options()  # each time: a cleaner of /tmp may have taken the file
            command = [sys.executable, "-m", "eroica_otel.helper", str(self._folder), str(os.getpid())]
            self._process = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, close_fds=True
            )
            # From outside and at once: a second of imports on every rank would compete with the training.
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, self._nice)

    def forget(self) -> None:
        """In a forked child: the helper is the parent's child, to be waited for by nobody else."""
        if self._process is not None:
            self._process.returncode = 0
            self._process = None

    def stop(self) -> None:
        """End the helper at once (uninstrumenting); at the end of training it ends by itself after a last delivery."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
